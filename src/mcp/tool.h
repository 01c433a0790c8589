/*
 * The tool: its definition for tools/list, and the way from the arguments of
 * a call to a job. Pure functions: any thread.
 */
#ifndef MCP_TOOL_H
#define MCP_TOOL_H

#include "base/conf.h"
#include "mcp/revision.h"
#include "mcp/rpc.h"
#include "sandbox/sandbox.h"

#define TOOL_NAME "execute_python_code"

/* Most input files of a call. */
#define TOOL_FILES_MAX 100

/* Appends the result of tools/list, with the members that the schema of the
 * revision has. */
enum err tool_list(struct buf *out, const struct conf *conf,
    enum revision revision) MUST_CHECK;

/* What is wrong with the arguments of a call, in words that name the field. */
struct tool_fault {
	char text[512];
};

/* Makes a job of a tools/call whose params.arguments is an object, null or
 * absent. ERR_RPC_PARAMS with *fault when an argument is wrong, ERR_NOMEM.
 * *ret_job is owned: sandbox_job_done. */
enum err
tool_arguments(const struct rpc_message *message, const struct conf *conf,
    struct sandbox_job *ret_job, struct tool_fault *fault) MUST_CHECK;

#endif
