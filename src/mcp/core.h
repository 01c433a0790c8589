/* What the files of mcp/ share among themselves; nobody else includes it. */
#ifndef MCP_CORE_H
#define MCP_CORE_H

#include <sys/queue.h>

#include "mcp/artifact.h"
#include "mcp/mcp.h"
#include "state/session.h"

struct call;
TAILQ_HEAD(call_list, call);

struct mcp {
	const struct conf *conf; /* all four borrowed */
	struct state *state;
	struct snekbox *snekbox;
	struct mcp_host *host;
	struct artifacts *artifacts; /* owned */
	uint64_t sweep_due;          /* clock_ms; 0: a worker is at it */
	char *tools[REVISION_COUNT]; /* results of tools/list, owned */
	struct call_list calls;      /* owned; also those that only wait for
					 * a worker to end */
	unsigned n_calls;
	bool draining;
};

struct mcp_session {
	struct mcp *mcp;
	char *id;     /* owned */
	char *client; /* owned */
	enum revision revision;
	struct call_list calls; /* borrowed */
	unsigned n_calls;
};

/* One request on its way through the methods. A handler answers it by
 * exactly one of the functions below, or steals message and sink. */
struct request {
	struct mcp_session *session;
	struct rpc_message *message; /* owned */
	struct sink *sink;           /* owned */
};

/* Answers a request with raw JSON, or with an error of this text. Afterwards
 * the session may be gone: a transport may end it while it writes. */
void request_result(struct request *request, const char *result);
void request_error(struct request *request, enum err err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
