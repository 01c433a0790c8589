/*
 * A tools/call under way. Its stages: a worker reads the arguments and builds
 * the request; it waits in the queue of state/limit.h; it runs; a worker
 * shapes the answer. What the peer does meanwhile (cancel, go away) may come
 * at any stage; a call that a worker holds then is only cut off from its
 * session and goes when the worker is done.
 */
#ifndef MCP_EXECUTE_H
#define MCP_EXECUTE_H

#include "mcp/core.h"

/* Begins a call; takes message and sink of the request, or answers it with an
 * error. Its arguments are an object, null or absent. */
void execute_call(struct request *request);

/* Cancels the session's call of this raw id: no answer, the sink is dropped.
 * Unknown ids are passed over. */
void execute_cancel(struct mcp_session *session, const char *id);

/* The same for whichever mcp_session serves the session of that id; returns
 * whether there was such a call. */
bool
execute_cancel_of(struct mcp *mcp, const char *session_id, const char *raw_id);

/* Cancels all calls of a session that ends. */
void execute_cancel_all(struct mcp_session *session);

/* Lets every waiting call look at the queue. */
void execute_ring(struct mcp *mcp);

#endif
