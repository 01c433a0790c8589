/* The end of a call: the outcome becomes a result, a worker does it. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "mcp/call.h"
#include "mcp/content.h"
#include "mcp/deposit.h"
#include "mcp/environment.h"
#include "mcp/identity.h"
#include "state/metrics.h"

static void
count_outcome(struct state *state, enum outcome_kind kind)
{
	enum metric metric = METRIC_calls_failed;

	if (kind == OUTCOME_OK)
		metric = METRIC_calls_ok;
	else if (kind == OUTCOME_BUSY)
		metric = METRIC_calls_busy;
	else if (kind == OUTCOME_SANDBOX_UNAVAILABLE ||
	    kind == OUTCOME_SANDBOX_ERROR)
		metric = METRIC_calls_sandbox;
	metric_add(state, metric, 1);
}

/* Only the head of a session's id: the whole is a capability. */
void
call_log_end(const struct call *call, const char *how, uint64_t duration_ms)
{
	log_info("call.end",
	    "session=%.8s how=%s queued_ms=%" PRIu64 " duration_ms=%" PRIu64
	    " total_ms=%" PRIu64 " sandbox=%s",
	    call->session->id, how, call->queued_ms, duration_ms,
	    clock_ms() - call->begun_ms,
	    call->started ? snekbox_name(call->mcp->snekbox, call->endpoint)
			  : "-");
}

static const char *
how_ended(const struct call *call)
{
	if (call->prepared != ERR_OK)
		return "refused";
	return call->outcome.kind == OUTCOME_OK
	    ? "success"
	    : outcome_kind_name(call->outcome.kind);
}

/* The answer is built, or could not be. */
void
call_deliver(struct call *call)
{
	struct sink *sink = STEAL_PTR(call->sink);
	char poor[RPC_ID_MAX + 128];
	int n;

	if (call->prepared == ERR_OK && !call->internal)
		count_outcome(call->mcp->state, call->outcome.kind);
	call_log_end(call, how_ended(call), call->outcome.duration_ms);
	call_detach(call);
	if (call->shaped == ERR_OK) {
		sink->ops->reply(sink, call->answer.data, call->answer.len);
	} else {
		n = snprintf(poor, sizeof(poor),
		    "{\"jsonrpc\":\"2.0\","
		    "\"id\":%s,\"error\":{\"code\":-32603,\"message\":\"%s\"}}",
		    call->message->id, err_info(call->shaped)->text);
		sink->ops->reply(sink, poor, (size_t)n);
	}
	call_end(call);
}

static void
shaped(void *arg)
{
	struct call *call = arg;

	if (call->session == NULL)
		call_end(call);
	else
		call_deliver(call);
}

struct sandbox_limits
mcp_limits(const struct mcp *mcp, unsigned endpoint, uint64_t time_ms)
{
	const struct conf *conf = mcp->conf;
	struct sandbox_limits limits = { .time_ms = time_ms,
		.output_bytes = conf->jail_output };

	if (!snekbox_stops(mcp->snekbox, endpoint))
		return limits;
	limits.memory_bytes = conf->jail_memory;
	limits.disk_bytes = conf->jail_disk;
	limits.processes = conf->jail_processes;
	return limits;
}

/* The result of a run, or of none. */
static enum err
build_result(struct call *call, struct buf *result)
{
	struct mcp *mcp = call->mcp;
	struct sandbox_limits limits =
	    mcp_limits(mcp, call->endpoint, call->limit_ms);
	struct content_link *links = NULL;
	struct content_view view = { .conf = mcp->conf,
		.revision = call->revision,
		.outcome = &call->outcome,
		.limits = &limits,
		.queued_ms = call->queued_ms,
		.base = call->base };
	enum err rc = ERR_OK;

	limits.output_bytes = call->limit_output;
	view.reserved = strlen(call->message->id) +
	    strlen("{\"jsonrpc\":\"2.0\",\"id\":,\"result\":}");
	if (call->revision >= REVISION_2026_07_28)
		view.reserved += IDENTITY_TAIL_MAX;
	if (call->replied)
		rc = outcome_parse(
		    &call->reply, mcp->conf, &limits, &call->outcome);
	if (rc == ERR_OK)
		rc = environment_explain(mcp->environment, &call->outcome);
	if (rc == ERR_OK && !call->internal)
		rc = deposit(mcp->artifacts, mcp->conf, call->owner,
		    &call->outcome, &links);
	view.links = links;
	if (rc == ERR_OK)
		rc = content_result(result, &view);
	deposit_done(links, call->outcome.n_files);
	return rc;
}

/* In a worker. */
static enum err
build_answer(struct call *call)
{
	CLEANUP_BUF struct buf result = { .max = call->mcp->conf->result_max };
	enum err rc;

	if (call->prepared == ERR_RPC_PARAMS)
		rc = content_refusal(&result, call->fault.text);
	else
		rc = build_result(call, &result);
	if (rc == ERR_OK)
		rc = identity_tail(&result, 0, call->revision, false);
	return rc != ERR_OK
	    ? rc
	    : rpc_result(&call->answer, call->message->id, buf_str(&result));
}

static void
shape_work(void *arg)
{
	struct call *call = arg;

	call->shaped = build_answer(call);
	buf_done(&call->reply_body);
}

void
call_shape(struct call *call)
{
	struct mcp_host *host = call->mcp->host;

	call->stage = STAGE_SHAPE;
	evtimer_del(call->timer);
	host->offload(host, shape_work, shaped, call);
}

void
call_finish(struct call *call, enum outcome_kind kind, const char *message,
    const char *fmt, ...)
{
	struct outcome *o = &call->outcome;
	va_list ap;

	call_leave(call, false);
	if (!call->started)
		call->queued_ms = clock_ms() - call->begun_ms;
	o->kind = kind;
	o->error_message = strdup(message);
	va_start(ap, fmt);
	if (vasprintf(&o->details, fmt, ap) < 0)
		o->details = NULL;
	va_end(ap);
	call_shape(call);
}
