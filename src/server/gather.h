/*
 * The raw record gatherer: takes the bytes of a connection as they come, in
 * pieces of any size, and tells what they mean. It keeps a few bytes, does no
 * I/O and never looks into parameters or bodies; libfcgi parses those later,
 * out of records that this module has already found sound.
 *
 * What a web server may do wrong is either passed over or answered, as the
 * FastCGI specification says, or is GATHER_FAULT: then the connection must be
 * closed.
 */
#ifndef SERVER_GATHER_H
#define SERVER_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/record.h"

enum gather_event {
	GATHER_MORE,       /* all bytes are used up: give more */
	GATHER_BEGIN,      /* a request begins: gather->id, ->keep */
	GATHER_RECORD,     /* a PARAMS or STDIN record of step->len bytes
				 * begins */
	GATHER_DATA,       /* a piece of its content: step->data, ->len */
	GATHER_PARAMS_END, /* the parameters are complete */
	GATHER_COMPLETE,   /* the request is complete */
	GATHER_ABORT,      /* the web server gives the request up */
	GATHER_REPLY,      /* send step->reply, step->len bytes */
	GATHER_FAULT       /* this is not FastCGI: close */
};

#define GATHER_VALUES_MAX 128

struct gather {
	uint8_t head[RECORD_HEAD]; /* the head under way */
	uint8_t head_have;
	uint8_t small[8]; /* content of short control records */
	uint8_t small_have;
	bool in_record;  /* else in the head of one */
	uint8_t type;    /* of the record under way */
	uint8_t padding; /* of it, still to come */
	uint16_t left;   /* content of it, still to come */
	uint16_t record_id;
	uint16_t id; /* of the request */
	bool active; /* between BEGIN_REQUEST and
					 * gather_end */
	bool keep;   /* the connection outlives it */
	bool params_done, stdin_done;
	uint8_t *values; /* owned: names of GET_VALUES */
	uint8_t values_len;
};

/* What one step found. */
struct gather_step {
	size_t used; /* bytes taken from the input */
	size_t len;
	const uint8_t *data;  /* borrowed from the input */
	unsigned record_type; /* RECORD_PARAMS or RECORD_STDIN */
	uint8_t reply[RECORD_VALUES_MAX];
};

void gather_init(struct gather *gather);
void gather_done(struct gather *gather);

/* Takes the next step in n bytes of input; the caller then drops step->used of
 * them and calls again until GATHER_MORE or GATHER_FAULT. connections is told
 * to a web server that asks. */
enum gather_event gather_next(struct gather *gather, const uint8_t *data,
    size_t n, unsigned connections, struct gather_step *ret_step);

/* The request has been answered (END_REQUEST is on its way): what still comes
 * for it is passed over, and the next may begin. */
void gather_end(struct gather *gather);

#endif
