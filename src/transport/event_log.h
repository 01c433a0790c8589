/*
 * The events of one stream in a file of the run folder, for clients that lost
 * their connection: written before an event is sent, replayed by any process.
 * A record is written whole or is not there for a reader.
 */
#ifndef TRANSPORT_EVENT_LOG_H
#define TRANSPORT_EVENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "mcp/rpc.h"
#include "state/session.h"

/* Hexadecimal digits of a stream's name. */
#define EVENT_LOG_NAME 16

/* An event id is the stream's name, "-" and the event's number. */
#define EVENT_LOG_ID_MAX (EVENT_LOG_NAME + 12)

struct event_log {
	int fd; /* owned; -1: nothing is kept */
	unsigned count;
	size_t bytes;
	char name[EVENT_LOG_NAME + 1];
	char path[192];
};

/* Makes the file of a new stream, for the call of this raw id. On failure
 * nothing will be kept, and log is as event_log_none makes it. */
enum err event_log_create(struct event_log *log, const char *dir,
    const char *session, const char *raw_id) MUST_CHECK;

void event_log_none(struct event_log *log);

/* The id of the next event; "" where nothing is kept. */
void event_log_next_id(const struct event_log *log, char *ret_id, size_t size);

/* Keeps an event, as it will be sent (n may be 0); last ends the stream.
 * ERR_LIMIT when there are too many: the event is to be sent without an id.
 * Other failures give the whole file up. */
enum err event_log_append(
    struct event_log *log, const void *data, size_t n, bool last) MUST_CHECK;

/* Tells that the stream still lives. */
void event_log_touch(struct event_log *log);

/* The file stays. */
void event_log_close(struct event_log *log);

struct event_reader {
	int fd; /* owned */
	uint64_t at;
	char raw_id[RPC_ID_MAX + 1];
};

/* Splits an event id. ERR_PARSE. */
enum err
event_log_id(const char *id, char *ret_name, unsigned *ret_number) MUST_CHECK;

/* ERR_NOT_FOUND when nothing is kept of that stream of that session. */
enum err event_reader_open(struct event_reader *reader, const char *dir,
    const char *session, const char *name) MUST_CHECK;
void event_reader_close(struct event_reader *reader);

/* Appends the next event to out. ERR_TRUNCATED: there is none yet. */
enum err event_reader_next(struct event_reader *reader, struct buf *out,
    unsigned *ret_number, bool *ret_last) MUST_CHECK;

/* Removes files untouched for so long, then the oldest beyond so many
 * bytes. */
void event_log_sweep(const char *dir, uint64_t time_ms, uint64_t bytes_max);

/* Removes the files of a session. */
void event_log_forget(const char *dir, const char *session);

/* Removes all files when no process listens in the folder any more. */
void event_log_leave(const char *dir);

#endif
