#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "mcp/content.h"
#include "mcp/execute.h"
#include "mcp/tool.h"
#include "sandbox/outcome.h"
#include "state/limit.h"
#include "state/metrics.h"

#define LOOK_MS 250		/* between two looks at the queue */
#define PROGRESS_MS 1000	/* between two progress notifications */
#define PROGRESS_SLACK_MS 20	/* a timer may come that much early */
#define HOLD_MS 2000		/* a Snekbox collects files after its limit */
#define REQUEST_ROOM (1024 * 1024)	/* of a request beside the job */
#define TRIED_MAX 1024

enum stage {
	STAGE_PREPARE,		/* a worker reads the arguments */
	STAGE_QUEUE,		/* waits for a lease */
	STAGE_RUN,		/* the sandbox has it */
	STAGE_SHAPE		/* a worker builds the answer */
};

struct call {
	TAILQ_ENTRY(call) of_mcp, of_session;
	struct mcp *mcp;
	struct mcp_session *session;	/* NULL once cut off; borrowed */
	struct rpc_message *message;	/* owned; trimmed after STAGE_PREPARE */
	struct sink *sink;		/* owned; NULL once cut off */
	enum revision revision;
	enum stage stage;
	/* the request */
	struct tool_fault fault;
	enum err prepared;
	struct buf body;
	uint64_t limit_ms;
	/* admission */
	struct limit_ticket ticket;
	bool ticketed;			/* ticket is in the table */
	unsigned attempts;		/* endpoints that could not be reached */
	struct buf tried;		/* their names and faults, for people */
	struct event *timer;		/* owned */
	/* the run */
	struct snekbox_run *run;
	unsigned endpoint;
	bool started;
	uint64_t begun_ms, started_ms, queued_ms;
	/* progress */
	uint64_t told_ms;		/* time of the last one, 0: none */
	uint64_t told_value_ms;		/* what it said */
	/* the end */
	bool replied;			/* reply below is one */
	struct sandbox_reply reply;
	struct buf reply_body;
	char *content_type, *transport_text;	/* owned, of reply */
	struct outcome outcome;
	struct buf answer;
	enum err shaped;
};

static void queue_look(struct call *call);
static void shape(struct call *call);

/* ---- life ---------------------------------------------------------------- */

static void
call_free(struct call *call)
{
	if (call->timer != NULL)
		event_free(call->timer);
	rpc_message_free(call->message);
	buf_done(&call->body);
	buf_done(&call->tried);
	buf_done(&call->reply_body);
	buf_done(&call->answer);
	free(call->content_type);
	free(call->transport_text);
	outcome_done(&call->outcome);
	free(call);
}

/* Takes the call out of the process; tells the host when it was the last. */
static void
call_end(struct call *call)
{
	struct mcp *mcp = call->mcp;

	TAILQ_REMOVE(&mcp->calls, call, of_mcp);
	mcp->n_calls--;
	call_free(call);
	if (mcp->n_calls == 0 && mcp->host->idle != NULL)
		mcp->host->idle(mcp->host);
}

/* Cuts the call off from its session. */
static void
call_detach(struct call *call)
{
	struct mcp_session *session = call->session;

	TAILQ_REMOVE(&session->calls, call, of_session);
	session->n_calls--;
	session_call_end(call->mcp->state, session->id, call->message->id);
	call->session = NULL;
}

/* Gives back the place in the queue, or the lease: at once, or with hold when
 * the run ends by itself. */
static void
call_leave(struct call *call, bool hold)
{
	struct mcp *mcp = call->mcp;
	uint64_t ring = 0;

	if (!call->ticketed)
		return;
	call->ticketed = false;
	if (hold)
		limit_extend(mcp->state, &call->ticket, call->started_ms +
		    mcp->conf->sandbox_time_limit + HOLD_MS);
	limit_leave(mcp->state, &call->ticket, hold, &ring);
	if (ring != 0)
		mcp->host->ring(mcp->host, ring);
}

