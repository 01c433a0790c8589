/*
 * Records of the FastCGI protocol, version 1: an eight-byte head (version,
 * type, request id, length of content, padding) and content. Pure functions,
 * but for those that append to an evbuffer.
 */
#ifndef SERVER_RECORD_H
#define SERVER_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include <event2/buffer.h>

#include "base/err.h"

#define RECORD_VERSION 1
#define RECORD_HEAD 8
#define RECORD_END_SIZE 16
#define RECORD_CONTENT_MAX 65535
#define RECORD_RESPONDER 1
#define RECORD_KEEP_CONN 1
/* the longest answer to GET_VALUES, head included */
#define RECORD_VALUES_MAX 96

enum record_type {
	RECORD_BEGIN_REQUEST = 1,
	RECORD_ABORT_REQUEST = 2,
	RECORD_END_REQUEST = 3,
	RECORD_PARAMS = 4,
	RECORD_STDIN = 5,
	RECORD_STDOUT = 6,
	RECORD_STDERR = 7,
	RECORD_DATA = 8,
	RECORD_GET_VALUES = 9,
	RECORD_GET_VALUES_RESULT = 10,
	RECORD_UNKNOWN_TYPE = 11
};

/* How a request ended, for END_REQUEST. */
enum record_status {
	RECORD_REQUEST_COMPLETE = 0,
	RECORD_CANT_MPX_CONN = 1,
	RECORD_OVERLOADED = 2,
	RECORD_UNKNOWN_ROLE = 3
};

struct record_head {
	unsigned version, type, id, len, padding;
};

void record_head_encode(
    uint8_t *ret_bytes, enum record_type type, unsigned id, size_t len);
void record_head_decode(const uint8_t *bytes, struct record_head *ret_head);

/* Writes END_REQUEST, RECORD_END_SIZE bytes. */
void record_end(uint8_t *ret_bytes, unsigned id, enum record_status status);

/* Writes UNKNOWN_TYPE, RECORD_END_SIZE bytes. */
void record_unknown(uint8_t *ret_bytes, unsigned type);

/* Writes the answer to GET_VALUES with n bytes of names: at most
 * RECORD_VALUES_MAX bytes, whose number is returned. Names that we do not
 * know, or ask twice, are left out, as the protocol says. */
size_t record_values(
    uint8_t *ret_bytes, const uint8_t *names, size_t n, unsigned connections);

/* Appends n bytes as one or more STDOUT records, none for n = 0 (an empty one
 * would end the stream). ERR_NOMEM; then some may have been appended. */
enum err record_stdout(
    struct evbuffer *out, unsigned id, const void *data, size_t n) MUST_CHECK;

/* Appends the end of STDOUT and END_REQUEST. ERR_NOMEM. */
enum err record_finish(struct evbuffer *out, unsigned id) MUST_CHECK;

#endif
