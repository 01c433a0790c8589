/*
 * JSON values as Python's json module sees them, since the API's errors and
 * meanings are Snekbox's: the last of several equal keys wins, NaN is a
 * number, "\u0000" and lone surrogates are characters (the latter kept as
 * three bytes), a BOM is an error.
 */
#ifndef SANDBOXD_VALUE_H
#define SANDBOXD_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum value_type {
	VALUE_NULL,
	VALUE_FALSE,
	VALUE_TRUE,
	VALUE_NUMBER,
	VALUE_STRING,
	VALUE_ARRAY,
	VALUE_OBJECT
};

/* All pointers are borrowed from the document. */
struct value {
	enum value_type type;
	char *text; /* a string's bytes, a number as written */
	size_t len;
	char *name; /* key of an object's member */
	size_t name_len;
	struct value *child; /* first element or member */
	struct value *last;  /* last of them */
	struct value *next;  /* the one after this */
};

struct value_block;

/* A parsed text. The values live in it and in the text itself. */
struct value_doc {
	struct value *root;
	struct value_block *blocks; /* owned */
	size_t count;
	char fault[200]; /* what is wrong, in the words of Python */
};

/* Parses n bytes of text, which is changed and must outlive the document.
 * ERR_PARSE (fault says why), ERR_LIMIT for more than depth levels or too
 * many values, ERR_NOMEM. Release with value_done in every case. */
enum err value_parse(
    struct value_doc *doc, char *text, size_t n, unsigned depth) MUST_CHECK;

/* Parses an HTML form (application/x-www-form-urlencoded) into an object of
 * strings. As value_parse. */
enum err
value_parse_form(struct value_doc *doc, char *text, size_t n) MUST_CHECK;

void value_done(struct value_doc *doc);

/* The last member of that name, or NULL. */
struct value *value_get(const struct value *object, const char *name);

/* Appends repr(value) as Python writes it. */
enum err value_repr(struct buf *out, const struct value *value) MUST_CHECK;

/* Appends the repr of a str of n bytes. */
enum err
value_repr_text(struct buf *out, const char *text, size_t n) MUST_CHECK;

#endif
