/*
 * The envelope of 2026-07-28 in params._meta of every request: which version
 * it is meant in, and what its client can do. Pure functions: any thread.
 */
#ifndef MCP_ENVELOPE_H
#define MCP_ENVELOPE_H

#include "mcp/rpc.h"

/* Why an envelope is refused, as the members of a JSON-RPC error. */
struct envelope_fault {
	int code;
	const char *text; /* borrowed, lives for ever */
	struct buf data;  /* raw JSON or empty, owned: buf_done */
};

/* Whether a message carries one, right or wrong. */
bool envelope_is_there(const struct rpc_message *message);

/* The version that a checked envelope names. Borrowed from the message. */
const char *envelope_version(const struct rpc_message *message);

/* Whether the envelope has what it must have, of the right types. */
enum err envelope_check(
    const struct rpc_message *message, struct envelope_fault *fault) MUST_CHECK;

/* Whether the version of a checked envelope is served. */
enum err envelope_check_version(
    const struct rpc_message *message, struct envelope_fault *fault) MUST_CHECK;

#endif
