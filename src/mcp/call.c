#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/call.h"

#define REQUEST_ROOM (1024 * 1024) /* of a request beside the job */
#define TRIED_MAX 1024

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
	free(call->base);
	free(call->owner);
	free(call->content_type);
	free(call->transport_text);
	outcome_done(&call->outcome);
	free(call);
}

void
call_end(struct call *call)
{
	struct mcp *mcp = call->mcp;

	TAILQ_REMOVE(&mcp->calls, call, of_mcp);
	call_free(call);
	mcp_work_end(mcp);
}

void
call_detach(struct call *call)
{
	struct mcp_session *session = call->session;

	TAILQ_REMOVE(&session->calls, call, of_session);
	session->n_calls--;
	session_call_end(call->mcp->state, session->id, call->message->id);
	call->session = NULL;
}

void
call_leave(struct call *call, bool hold)
{
	struct mcp *mcp = call->mcp;
	uint64_t ring = 0;

	if (!call->ticketed)
		return;
	call->ticketed = false;
	if (hold)
		limit_extend(mcp->state, &call->ticket,
		    call->started_ms + mcp->conf->sandbox_time_limit + HOLD_MS);
	limit_leave(mcp->state, &call->ticket, hold, &ring);
	if (ring != 0)
		mcp->host->ring(mcp->host, ring);
}

void
call_arm(struct call *call, uint64_t ms)
{
	struct timeval tv = { (time_t)(ms / 1000),
		(suseconds_t)(ms % 1000 * 1000) };

	event_add(call->timer, &tv);
}

static void
on_timer(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	call_timer(arg);
}

struct call *
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
	call->internal = session->internal;
	call->begun_ms = clock_ms();
	buf_init(&call->body, mcp->conf->body_max * 2 + REQUEST_ROOM);
	buf_init(&call->tried, TRIED_MAX);
	buf_init(&call->reply_body, mcp->conf->sandbox_reply_max);
	buf_init(&call->answer, mcp->conf->result_max + RPC_ID_MAX + 64);
	call->timer = evtimer_new(mcp->host->base, on_timer, call);
	call->owner = strdup(session->owner);
	/* without it there are no addresses */
	call->base = session->base != NULL ? strdup(session->base) : NULL;
	if (call->timer == NULL || call->owner == NULL) {
		call_free(call);
		return NULL;
	}
	return call;
}
