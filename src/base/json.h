/*
 * Strict JSON in front of cJSON. cJSON alone cuts strings at \u0000, makes
 * every number a double, accepts what RFC 8259 refuses and looks keys up
 * without regard to case; so a validating scanner runs first, raw texts can be
 * found again, and look-ups here are case-sensitive.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"

/* Where and why a text is not JSON. */
struct json_fault {
	size_t offset;      /* bytes from the start */
	const char *reason; /* borrowed, lives for ever */
};

/* A piece of a text, as it stands there. Borrowed from that text. */
struct json_span {
	const char *at;
	size_t len;
};

/* Limits of json_check that no setting changes. */
#define JSON_NUMBER_MAX 63     /* characters of a number: cJSON cuts longer */
#define JSON_MEMBERS_MAX 65536 /* members of one object */
#define JSON_VALUES_MAX 262144 /* in all: each costs many bytes as a tree */

/* Checks that len bytes are exactly one JSON text: valid UTF-8, the grammar of
 * RFC 8259, no byte order mark, no duplicate keys in an object (compared as
 * they read, without their escapes), no NUL in keys, no lone surrogates,
 * numbers of at most JSON_NUMBER_MAX characters. ERR_PARSE; ERR_LIMIT beyond
 * max_depth levels, JSON_MEMBERS_MAX or JSON_VALUES_MAX; ERR_NOMEM. *ret_fault (may be
 * NULL) is set on failure. Never recurses; time is n log n at the worst. */
enum err json_check(const char *text, size_t len, unsigned max_depth,
    struct json_fault *ret_fault) MUST_CHECK;

/* json_check, then cJSON. *ret_json is owned: cJSON_Delete. Strings with
 * \u0000 are cut there by cJSON: use json_find and json_string for those. */
enum err json_parse(const char *text, size_t len, unsigned max_depth,
    cJSON **ret_json, struct json_fault *ret_fault) MUST_CHECK;

/* Finds the value at a path of object keys, ended by NULL, as raw text. The
 * text must have passed json_check. ERR_NOT_FOUND. */
enum err json_find(const char *text, size_t len, const char *const *path,
    struct json_span *ret_span) MUST_CHECK;

/* Walks an array as raw text: the item at *at (0 for the first), and moves *at
 * behind it. The text must have passed json_check. ERR_NOT_FOUND after the
 * last one, or when the span is no array. */
enum err json_item(
    struct json_span array, size_t *at, struct json_span *ret_item) MUST_CHECK;

/* Decodes the escape that begins at *at with a backslash: writes at most 4
 * bytes of UTF-8, moves *at behind it and returns how many were written. The
 * text must have passed json_check. */
size_t json_unescape(const char **at, char *ret_utf8);

/* Appends what a raw string (with its quotes) stands for, NUL bytes included.
 * ERR_PARSE when the span is no string. */
enum err json_string(struct json_span span, struct buf *out) MUST_CHECK;

/* Whether a raw string reads exactly as text; a NUL in it never does. */
bool json_equal(struct json_span span, const char *text);

/* Whether n bytes are valid UTF-8. */
bool json_utf8(const char *text, size_t n);

/* Appends a JSON string with quotes of n bytes of valid UTF-8. */
enum err json_quote(struct buf *out, const char *text, size_t n) MUST_CHECK;

/* The member of an object, by exact key; NULL when there is none or when
 * object is no object. Borrowed. */
const cJSON *json_get(const cJSON *object, const char *key);

/* The text of a string member, or NULL. Borrowed. */
const char *json_get_string(const cJSON *object, const char *key);

#endif
