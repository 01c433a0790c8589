/*
 * The directory of sessions over all processes. An interface: what stands
 * behind it today is the shared table (shm.h); a second one for several
 * machines can stand beside it.
 *
 * An id is 32 random hexadecimal digits (128 bits) and the 16 digits of the
 * process that made it.
 */
#ifndef STATE_SESSION_H
#define STATE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "state/shm.h"

#define SESSION_ID_LEN 48

enum session_kind { SESSION_SSE, SESSION_STREAMABLE };

struct session_info {
	char id[SESSION_ID_LEN + 1];
	enum session_kind kind;
	uint64_t owner;      /* process that holds its stream */
	unsigned revision;   /* enum revision of mcp/, 0 before initialize */
	char client[64];     /* client key: token name or address */
	uint64_t created_ms; /* clock_ms */
	uint64_t seen_ms;    /* clock_ms of the last message */
};

/* Every function here and in limit.h may also fail with ERR_TIMEOUT: the table's
 * lock could not be had for half a second (its holder is stopped). */

/* Makes a session of this process; the owner of a streamable one is 0 until it
 * has a stream. When the table is full the session
 * longest idle without call or stream makes room; ERR_BUSY where none can.
 * ret_id holds SESSION_ID_LEN + 1 bytes. */
enum err session_create(struct state *state, enum session_kind kind,
    const char *client, char *ret_id) MUST_CHECK;

/* Looks a session up, also another process' one. ERR_PARSE when id has not the
 * form of an id, ERR_NOT_FOUND when it is unknown or its owner is dead
 * (SESSION_SSE). */
enum err session_find(struct state *state, const char *id,
    struct session_info *ret_info) MUST_CHECK;

/* The process whose digits stand in an id, also where session_find knows
 * nothing: during an upgrade it may belong to another version of the program
 * with a table of its own; its inbox answers for it. ERR_PARSE. */
enum err session_process(const char *id, uint64_t *ret_process) MUST_CHECK;

/* Notes that this process holds, or no longer holds, a stream of a streamable
 * session: one with a stream never makes room for others. ERR_NOT_FOUND. */
enum err
session_stream(struct state *state, const char *id, bool open) MUST_CHECK;

/* Notes a message of the session, and its revision when that is not 0. */
enum err session_touch(struct state *state, const char *id, unsigned revision)
    MUST_CHECK;

/* Ends the streamable sessions without call or stream that no message came for
 * in so long; returns how many. */
unsigned session_expire(struct state *state, uint64_t idle_ms);

/* Ends a session: its slot and calls are free. ERR_NOT_FOUND. */
enum err session_end(struct state *state, const char *id) MUST_CHECK;

/* Notes that a call with this typed raw JSON-RPC id runs for the session in
 * this process. ERR_BUSY when the table is full or the session has
 * session_calls_max calls, ERR_INTERNAL when the same id is under way in that
 * session. ERR_NOT_FOUND. */
enum err session_call_begin(
    struct state *state, const char *id, const char *raw_call_id) MUST_CHECK;
void
session_call_end(struct state *state, const char *id, const char *raw_call_id);

/* The process that runs a call. ERR_NOT_FOUND. */
enum err session_call_find(struct state *state, const char *id,
    const char *raw_call_id, uint64_t *ret_process) MUST_CHECK;

struct session_counts {
	unsigned processes, sessions, calls, leases, waiters;
};
void session_count(struct state *state, struct session_counts *ret_counts);

#endif
