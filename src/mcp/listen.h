/*
 * subscriptions/listen of 2026-07-28: its messages, the same on every
 * transport. Nothing here changes while a process lives, so that the filter
 * that is agreed on is empty. Pure functions: any thread.
 */
#ifndef MCP_LISTEN_H
#define MCP_LISTEN_H

#include <stdbool.h>

#include "mcp/rpc.h"

/* Whether the params name a filter. Its lack is "Invalid params" with
 * LISTEN_FAULT. */
bool listen_is_valid(const struct rpc_message *message);

#define LISTEN_FAULT \
	"Invalid params: notifications must be an object of what to listen " \
	"for"

/* Appends the first message of the subscription of this raw id. */
enum err listen_acknowledged(struct buf *out, const char *id) MUST_CHECK;

/* Appends the last one, the answer to the request. */
enum err listen_concluded(struct buf *out, const char *id) MUST_CHECK;

#endif