static void
arm(struct call *call, uint64_t ms)
{
	struct timeval tv = { (time_t)(ms / 1000),
		(suseconds_t)(ms % 1000 * 1000) };

	event_add(call->timer, &tv);
}

/* ---- progress ------------------------------------------------------------ */

/* Tells the peer, when it asked for that. Time since the call's arrival is
 * what rises through queue and run. The sink may end the session, and the
 * call with it: nothing may follow. */
static void
tell(struct call *call, uint64_t total_ms, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static enum err
append_progress(struct buf *out, const struct call *call, uint64_t value_ms,
    uint64_t total_ms, const char *text)
{
	CLEANUP_BUF struct buf params = { .max = 2048 };
	enum err rc;

	rc = buf_printf(&params, "{\"progressToken\":%s,\"progress\":%" PRIu64
	    ".%03u", call->message->progress_token, value_ms / 1000,
	    (unsigned)(value_ms % 1000));
	if (rc == ERR_OK && total_ms > 0)
		rc = buf_printf(&params, ",\"total\":%" PRIu64 ".%03u",
		    total_ms / 1000, (unsigned)(total_ms % 1000));
	if (rc == ERR_OK)
		rc = buf_puts(&params, ",\"message\":");
	if (rc == ERR_OK)
		rc = json_quote(&params, text, strlen(text));
	if (rc == ERR_OK)
		rc = buf_puts(&params, "}");
	return rc == ERR_OK ? rpc_notification(out, "notifications/progress",
	    buf_str(&params)) : rc;
}

static void
tell(struct call *call, uint64_t total_ms, const char *fmt, ...)
{
	CLEANUP_BUF struct buf out = { .max = 4096 };
	uint64_t now = clock_ms(), value = now - call->begun_ms;
	bool first = call->told_ms == 0;
	char text[256];
	va_list ap;

	if (call->message->progress_token == NULL || (!first &&
	    now < call->told_ms + PROGRESS_MS - PROGRESS_SLACK_MS))
		return;
	if (!first && value <= call->told_value_ms)
		value = call->told_value_ms + 1;
	call->told_ms = now;
	call->told_value_ms = value;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (append_progress(&out, call, value, total_ms, text) == ERR_OK)
		call->sink->ops->notify(call->sink, out.data, out.len);
}

static void
tell_running(struct call *call)
{
	uint64_t ran = clock_ms() - call->started_ms;

	tell(call, call->queued_ms + call->limit_ms,
	    "running for %.1f s of at most %g s", (double)ran / 1000,
	    (double)call->limit_ms / 1000);
}

/* ---- the answer ---------------------------------------------------------- */

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
static void
log_end(const struct call *call, const char *how, uint64_t duration_ms)
{
	log_info("call.end", "session=%.8s how=%s queued_ms=%" PRIu64
	    " duration_ms=%" PRIu64 " total_ms=%" PRIu64 " sandbox=%s",
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
	return call->outcome.kind == OUTCOME_OK ? "success"
	    : outcome_kind_name(call->outcome.kind);
}

/* The answer is built, or could not be. */
static void
deliver(struct call *call)
{
	struct sink *sink = STEAL_PTR(call->sink);
	char poor[RPC_ID_MAX + 128];
	int n;

	if (call->prepared == ERR_OK)
		count_outcome(call->mcp->state, call->outcome.kind);
	log_end(call, how_ended(call), call->outcome.duration_ms);
	call_detach(call);
	if (call->shaped == ERR_OK) {
		sink->ops->reply(sink, call->answer.data, call->answer.len);
	} else {
		n = snprintf(poor, sizeof(poor), "{\"jsonrpc\":\"2.0\","
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
		deliver(call);
}

/* What applied to the run, as far as it is known: a Snekbox does not tell its
 * own limits. */
static struct sandbox_limits
limits_of(const struct call *call)
{
	const struct conf *conf = call->mcp->conf;
	struct sandbox_limits limits = { .time_ms = call->limit_ms,
		.output_bytes = conf->jail_output };

	if (!snekbox_stops(call->mcp->snekbox, call->endpoint))
		return limits;
	limits.memory_bytes = conf->jail_memory;
	limits.disk_bytes = conf->jail_disk;
	limits.processes = conf->jail_processes;
	return limits;
}

/* In a worker. */
static enum err
build_answer(struct call *call)
{
	CLEANUP_BUF struct buf result = { .max = call->mcp->conf->result_max };
	struct sandbox_limits limits = limits_of(call);
	struct content_view view = { .conf = call->mcp->conf,
		.revision = call->revision, .outcome = &call->outcome,
		.limits = &limits, .queued_ms = call->queued_ms };
	enum err rc = ERR_OK;

	view.reserved = strlen(call->message->id) +
	    strlen("{\"jsonrpc\":\"2.0\",\"id\":,\"result\":}");
	if (call->prepared == ERR_RPC_PARAMS) {
		rc = content_refusal(&result, call->fault.text);
	} else {
		if (call->replied)
			rc = outcome_parse(&call->reply, call->mcp->conf,
			    &limits, &call->outcome);
		if (rc == ERR_OK)
			rc = content_result(&result, &view);
	}
	return rc != ERR_OK ? rc : rpc_result(&call->answer,
	    call->message->id, buf_str(&result));
}

static void
shape_work(void *arg)
{
	struct call *call = arg;

	call->shaped = build_answer(call);
	buf_done(&call->reply_body);
}

static void
shape(struct call *call)
{
	struct mcp_host *host = call->mcp->host;

	call->stage = STAGE_SHAPE;
	evtimer_del(call->timer);
	host->offload(host, shape_work, shaped, call);
}

/* Ends a call that did not run. */
static void finish_without(struct call *call, enum outcome_kind kind,
    const char *message, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void
finish_without(struct call *call, enum outcome_kind kind, const char *message,
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
	shape(call);
}

/* ---- the run ------------------------------------------------------------- */

static void
finish_unreachable(struct call *call)
{
	struct mcp *mcp = call->mcp;

	/* a call that only waited tells the addresses that others tried */
	for (unsigned i = 0; call->tried.len == 0 &&
	    i < snekbox_endpoints(mcp->snekbox); i++) {
		if (buf_printf(&call->tried, "%s%s", i > 0 ? ", " : "",
		    snekbox_name(mcp->snekbox, i)) != ERR_OK)
			break;
	}
	finish_without(call, OUTCOME_SANDBOX_UNAVAILABLE,
	    "The sandbox cannot be reached.",
	    "The program did not run: no connection to %s. Start the sandbox "
	    "or correct the setting snekbox_url, then try again.",
	    buf_str(&call->tried));
}

static uint64_t
lease_ms(const struct call *call)
{
	const struct conf *conf = call->mcp->conf;

	return conf->sandbox_connect_timeout + call->limit_ms +
	    conf->sandbox_reply_timeout;
}

static void
run_started(void *arg)
{
	struct call *call = arg;

	call->started = true;
	call->started_ms = clock_ms();
	call->queued_ms = call->started_ms - call->begun_ms;
	/* it can be reached: full service, where it was only on trial */
	limit_endpoint_down(call->mcp->state, call->endpoint, 0);
	limit_extend(call->mcp->state, &call->ticket,
	    call->started_ms + lease_ms(call));
	if (call->message->progress_token == NULL)
		return;
	arm(call, PROGRESS_MS);
	tell_running(call);
}

static void
join_queue(struct call *call)
{
	struct mcp *mcp = call->mcp;
	enum err rc = limit_enter(mcp->state, call->session->client,
	    &call->ticket);

	if (rc != ERR_OK) {
		finish_without(call, OUTCOME_BUSY,
		    "Too many programs wait for the sandbox.",
		    "The program did not run: %" PRIu64 " calls wait already "
		    "(setting queue_max). Try again in a few seconds.",
		    mcp->conf->queue_max);
		return;
	}
	call->ticketed = true;
	call->stage = STAGE_QUEUE;
	queue_look(call);
}

/* The endpoint could not be reached, so nothing ran and the next one may be
 * tried; never twice as often as there are endpoints. */
static void
run_unreached(struct call *call, const char *text)
{
	struct mcp *mcp = call->mcp;
	const char *name = snekbox_name(mcp->snekbox, call->endpoint);

	limit_endpoint_down(mcp->state, call->endpoint,
	    clock_ms() + mcp->conf->sandbox_retry_after);
	log_warn("sandbox.down", "address=%s reason=%s", name, text);
	if (buf_printf(&call->tried, "%s%s (%s)", call->tried.len > 0 ? ", "
	    : "", name, text) != ERR_OK) {
		/* the list is long enough as it is */
	}
	call_leave(call, false);
	if (++call->attempts < snekbox_endpoints(mcp->snekbox) &&
	    limit_endpoints_up(mcp->state) > 0)
		join_queue(call);
	else
		finish_unreachable(call);
}

static void
run_done(void *arg, const struct sandbox_reply *reply, struct buf *body)
{
	struct call *call = arg;

	evtimer_del(call->timer);
	if (reply->transport == ERR_NOT_FOUND) {
		snekbox_take_body(call->run, &call->body);
		call->run = NULL;
		run_unreached(call, reply->transport_text);
		return;
	}
	call->run = NULL;
	call_leave(call, false);
	call->replied = true;
	call->reply = *reply;
	call->reply_body = *body;
	buf_init(body, body->max);
	call->reply.body = buf_str(&call->reply_body);
	/* what is borrowed from libcurl lives only until we return; without
	 * memory for a copy the reply does without */
	if (reply->content_type != NULL)
		call->content_type = strdup(reply->content_type);
	call->reply.content_type = call->content_type;
	call->transport_text = strdup(reply->transport_text);
	call->reply.transport_text = call->transport_text != NULL
	    ? call->transport_text : "";
	shape(call);
}

static const struct snekbox_callbacks run_callbacks = {
	run_started, run_done
};

static void
run_submit(struct call *call)
{
	struct mcp *mcp = call->mcp;
	enum err rc;

	call->stage = STAGE_RUN;
	call->endpoint = call->ticket.endpoint;
	rc = snekbox_submit(mcp->snekbox, call->endpoint, &call->body,
	    call->limit_ms + mcp->conf->sandbox_reply_timeout,
	    &run_callbacks, call, &call->run);
	if (rc != ERR_OK)
		finish_without(call, OUTCOME_BUSY, err_info(rc)->text,
		    "The program did not run: the server could not begin a "
		    "request to the sandbox. Try again in a few seconds.");
}

/* ---- the queue ----------------------------------------------------------- */

static void
queue_look(struct call *call)
{
	struct mcp *mcp = call->mcp;
	uint64_t now = clock_ms(), waited = now - call->begun_ms;
	unsigned position = 0;

	if (limit_try(mcp->state, &call->ticket, now + lease_ms(call),
	    &position)) {
		run_submit(call);
	} else if (limit_endpoints_up(mcp->state) == 0) {
		finish_unreachable(call);
	} else if (waited >= mcp->conf->queue_timeout) {
		finish_without(call, OUTCOME_BUSY,
		    "The sandbox stayed busy.",
		    "The program did not run: no sandbox became free within "
		    "%g s (setting queue_timeout). Try again later.",
		    (double)mcp->conf->queue_timeout / 1000);
	} else {
		arm(call, LOOK_MS);
		tell(call, 0, "waiting for a free sandbox, place %u in the "
		    "queue", position);
	}
}

static void
on_timer(evutil_socket_t fd, short events, void *arg)
{
	struct call *call = arg;

	(void)fd;
	(void)events;
	if (call->stage == STAGE_QUEUE) {
		queue_look(call);
	} else if (call->stage == STAGE_RUN && call->started &&
	    call->message->progress_token != NULL) {
		arm(call, PROGRESS_MS);
		tell_running(call);
	}
}

void
execute_ring(struct mcp *mcp)
{
	struct call *call;

	/* by their timers, not here: a look can end calls, also others */
	TAILQ_FOREACH(call, &mcp->calls, of_mcp) {
		if (call->stage == STAGE_QUEUE && call->session != NULL)
			event_active(call->timer, EV_TIMEOUT, 0);
	}
}

/* ---- the beginning ------------------------------------------------------- */

/* In a worker. */
static void
prepare_work(void *arg)
{
	struct call *call = arg;
	const struct conf *conf = call->mcp->conf;
	struct sandbox_job job;

	call->limit_ms = conf->sandbox_time_limit;
	call->prepared = tool_arguments(call->message, conf, &job,
	    &call->fault);
	rpc_message_trim(call->message);
	if (call->prepared != ERR_OK)
		return;
	if (job.timeout_ms > 0 && job.timeout_ms < call->limit_ms)
		call->limit_ms = job.timeout_ms;
	call->prepared = outcome_request(&call->body, &job, call->limit_ms);
	sandbox_job_done(&job);
}

/* When all endpoints are set aside, a new call is what finds out whether one
 * is back: better a failed try than a false "down". */
static void
revive_endpoints(struct mcp *mcp)
{
	if (limit_endpoints_up(mcp->state) > 0)
		return;
	for (unsigned i = 0; i < snekbox_endpoints(mcp->snekbox); i++)
		limit_endpoint_down(mcp->state, i, 0);
}

static void
prepared(void *arg)
{
	struct call *call = arg;
	struct mcp *mcp = call->mcp;

	if (call->session == NULL) {
		call_end(call);
	} else if (call->prepared == ERR_RPC_PARAMS) {
		shape(call);
	} else if (call->prepared != ERR_OK) {
		call->shaped = call->prepared;
		deliver(call);
	} else {
		revive_endpoints(mcp);
		join_queue(call);
	}
}

static struct call *
call_new(struct request *request)
{
	struct mcp_session *session = request->session;
	struct mcp *mcp = session->mcp;
	struct call *call = calloc(1, sizeof(*call));

	if (call == NULL)
		return NULL;
	call->mcp = mcp;
	call->session = session;
	call->revision = session->revision;
	call->begun_ms = clock_ms();
	buf_init(&call->body, mcp->conf->body_max * 2 + REQUEST_ROOM);
	buf_init(&call->tried, TRIED_MAX);
	buf_init(&call->reply_body, mcp->conf->sandbox_reply_max);
	buf_init(&call->answer, mcp->conf->result_max + RPC_ID_MAX + 64);
	call->timer = evtimer_new(mcp->host->base, on_timer, call);
	if (call->timer == NULL) {
		call_free(call);
		return NULL;
	}
	return call;
}

static struct call *
find_call(struct mcp_session *session, const char *id)
{
	struct call *call;

	TAILQ_FOREACH(call, &session->calls, of_session) {
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
		    "session are under way (setting session_calls_max). Wait "
		    "for one of them to end.";
	return full ? "The program did not run: too many calls are under way "
	    "(setting calls_max). Try again in a few seconds." : NULL;
}

static void
begin(struct call *call, const char *why)
{
	struct mcp_session *session = call->session;
	struct mcp_host *host = session->mcp->host;

	metric_add(session->mcp->state, METRIC_calls, 1);
	TAILQ_INSERT_TAIL(&session->mcp->calls, call, of_mcp);
	TAILQ_INSERT_TAIL(&session->calls, call, of_session);
	session->mcp->n_calls++;
	session->n_calls++;
	if (why != NULL)
		finish_without(call, OUTCOME_BUSY, "The server is busy.",
		    "%s", why);
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
		request_error(request, ERR_RPC_REQUEST, "Invalid Request: a "
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

	metric_add(call->mcp->state, METRIC_calls_cancelled, 1);
	/* a worker may be at the outcome: nothing of it may be read here */
	log_end(call, "cancelled", 0);
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

void
execute_cancel_all(struct mcp_session *session)
{
	struct call *call;

	while ((call = TAILQ_FIRST(&session->calls)) != NULL)
		cancel(call);
}
