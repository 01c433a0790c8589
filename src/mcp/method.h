/*
 * The methods: one const table {name, revisions, handler}, the only way from
 * a request to a command, and one for notifications.
 */
#ifndef MCP_METHOD_H
#define MCP_METHOD_H

#include "mcp/core.h"

/* Handles a request; takes what it owns. */
void method_request(struct request *request);

/* Handles a notification; message is borrowed. */
void method_notification(
    struct mcp_session *session, const struct rpc_message *message);

#endif
