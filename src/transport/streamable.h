/*
 * Streamable HTTP on /mcp. The revisions 2025-03-26 to 2025-11-25 have
 * sessions, which are slots of the shared table: any process serves them. A
 * tools/call is answered with an event stream where the client takes one; its
 * events are kept (event_log.h), because there a disconnect is no
 * cancellation. The stateless revision 2026-07-28 is served on the same path,
 * request by request; there the end of a stream cancels its call.
 *
 * Loop's thread only, but for the three handlers.
 */
#ifndef TRANSPORT_STREAMABLE_H
#define TRANSPORT_STREAMABLE_H

#include <stdbool.h>

#include "mcp/mcp.h"
#include "state/inbox.h"
#include "transport/exchange.h"

struct streamable;

/* All arguments are borrowed until streamable_close. */
enum err
streamable_open(const struct conf *conf, struct state *state, struct mcp *mcp,
    struct event_base *base, struct streamable **ret_streamable) MUST_CHECK;

/* Everything must have been drained. NULL is accepted. */
void streamable_close(struct streamable *streamable);

/* Handlers of the route table: prepare in a worker. */
void streamable_post(struct exchange *exchange);
void streamable_get(struct exchange *exchange);
void streamable_delete(struct exchange *exchange);

/* The inbox to send cancellations with (borrowed); NULL while there is
 * none. */
void streamable_set_inbox(struct streamable *streamable, struct inbox *inbox);

/* An INBOX_CANCEL came; acknowledges it. */
void streamable_received(struct streamable *streamable,
    struct inbox_message *message, const struct inbox_view *view);

/* Every second: ended sessions, old sessions, old events. */
void streamable_tick(struct streamable *streamable);

/* Shutting down: ends what has no call under way, or with all everything.
 * Returns how many calls are left. */
unsigned streamable_drain(struct streamable *streamable, bool all);

#endif
