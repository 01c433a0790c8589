/*
 * MCP resources: files of results (sandbox://files/ID/NAME), read by a worker,
 * and what is known of the sandbox (sandbox://environment).
 */
#ifndef MCP_RESOURCE_H
#define MCP_RESOURCE_H

#include "mcp/core.h"

#define RESOURCE_ENVIRONMENT "sandbox://environment"

/* The methods resources/list, resources/templates/list, resources/read. */
void resource_list(struct request *request);
void resource_templates(struct request *request);
void resource_read(struct request *request);

/* A session ends: its reads get no answer, their sinks are dropped. */
void resource_cut(struct mcp_session *session);

/* More is known of the environment, or never will be: whoever waits for it is
 * answered. */
void resource_wake(struct mcp *mcp);

#endif
