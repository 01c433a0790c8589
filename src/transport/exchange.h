/*
 * One request on its way through the program, and the two interfaces by which
 * transports reach the server below the web server without knowing it:
 * struct peer (answer a request) and struct stream (an open event stream).
 */
#ifndef TRANSPORT_EXCHANGE_H
#define TRANSPORT_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "mcp/batch.h"
#include "mcp/rpc.h"
#include "transport/http.h"

struct exchange;
struct transport;

/* An open stream, implemented by the server; valid until close is called or
 * events->closed has come. Loop's thread only. None of the functions calls
 * back before it returns. */
struct stream {
	const struct stream_ops *ops;
};

struct stream_ops {
	/* Sends n bytes, all or, when memory is short or the client too slow,
	 * none: then the stream ends and events->closed follows. */
	void (*write)(struct stream *stream, const void *data, size_t n);
	/* Ends the stream after what was written; events->closed does not
	 * come. */
	void (*close)(struct stream *stream);
	/* Ends the stream soon, as if the client were gone: events->closed
	 * follows. For who must not end it at once. */
	void (*fail)(struct stream *stream);
	/* A call has begun whose end depends on this stream: keep-alives come
	 * fast until events->busy says no. */
	void (*busy)(struct stream *stream);
};

/* What the server tells the owner of a stream. */
struct stream_events {
	/* The client is gone or was dropped; the stream is no more. */
	void (*closed)(void *arg);
	/* It is time for a comment. May close the stream. */
	void (*keepalive)(void *arg);
	/* Whether a call is still under way. */
	bool (*busy)(void *arg);
};

/* Who asked, implemented by the server. */
struct peer {
	const struct peer_ops *ops;
};

struct peer_ops {
	/* Sends exchange->response as the whole answer, if the client is still
	 * there. */
	void (*answer)(struct peer *peer, struct exchange *exchange);
	/* Whether a stream can be opened now: ERR_OK, or what stream would
	 * return. */
	enum err (*streamable)(struct peer *peer) MUST_CHECK;
	/* Sends the head of exchange->response and opens a stream. ERR_CLOSED
	 * when the client is gone, ERR_BUSY when there are too many; then the
	 * peer still waits for an answer. */
	enum err (*stream)(struct peer *peer, struct exchange *exchange,
	    const struct stream_events *events, void *arg,
	    struct stream **ret_stream) MUST_CHECK;
};

/* Made by the server. In a worker, route_prepare fills response, or run and
 * what it needs; in the loop run(exchange) is called, or the response sent.
 * run takes ownership of the exchange: it ends in exchange_answer or
 * exchange_stream, at once or later. */
struct exchange {
	struct transport *transport; /* borrowed */
	struct peer *peer;           /* borrowed, set by the server */
	struct http_request request;
	struct http_response response;
	size_t prefix_len;           /* of request.path: where we are mounted */
	size_t shown;                /* bytes of request.path that a log may
				      * hold; 0: all */
	struct rpc_message *message; /* owned, or NULL */
	struct batch *batch;         /* owned, or NULL */
	void (*run)(struct exchange *exchange);
};

/* NULL when memory is short. Owned: exchange_free, if not given away. */
struct exchange *exchange_new(struct transport *transport) MUST_CHECK;

/* NULL is accepted. */
void exchange_free(struct exchange *exchange);

/* Sends the response and frees the exchange. */
void exchange_answer(struct exchange *exchange);

/* http_error_of, then exchange_answer. */
void exchange_refuse(struct exchange *exchange, enum err err, const char *text);

/* Whether exchange_stream can work now: to be asked before anything is made
 * for the stream. */
enum err exchange_streamable(struct exchange *exchange) MUST_CHECK;

/* Opens a stream; the exchange is freed, memory of the request and all, if and
 * only if ERR_OK is returned. */
enum err
exchange_stream(struct exchange *exchange, const struct stream_events *events,
    void *arg, struct stream **ret_stream) MUST_CHECK;

#endif
