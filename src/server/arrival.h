/*
 * A request while it arrives: its records, as canonical ones, in a file in
 * memory that libfcgi will read, and the caps on what it may hold.
 */
#ifndef SERVER_ARRIVAL_H
#define SERVER_ARRIVAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/err.h"
#include "server/gather.h"
#include "server/params.h"

struct arrival {
	const struct conf *conf; /* borrowed */
	int fd;                  /* a memfd, owned */
	struct params params;    /* their check */
	size_t params_len;       /* content so far */
	size_t body_len;
	size_t stored; /* bytes in the file */
};

/* Makes the file and writes BEGIN_REQUEST. ERR_SYS (no descriptor, no
 * memory). *ret_arrival is owned: arrival_free. */
enum err arrival_new(const struct conf *conf, unsigned id,
    struct arrival **ret_arrival) MUST_CHECK;

/* NULL is accepted. */
void arrival_free(struct arrival *arrival);

/* Notes that a PARAMS or STDIN record of len bytes begins (len 0: its stream
 * ends) and stores its head. ERR_HTTP_HEADERS or ERR_HTTP_TOO_LARGE beyond the
 * caps, before anything of the record is stored; ERR_PARSE when parameters end
 * within a pair; ERR_SYS. */
enum err arrival_record(
    struct arrival *arrival, unsigned type, unsigned id, size_t len) MUST_CHECK;

/* Stores content of such a record. ERR_PARSE for malformed parameters;
 * ERR_SYS. */
enum err arrival_data(struct arrival *arrival, unsigned type,
    const uint8_t *data, size_t n) MUST_CHECK;

/* The request is complete: gives its file away, to be read from its start, and
 * the length of its body. */
enum err arrival_finish(
    struct arrival *arrival, int *ret_fd, size_t *ret_body_len) MUST_CHECK;

#endif
