/*
 * A check of the name-value pairs of PARAMS as they come: libfcgi believes
 * their lengths and would ask for two gigabytes when told to, and C strings
 * end at a NUL that the web server did not mean. Pure.
 */
#ifndef SERVER_PARAMS_H
#define SERVER_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Zeroed memory is one that has seen nothing. */
struct params {
	uint8_t lengths[8]; /* of the pair that begins */
	uint8_t have;       /* bytes of them */
	size_t left;        /* of names and values: bytes still to come */
};

/* Takes n more bytes. ERR_PARSE when a pair is longer than max or holds a
 * NUL. */
enum err params_take(struct params *params, const uint8_t *data, size_t n,
    size_t max) MUST_CHECK;

/* Whether the last pair is complete. */
bool params_complete(const struct params *params);

#endif
