/*
 * One connection from a web server; private to server/. Its life: idle,
 * a request arriving, a worker or route busy with it, then either answered
 * (and idle again, or lingering until the peer has closed) or a stream.
 *
 * Connections are never freed where they fail: conn_doom puts them on a list
 * that the loop empties once nothing of theirs is on the stack.
 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <event2/bufferevent.h>

#include "server/arrival.h"
#include "server/gather.h"
#include "server/server.h"
#include "server/ticks.h"
#include "transport/exchange.h"

enum conn_phase {
	CONN_IDLE,
	CONN_ARRIVING,
	CONN_WORKING,
	CONN_FILE, /* a file flows out as the body of the answer */
	CONN_STREAM,
	CONN_LINGER,
	CONN_DOOMED
};

struct file_body;

struct conn {
	struct stream stream;
	struct peer peer;
	struct server *server;
	struct bufferevent *bev; /* owned; NULL: buried */
	TAILQ_ENTRY(conn) link;  /* server->conns */
	SLIST_ENTRY(conn) dying; /* server->dying */
	struct tick tick;
	struct gather gather;
	struct arrival *arrival;            /* owned; while a request arrives */
	struct file_body *file;             /* owned; in CONN_FILE */
	const struct stream_events *events; /* of a stream, else NULL */
	void *events_arg;
	uint64_t started;   /* clock_ms when the request began */
	size_t passed_over; /* bytes read for nothing after an answer */
	uint8_t phase;      /* enum conn_phase */
	uint8_t stalls;     /* keep-alives that a stream had no room for */
	bool working;       /* an exchange points to us */
	bool eof;           /* the peer will send no more */
	bool early;         /* answered before the request was read */
};

TAILQ_HEAD(conn_list, conn);
SLIST_HEAD(conn_stack, conn);

struct server {
	const struct conf *conf;
	struct loop *loop;
	struct workers *workers;
	struct transport *transport;
	struct evbuffer *scratch; /* owned; empty between uses */
	struct event *reaper;     /* owned */
	struct conn_list conns;
	struct conn_stack dying;
	struct ticks arriving, answering, lingering, idle, busy;
	atomic_uint open; /* descriptors of connections */
	unsigned max_open, max_streams;
	unsigned requests; /* arriving or worked on */
	unsigned streams;
	unsigned files, max_files; /* answers in CONN_FILE */
	unsigned count;            /* connections */
	bool draining;
};

/* Takes ownership of fd, also on failure. */
void conn_new(struct server *server, int fd);

/* Ends a connection soon; whatever was not written is lost. */
void conn_doom(struct conn *conn);

/* Frees a connection that nothing points to any more. */
void conn_free(struct conn *conn);

/* What comes next once all of an answer is written. */
void conn_written(struct conn *conn);

/* Sends what is in server->scratch, and empties it. */
void conn_flush(struct conn *conn);

/* Answers a request that has not been read whole. */
void conn_refuse(struct conn *conn, enum err err, const char *text);

/* The response is sent as the answer to the request, which ends; of a file its
 * descriptor is taken. */
void conn_answer(struct conn *conn, struct http_response *response);

/* Takes the file of a response whose head is written, to send it piece by
 * piece: the next one whenever all before it is written. */
void conn_file_begin(struct conn *conn, struct http_response *response);
void conn_file_more(struct conn *conn);

/* A deadline has come: whether the peer has taken anything since the last. */
bool conn_file_moved(struct conn *conn);
void conn_file_free(struct conn *conn);

/* Ends the request after what was written: the connection is kept or
 * closed. */
void conn_finish(struct conn *conn);

/* Hands a complete request to a worker. ERR_NOMEM, ERR_SYS. */
enum err conn_submit(struct conn *conn) MUST_CHECK;

/* A deadline of a stream has come. */
void conn_stream_idle(struct tick *tick);
void conn_stream_busy(struct tick *tick);

/* How transports reach a connection. */
extern const struct peer_ops conn_peer_ops;
extern const struct stream_ops conn_stream_ops;

static inline struct conn *
conn_of_tick(struct tick *tick)
{
	return (
	    struct conn *)(void *)((char *)tick - offsetof(struct conn, tick));
}

static inline struct conn *
conn_of_peer(struct peer *peer)
{
	return (
	    struct conn *)(void *)((char *)peer - offsetof(struct conn, peer));
}

#endif
