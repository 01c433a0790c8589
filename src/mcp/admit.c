/* Admission: the queue, the lease, the run, the next endpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "mcp/call.h"
#include "mcp/execute.h"

#define LOOK_MS 250 /* between two looks at the queue */

static void queue_look(struct call *call);

static void
finish_unreachable(struct call *call)
{
	struct mcp *mcp = call->mcp;

	/* a call that only waited tells the addresses that others tried */
	for (unsigned i = 0;
	     call->tried.len == 0 && i < snekbox_endpoints(mcp->snekbox); i++) {
		if (buf_printf(&call->tried, "%s%s", i > 0 ? ", " : "",
			snekbox_name(mcp->snekbox, i)) != ERR_OK)
			break;
	}
	call_finish(call, OUTCOME_SANDBOX_UNAVAILABLE,
	    "The sandbox cannot be reached.",
	    "The program did not run: no connection to %s. Start the sandbox "
	    "or correct the setting snekbox_url, then try again.",
	    buf_str(&call->tried));
}

/* As long as the run itself may take. A late answer outlives the lease, which
 * harms nobody; but one of a process that was killed must not block a Snekbox
 * for longer than the run there goes on. */
static uint64_t
lease_ms(const struct call *call)
{
	return call->limit_ms + HOLD_MS;
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
	limit_extend(
	    call->mcp->state, &call->ticket, call->started_ms + lease_ms(call));
	if (call->message->progress_token == NULL)
		return;
	call_arm(call, PROGRESS_MS);
	call_tell_running(call);
}

static void
join_queue(struct call *call)
{
	struct mcp *mcp = call->mcp;
	enum err rc =
	    limit_enter(mcp->state, call->session->client, &call->ticket);

	if (rc != ERR_OK) {
		call_finish(call, OUTCOME_BUSY,
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
	if (buf_printf(&call->tried, "%s%s (%s)",
		call->tried.len > 0 ? ", " : "", name, text) != ERR_OK) {
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
	call->reply.transport_text =
	    call->transport_text != NULL ? call->transport_text : "";
	call_shape(call);
}

static const struct snekbox_callbacks run_callbacks = { run_started, run_done };

static void
run_submit(struct call *call)
{
	struct mcp *mcp = call->mcp;
	enum err rc;

	call->stage = STAGE_RUN;
	call->endpoint = call->ticket.endpoint;
	rc = snekbox_submit(mcp->snekbox, call->endpoint, &call->body,
	    call->limit_ms + mcp->conf->sandbox_reply_timeout, &run_callbacks,
	    call, &call->run);
	if (rc != ERR_OK)
		call_finish(call, OUTCOME_BUSY, err_info(rc)->text,
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

	if (limit_try(mcp->state, &call->ticket,
		now + mcp->conf->sandbox_connect_timeout + lease_ms(call),
		&position)) {
		run_submit(call);
	} else if (limit_endpoints_up(mcp->state) == 0) {
		finish_unreachable(call);
	} else if (call->internal) {
		/* people go first */
		call_finish(call, OUTCOME_BUSY, "The sandbox is busy.", "%s",
		    "It is asked again soon.");
	} else if (waited >= mcp->conf->queue_timeout) {
		call_finish(call, OUTCOME_BUSY, "The sandbox stayed busy.",
		    "The program did not run: no sandbox became free within "
		    "%g s (setting queue_timeout). Try again later.",
		    (double)mcp->conf->queue_timeout / 1000);
	} else {
		call_arm(call, LOOK_MS);
		call_tell(call, 0,
		    "waiting for a free sandbox, place %u in the "
		    "queue",
		    position);
	}
}

void
call_timer(struct call *call)
{
	if (call->stage == STAGE_QUEUE) {
		queue_look(call);
	} else if (call->stage == STAGE_RUN && call->started &&
	    call->message->progress_token != NULL) {
		call_arm(call, PROGRESS_MS);
		call_tell_running(call);
	}
}

void
execute_ring(struct mcp *mcp)
{
	struct call *call;

	/* by their timers, not here: a look can end calls, also others */
	TAILQ_FOREACH(call, &mcp->calls, of_mcp)
	{
		if (call->stage == STAGE_QUEUE && call->session != NULL)
			event_active(call->timer, EV_TIMEOUT, 0);
	}
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

void
call_admit(struct call *call)
{
	revive_endpoints(call->mcp);
	join_queue(call);
}
