/*
 * A request as the web server gives it (CGI variables and a body), and the
 * answer to it. Pure functions: any thread.
 */
#ifndef TRANSPORT_HTTP_H
#define TRANSPORT_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Longest path that is looked at. */
#define HTTP_PATH_MAX 1024

struct http_request {
	struct buf fields; /* "NAME=value", each with its NUL */
	struct buf body;
	struct buf path;    /* http_request_ready makes it */
	const char *method; /* borrowed from fields; "" when missing */
	const char *query;  /* borrowed from fields; "" when there is none */
};

/* Makes an empty request that will hold at most so many bytes. */
void http_request_init(
    struct http_request *request, size_t fields_max, size_t body_max);
void http_request_done(struct http_request *request);

/* Adds one "NAME=value". ERR_LIMIT, ERR_NOMEM. */
enum err
http_request_add(struct http_request *request, const char *field) MUST_CHECK;

/* To be called once all fields are there: finds method and query and makes
 * path, which is REQUEST_URI without scheme, host and query, in a form that
 * is safe in a header or an event: it begins with one "/", has no empty, "."
 * or ".." segments, and holds only characters that a URI may hold, what is not
 * unreserved percent-encoded as it came. ERR_PARSE when there is no such
 * form. */
enum err http_request_ready(struct http_request *request) MUST_CHECK;

/* The value of a variable, or NULL. The first wins. Borrowed. */
const char *http_field(const struct http_request *request, const char *name);

/* Appends the normal form of a path or an absolute URI, as said above; of a
 * query nothing is kept. ERR_PARSE for control characters, wrong escapes and
 * %00, ERR_LIMIT beyond HTTP_PATH_MAX. */
enum err http_path_normal(const char *uri, struct buf *out) MUST_CHECK;

/* Copies the value of a query parameter, percent-decoded. ERR_NOT_FOUND;
 * ERR_PARSE for wrong escapes, control characters or a parameter given twice;
 * ERR_LIMIT when it does not fit. */
enum err http_query(const char *query, const char *name, char *ret_value,
    size_t size) MUST_CHECK;

/* Whether a Content-Type is absent or application/json, whatever its case and
 * parameters. */
bool http_type_is_json(const char *content_type);

/* Whether an Accept field (NULL: anything) takes a media type such as
 * "text/event-stream": ranges, any case, q-values, q=0 refuses. */
bool http_accepts(const char *accept, const char *media_type);

/* Checks that CONTENT_LENGTH, where given, is the number of bytes in the body.
 * ERR_PARSE when it is no number, ERR_TRUNCATED when it is another. */
enum err http_check_length(const struct http_request *request) MUST_CHECK;

/* What a Range field asks of a body of size bytes. */
enum http_range {
	HTTP_RANGE_NONE, /* all of it: absent, several, or not to be read */
	HTTP_RANGE_PART,
	HTTP_RANGE_BEYOND /* nothing that there is */
};

/* Reads a Range field (NULL: absent). *ret_at and *ret_len are set for
 * HTTP_RANGE_PART, within size. */
enum http_range http_range(const char *field, uint64_t size, uint64_t *ret_at,
    uint64_t *ret_len) MUST_CHECK;

/* Whether an If-None-Match field (NULL: never) names the entity tag, quotes
 * included; "*" names all, a weak tag counts. */
bool http_etag_listed(const char *field, const char *etag);

/* Appends the value of Content-Disposition for a file of this name (RFC 6266):
 * a plain name, and the true one when it differs (RFC 8187). Slashes and
 * control characters become "_"; name is UTF-8. */
enum err http_disposition(struct buf *out, bool shown_inline, const char *name)
    MUST_CHECK;

struct http_response {
	int status;
	bool head_only;  /* the answer to HEAD: no body is sent */
	struct buf head; /* header lines, each with its line end */
	struct buf body;
	int file; /* owned: its bytes are the body; -1: buf body is */
	uint64_t file_at, file_len;
};

/* 200 without header lines and body. */
void http_response_init(struct http_response *response);
void http_response_done(struct http_response *response);

/* Adds a header line. ERR_PARSE when a control character is in it: nothing of
 * a peer may begin a line of its own. */
enum err http_header(struct http_response *response, const char *name,
    const char *value) MUST_CHECK;

/* Makes the answer an error: status, and as body the JSON-RPC error object
 * {"jsonrpc":"2.0","id":ID,"error":{"code":…,"message":…}}. id is raw JSON,
 * NULL or "" for null. Header lines that are there already stay. Where memory
 * is short only the status is set. */
void http_error(struct http_response *response, int status, const char *id,
    int code, const char *text);

/* The same with status and code of err; text NULL: that of err. */
void
http_error_of(struct http_response *response, enum err err, const char *text);

/* Appends the head as a web server takes it from a CGI program: Status with
 * reason, the header lines, Content-Length unless it is a stream (or 204 or
 * 304), the empty line. */
enum err http_response_head(const struct http_response *response, bool stream,
    struct buf *out) MUST_CHECK;

/* "Not Found". Borrowed, lives for ever. */
const char *http_reason(int status);

#endif
