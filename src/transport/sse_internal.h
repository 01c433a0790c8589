/* What the files of the sse transport share. */
#ifndef TRANSPORT_SSE_INTERNAL_H
#define TRANSPORT_SSE_INTERNAL_H

#include "transport/sse_table.h"

struct sse_incoming; /* a forwarded message being parsed */

struct sse {
	const struct conf *conf;
	struct state *state;
	struct mcp *mcp;
	struct mcp_host *host;
	struct inbox *inbox; /* borrowed, or NULL */
	struct sse_table sessions;
	struct sse_incoming *incoming; /* list */
	bool draining;
};

/* Ends a session and its stream. */
void sse_session_close(struct sse_session *session);

/* Makes what takes the answer to message: NULL for what is no request.
 * ERR_NOMEM. */
enum err sse_sink_new(struct sse_session *session,
    const struct rpc_message *message, struct sink **ret_sink) MUST_CHECK;

/* For a sink that was not given to mcp_handle. NULL is accepted. */
void sse_sink_free(struct sink *sink);

/* Hands a message to the core; takes ownership of message and
 * sink. */
void sse_deliver(struct sse_session *session, struct rpc_message *message,
    struct sink *sink);

/* Frees what still waited for the inbox or a worker; both have ended. */
void sse_incoming_done(struct sse *sse);

#endif
