/* What the files of mcp/ share among themselves; nobody else includes it. */
#ifndef MCP_CORE_H
#define MCP_CORE_H

#include <sys/queue.h>

#include "mcp/artifact.h"
#include "mcp/mcp.h"
#include "sandbox/sandbox.h"
#include "state/session.h"

struct call;
TAILQ_HEAD(call_list, call);

struct reading;
TAILQ_HEAD(reading_list, reading);

struct environment;

struct mcp {
	const struct conf *conf; /* all four borrowed */
	struct state *state;
	struct snekbox *snekbox;
	struct mcp_host *host;
	struct artifacts *artifacts;     /* owned */
	uint64_t sweep_due;              /* clock_ms; 0: a worker is at it */
	char *tools[REVISION_COUNT];     /* results of tools/list, owned */
	struct call_list calls;          /* owned; also those that only wait for
					 * a worker to end */
	struct reading_list readings;    /* owned; of the same kind */
	unsigned n_calls;                /* readings included */
	struct environment *environment; /* owned */
	bool draining;
};

struct mcp_session {
	struct mcp *mcp;
	char *id;     /* owned */
	char *client; /* owned */
	char *base;   /* of URLs, owned; NULL: unknown */
	char *owner;  /* key of its artifacts, owned */
	enum revision revision;
	struct call_list calls; /* borrowed */
	unsigned n_calls;
	struct reading_list readings; /* borrowed */
	unsigned n_readings;
	bool internal; /* our own: not counted, leaves no files */
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

/* Answers a request with a whole message that was built, or could not be. */
void
request_raw(struct request *request, enum err built, const struct buf *message);

/* Something begins or ends that must have ended before the core is closed. */
void mcp_work_begin(struct mcp *mcp);
void mcp_work_end(struct mcp *mcp);

/* What applies to a run with this time limit, as far as it is known: a Snekbox
 * does not tell its own limits. */
struct sandbox_limits
mcp_limits(const struct mcp *mcp, unsigned endpoint, uint64_t time_ms);

#endif
