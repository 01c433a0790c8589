/* The beginning of a call, and its cancellation. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/call.h"
#include "mcp/execute.h"
#include "state/metrics.h"

/* ---- the beginning ------------------------------------------------------- */

/* What every sandbox that may get the run lets it write: each of ours as much
 * as is set, a Snekbox never more than its own limit. */
static uint64_t
output_limit(const struct mcp *mcp)
{
	uint64_t limit = mcp->conf->jail_output;
	unsigned n = snekbox_endpoints(mcp->snekbox);

	for (unsigned i = 0; i < n; i++) {
		if (!snekbox_stops(mcp->snekbox, i) &&
		    limit > OUTCOME_OUTPUT_SNEKBOX)
			limit = OUTCOME_OUTPUT_SNEKBOX;
	}
	return limit;
}

/* In a worker. */
static void
prepare_work(void *arg)
{
	struct call *call = arg;
	const struct conf *conf = call->mcp->conf;
	struct sandbox_limits limits;
	struct sandbox_job job;

	call->limit_output = output_limit(call->mcp);
	call->limit_ms = conf->sandbox_time_limit;
	call->prepared =
	    tool_arguments(call->message, conf, &job, &call->fault);
	rpc_message_trim(call->message);
	if (call->prepared != ERR_OK)
		return;
	if (job.timeout_ms > 0 && job.timeout_ms < call->limit_ms)
		call->limit_ms = job.timeout_ms;
	limits = (struct sandbox_limits){ .time_ms = call->limit_ms,
		.output_bytes = call->limit_output };
	call->prepared = outcome_request(&call->body, &job, conf, &limits);
	sandbox_job_done(&job);
}

static void
prepared(void *arg)
{
	struct call *call = arg;

	if (call->session == NULL) {
		call_end(call);
	} else if (call->prepared == ERR_RPC_PARAMS) {
		call_shape(call);
	} else if (call->prepared != ERR_OK) {
		call->shaped = call->prepared;
		call_deliver(call);
	} else {
		call_admit(call);
	}
}

static struct call *
find_call(struct mcp_session *session, const char *id)
{
	struct call *call;

	TAILQ_FOREACH(call, &session->calls, of_session)
	{
		if (strcmp(call->message->id, id) == 0)
			return call;
	}
	return NULL;
}

/* Why a call cannot begin, for the result; NULL when it can. */
static const char *
begin_fault(const struct mcp_session *session, bool full)
{
	if (session->mcp->draining)
		return "The program did not run: the server is shutting down. "
		       "Try again on a new connection.";
	if (session->n_calls >= session->mcp->conf->session_calls_max)
		return "The program did not run: too many calls of this "
		       "session are under way (setting session_calls_max). "
		       "Wait "
		       "for one of them to end.";
	return full ? "The program did not run: too many calls are under way "
		      "(setting calls_max). Try again in a few seconds."
		    : NULL;
}

static void
begin(struct call *call, const char *why)
{
	struct mcp_session *session = call->session;
	struct mcp_host *host = session->mcp->host;

	if (!session->internal)
		metric_add(session->mcp->state, METRIC_calls, 1);
	TAILQ_INSERT_TAIL(&session->mcp->calls, call, of_mcp);
	TAILQ_INSERT_TAIL(&session->calls, call, of_session);
	mcp_work_begin(session->mcp);
	session->n_calls++;
	if (why != NULL)
		call_finish(
		    call, OUTCOME_BUSY, "The server is busy.", "%s", why);
	else
		host->offload(host, prepare_work, prepared, call);
}

void
execute_call(struct request *request)
{
	struct mcp_session *session = request->session;
	struct state *state = session->mcp->state;
	const char *id = request->message->id;
	enum err noted = ERR_INTERNAL;
	struct call *call;

	if (find_call(session, id) == NULL)
		noted = session_call_begin(state, session->id, id);
	if (noted == ERR_INTERNAL) {
		request_error(request, ERR_RPC_REQUEST,
		    "Invalid Request: a "
		    "request with this id is under way");
		return;
	}
	if ((call = call_new(request)) == NULL) {
		session_call_end(state, session->id, id);
		request_error(request, ERR_NOMEM, "out of memory");
		return;
	}
	call->message = STEAL_PTR(request->message);
	call->sink = STEAL_PTR(request->sink);
	begin(call, begin_fault(session, noted == ERR_BUSY));
}

/* ---- cancellation -------------------------------------------------------- */

static void
cancel(struct call *call)
{
	struct sink *sink = STEAL_PTR(call->sink);
	enum stage stage = call->stage;
	bool hold = stage == STAGE_RUN && call->started &&
	    !snekbox_stops(call->mcp->snekbox, call->endpoint);

	if (!call->session->internal)
		metric_add(call->mcp->state, METRIC_calls_cancelled, 1);
	/* a worker may be at the outcome: nothing of it may be read here */
	call_log_end(call, "cancelled", 0);
	evtimer_del(call->timer);
	call_detach(call);
	if (call->run != NULL)
		snekbox_cancel(STEAL_PTR(call->run));
	call_leave(call, hold);
	sink->ops->drop(sink);
	/* a worker that has it hands it to shaped() or prepared() */
	if (stage == STAGE_QUEUE || stage == STAGE_RUN)
		call_end(call);
}

void
execute_cancel(struct mcp_session *session, const char *id)
{
	struct call *call = find_call(session, id);

	if (call != NULL)
		cancel(call);
}

bool
execute_cancel_of(struct mcp *mcp, const char *session_id, const char *raw_id)
{
	struct call *call;

	TAILQ_FOREACH(call, &mcp->calls, of_mcp)
	{
		if (call->session != NULL &&
		    strcmp(call->session->id, session_id) == 0 &&
		    strcmp(call->message->id, raw_id) == 0) {
			cancel(call);
			return true;
		}
	}
	return false;
}

void
execute_cancel_all(struct mcp_session *session)
{
	struct call *call;

	while ((call = TAILQ_FIRST(&session->calls)) != NULL)
		cancel(call);
}
