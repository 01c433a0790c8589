/* Batches of JSON-RPC, which the revision 2025-03-26 alone has. Pure
 * functions: any thread. */
#ifndef MCP_BATCH_H
#define MCP_BATCH_H

#include "mcp/rpc.h"

/* Most messages of a batch. */
#define BATCH_MAX 64

struct batch_item {
	struct rpc_message *message; /* owned; NULL: see fault */
	struct rpc_fault fault;
};

struct batch {
	size_t n;
	struct batch_item items[];
};

/* Whether a body is meant as a batch. */
bool batch_is(const char *text, size_t len);

/* Parses a batch; items that are no messages keep their fault. Returns
 * fault->err when the whole is none: not JSON, empty, too many. *ret_batch is
 * owned: batch_free. */
enum err batch_parse(const char *text, size_t len, const struct conf *conf,
    struct batch **ret_batch, struct rpc_fault *fault) MUST_CHECK;

/* NULL is accepted. */
void batch_free(struct batch *batch);

#endif
