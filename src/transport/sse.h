/*
 * The HTTP+SSE transport of MCP 2024-11-05: GET /sse opens a stream and tells
 * where to POST; POST /messages/?session_id=… is answered 202, the answer
 * proper comes on the stream. A session lives as long as its stream, in the
 * process that holds it; what arrives elsewhere is forwarded to its inbox.
 *
 * Loop's thread only, but for sse_get and sse_post.
 */
#ifndef TRANSPORT_SSE_H
#define TRANSPORT_SSE_H

#include <stdbool.h>

#include "mcp/mcp.h"
#include "state/inbox.h"
#include "transport/exchange.h"

struct sse;

/* The sessions of this process. All arguments are borrowed until sse_close. */
enum err sse_open(const struct conf *conf, struct state *state, struct mcp *mcp,
    struct mcp_host *host, struct sse **ret_sse) MUST_CHECK;

/* Every stream must be closed. NULL is accepted. */
void sse_close(struct sse *sse);

/* Handlers of the route table: prepare in a worker. */
void sse_get(struct exchange *exchange);
void sse_post(struct exchange *exchange);

/* The inbox to forward with (borrowed); NULL while there is none: messages
 * received before, not yet acknowledged, are then forgotten, as inbox_close
 * does. */
void sse_set_inbox(struct sse *sse, struct inbox *inbox);

/* An INBOX_POST came: leads to inbox_ack. */
void sse_received(struct sse *sse, struct inbox_message *message,
    const struct inbox_view *view);

/* Ends the sessions that are no longer in the table. */
void sse_check(struct sse *sse);

/* Shutting down: no new sessions; ends those without a call under way, or with
 * all every one. Returns how many are left. */
unsigned sse_drain(struct sse *sse, bool all);

#endif
