/*
 * Messages between the processes: each listens on a Unix stream socket
 * <run_dir>/<process, 16 hex digits>.sock (0600), versioned framing, peer
 * credentials checked. Everything runs in one event loop and never blocks.
 */
#ifndef STATE_INBOX_H
#define STATE_INBOX_H

#include <event2/event.h>

#include "state/shm.h"

enum inbox_type {
	INBOX_POST = 1,  /* a client's message for a session */
	INBOX_RING = 2,  /* look at the queue of limit.h */
	INBOX_CANCEL = 3 /* the raw id of a call of the session: end it */
};

/* The owner's answer. */
enum inbox_ack {
	INBOX_ACCEPTED, /* will be executed once this ack is written */
	INBOX_UNKNOWN,  /* no such session here */
	INBOX_REFUSED   /* shutting down or overloaded */
};

/* What a body may be longer than the setting body_max, for what the sender adds
 * to a client's message. */
#define INBOX_EXTRA 65536

struct inbox;
struct inbox_message; /* one received message, until it is acked */

/* Borrowed until inbox_ack. */
struct inbox_view {
	enum inbox_type type;
	const char *session; /* id, "" for INBOX_RING */
	const char *body;
	size_t len;
};

/* Called in the loop for each message; must lead to one inbox_ack, now or
 * later. */
struct inbox_ops {
	void (*received)(void *arg, struct inbox_message *message,
	    const struct inbox_view *view);
};

/* Opens this process' inbox in the loop of base; ops and arg are borrowed
 * until inbox_close. ERR_SYS. */
enum err inbox_open(struct state *state, struct event_base *base,
    const struct inbox_ops *ops, void *arg, struct inbox **ret_inbox)
    MUST_CHECK;

/* Stops listening, unlinks the socket, drops messages not yet acked (they must
 * not be acked any more: their senders see us gone) and ends sends under way
 * with ERR_CLOSED. NULL is accepted. */
void inbox_close(struct inbox *inbox);

/* Answers a message; written(arg) is called once the answer is on its way, or
 * lost(arg) when the sender is gone or gave up before: then nothing may be
 * executed. One of them is called before this returns. Both may be NULL. The
 * message is released. */
void inbox_ack(struct inbox_message *message, enum inbox_ack ack,
    void (*written)(void *arg), void (*lost)(void *arg), void *arg);

/* The outcome of a send: ERR_OK with the owner's ack; ERR_NOT_FOUND when that
 * process is dead (at once); ERR_BUSY when its inbox stayed full, or it did not
 * answer, for 2 s: then it will not execute the message either. */
struct inbox_sent {
	enum err err;
	enum inbox_ack ack;
};

/* Sends a message to the inbox of process and calls done(arg, result) exactly
 * once, never before this returns. body is copied, at most body_max and
 * INBOX_EXTRA bytes (ERR_LIMIT); session is "" for INBOX_RING and has the form of
 * an id else (ERR_PARSE). done may be NULL. ERR_NOMEM. */
enum err inbox_send(struct inbox *inbox, uint64_t process, enum inbox_type type,
    const char *session, const char *body, size_t len,
    void (*done)(void *arg, struct inbox_sent sent), void *arg) MUST_CHECK;

#endif
