/*
 * A tools/call under way, shared by the files that lead it through its stages:
 * execute.c (beginning, cancellation), admit.c (queue and run), answer.c (the
 * end), progress.c, call.c (life). Nobody else includes it.
 */
#ifndef MCP_CALL_H
#define MCP_CALL_H

#include "mcp/core.h"
#include "mcp/tool.h"
#include "sandbox/outcome.h"
#include "state/limit.h"

#define HOLD_MS 2000     /* a Snekbox collects files after its limit */
#define PROGRESS_MS 1000 /* between two progress notifications */

enum stage {
	STAGE_PREPARE, /* a worker reads the arguments */
	STAGE_QUEUE,   /* waits for a lease */
	STAGE_RUN,     /* the sandbox has it */
	STAGE_SHAPE    /* a worker builds the answer */
};

struct call {
	TAILQ_ENTRY(call) of_mcp, of_session;
	struct mcp *mcp;
	struct mcp_session *session; /* NULL once cut off; borrowed */
	struct rpc_message *message; /* owned; trimmed after STAGE_PREPARE */
	struct sink *sink;           /* owned; NULL once cut off */
	char *base, *owner;          /* of the session, owned */
	bool internal;               /* of the session */
	enum revision revision;
	enum stage stage;
	/* the request */
	struct tool_fault fault;
	enum err prepared;
	struct buf body;
	uint64_t limit_ms, limit_output;
	/* admission */
	struct limit_ticket ticket;
	bool ticketed;       /* ticket is in the table */
	unsigned attempts;   /* endpoints that could not be reached */
	struct buf tried;    /* their names and faults, for people */
	struct event *timer; /* owned */
	/* the run */
	struct snekbox_run *run;
	unsigned endpoint;
	bool started;
	uint64_t begun_ms, started_ms, queued_ms;
	/* progress */
	uint64_t told_ms;       /* time of the last one, 0: none */
	uint64_t told_value_ms; /* what it said */
	/* the end */
	bool replied; /* reply below is one */
	struct sandbox_reply reply;
	struct buf reply_body;
	char *content_type, *transport_text; /* owned, of reply */
	struct outcome outcome;
	struct buf answer;
	enum err shaped;
};

/* Makes a call of a request, which keeps what it owns. NULL without memory. */
struct call *call_new(struct request *request);

/* Takes the call out of the process and frees it; tells the host when it was
 * the last. */
void call_end(struct call *call);

/* Cuts the call off from its session. */
void call_detach(struct call *call);

/* Gives back the place in the queue, or the lease: at once, or with hold when
 * the run ends by itself. */
void call_leave(struct call *call, bool hold);

/* Sets the call's one timer; call_timer() is called when it is over. */
void call_arm(struct call *call, uint64_t ms);
void call_timer(struct call *call);

/* Tells the peer a state, when it asked for that and the last time is a
 * second ago. total_ms 0: unknown. The sink may end the session, and the call
 * with it: nothing may follow. */
void call_tell(struct call *call, uint64_t total_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void call_tell_running(struct call *call);

/* Joins the queue; from there on the call leads itself to its answer. */
void call_admit(struct call *call);

/* Lets a worker build the answer, then sends it. */
void call_shape(struct call *call);

/* Sends the answer that is built, or an error when that failed. */
void call_deliver(struct call *call);

/* Ends a call that did not run, with this error_type, error_message and
 * details. */
void call_finish(struct call *call, enum outcome_kind kind, const char *message,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Logs the end of a call that still has its session. */
void
call_log_end(const struct call *call, const char *how, uint64_t duration_ms);

#endif
