#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "transport/streamable_internal.h"

#define LOOK_MS 3000   /* between two looks at the sessions of streams */
#define SWEEP_MS 10000 /* at most, between two looks for what is too old */

/* ---- the whole ---- */

enum err
streamable_open(const struct conf *conf, struct state *state, struct mcp *mcp,
    struct event_base *base, struct streamable **ret_streamable)
{
	struct streamable *streamable = calloc(1, sizeof(*streamable));

	if (streamable == NULL)
		return ERR_NOMEM;
	streamable->conf = conf;
	streamable->state = state;
	streamable->mcp = mcp;
	streamable->base = base;
	LIST_INIT(&streamable->posts);
	LIST_INIT(&streamable->standings);
	LIST_INIT(&streamable->resumes);
	*ret_streamable = streamable;
	return ERR_OK;
}

void
streamable_close(struct streamable *streamable)
{
	if (streamable == NULL)
		return;
	event_log_leave(state_run_dir(streamable->state));
	free(streamable);
}

void
streamable_set_inbox(struct streamable *streamable, struct inbox *inbox)
{
	streamable->inbox = inbox;
}

void
streamable_tick(struct streamable *streamable)
{
	const struct conf *conf = streamable->conf;
	uint64_t now = clock_ms(), wait = SWEEP_MS;

	if (conf->session_idle < wait)
		wait = conf->session_idle;
	if (conf->events_time < wait)
		wait = conf->events_time;
	post_tick(streamable);
	if (now >= streamable->looked_ms + LOOK_MS) {
		streamable->looked_ms = now;
		standing_tick(streamable);
	}
	if (now < streamable->swept_ms + wait)
		return;
	streamable->swept_ms = now;
	if (session_expire(streamable->state, conf->session_idle) > 0)
		log_info("session.expired", "setting=session_idle");
	event_log_sweep(state_run_dir(streamable->state), conf->events_time,
	    conf->events_bytes);
}

unsigned
streamable_drain(struct streamable *streamable, bool all)
{
	streamable->draining = true;
	standing_end_all(streamable, NULL);
	resume_end_all(streamable);
	if (all)
		post_end_all(streamable, NULL,
		    "the server was shut down before the program had ended");
	return streamable->posts_open;
}

/* ---- answers ---- */

void
streamable_error(struct exchange *exchange, int status, int code,
    const char *text, const char *data)
{
	struct http_response *response = &exchange->response;
	const struct rpc_message *message = exchange->message;
	const char *id = message != NULL ? message->id : NULL;
	CLEANUP_BUF struct buf quoted = { .max = 4096 };
	char value[64];
	const char *version = streamable_header(
	    exchange, "HTTP_MCP_PROTOCOL_VERSION", value, sizeof(value));

	http_error(response, status, id, code, text);
	if (id != NULL && data == NULL)
		return;
	/* from 2025-11-25 on an unknown id is left out; before it is null */
	if (id == NULL &&
	    (version == NULL || strcmp(version, "2025-11-25") < 0))
		return;
	buf_done(&response->body);
	if (json_quote(&quoted, text, strlen(text)) != ERR_OK ||
	    buf_printf(&response->body,
		"{\"jsonrpc\":\"2.0\"%s%s,\"error\":{\"code\":%d,"
		"\"message\":%s%s%s}}",
		id != NULL ? ",\"id\":" : "", id != NULL ? id : "", code,
		buf_str(&quoted), data != NULL ? ",\"data\":" : "",
		data != NULL ? data : "") != ERR_OK)
		buf_done(&response->body);
}

const char *
streamable_header(const struct exchange *exchange, const char *name,
    char *ret_value, size_t size)
{
	const char *at = http_field(&exchange->request, name);
	size_t n;

	if (at == NULL)
		return NULL;
	at += strspn(at, " \t");
	n = strlen(at);
	while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
		n--;
	if (n == 0)
		return NULL;
	snprintf(ret_value, size, "%.*s", (int)n, at);
	return ret_value;
}

enum err
streamable_stream_head(struct http_response *response)
{
	enum err rc;

	response->status = 200;
	if ((rc = http_header(response, "Content-Type", "text/event-stream")) !=
		ERR_OK ||
	    (rc = http_header(response, "Cache-Control", "no-cache")) != ERR_OK)
		return rc;
	/* nginx would hold events back without it */
	return http_header(response, "X-Accel-Buffering", "no");
}

/* ---- sessions ---- */

enum err
streamable_session(struct exchange *exchange, struct session_info *ret_info)
{
	struct streamable *streamable = exchange->transport->streamable;
	char id[SESSION_ID_LEN + 2];
	enum err rc = ERR_NOT_FOUND;

	if (streamable_header(
		exchange, "HTTP_MCP_SESSION_ID", id, sizeof(id)) != NULL)
		rc = session_find(streamable->state, id, ret_info);
	if (rc == ERR_OK && ret_info->kind == SESSION_STREAMABLE)
		return ERR_OK;
	if (rc == ERR_TIMEOUT) {
		exchange_refuse(exchange, ERR_BUSY, NULL);
		return rc;
	}
	streamable_error(exchange, 404, -32600, NO_SESSION, NULL);
	exchange_answer(exchange);
	return ERR_NOT_FOUND;
}

void
streamable_cancel(
    struct streamable *streamable, const char *session, const char *raw_id)
{
	uint64_t process;

	if (session_call_find(streamable->state, session, raw_id, &process) !=
	    ERR_OK)
		return;
	if (process == state_process(streamable->state))
		(void)mcp_cancel(streamable->mcp, session, raw_id);
	else if (streamable->inbox == NULL ||
	    inbox_send(streamable->inbox, process, INBOX_CANCEL, session,
		raw_id, strlen(raw_id), NULL, NULL) != ERR_OK)
		log_warn("session.cancel", "id=%.16s not forwarded", session);
}

void
streamable_received(struct streamable *streamable,
    struct inbox_message *message, const struct inbox_view *view)
{
	char session[SESSION_ID_LEN + 1], raw_id[RPC_ID_MAX + 1];

	if (view->len > RPC_ID_MAX || strlen(view->session) > SESSION_ID_LEN) {
		inbox_ack(message, INBOX_REFUSED, NULL, NULL, NULL);
		return;
	}
	snprintf(session, sizeof(session), "%s", view->session);
	memcpy(raw_id, view->body, view->len);
	raw_id[view->len] = '\0';
	inbox_ack(message, INBOX_ACCEPTED, NULL, NULL, NULL);
	(void)mcp_cancel(streamable->mcp, session, raw_id);
}

/* ---- DELETE ---- */

static void
delete_run(struct exchange *exchange)
{
	struct streamable *streamable = exchange->transport->streamable;
	struct session_info info;

	if (streamable_session(exchange, &info) != ERR_OK)
		return;
	log_info("session.close", "id=%.16s", info.id);
	/* other processes see within a second that it is gone */
	standing_end_all(streamable, info.id);
	if (session_end(streamable->state, info.id) != ERR_OK)
		log_debug("session.close", "id=%.16s was gone", info.id);
	post_end_all(streamable, info.id, "the session was ended");
	event_log_forget(state_run_dir(streamable->state), info.id);
	exchange->response.status = 204;
	exchange_answer(exchange);
}

/* Requests that concern a session: without one there is nothing here, as in a
 * server that has no sessions. Old clients try GET first and go on after
 * 405 alone. */
static bool
names_session(struct exchange *exchange)
{
	char id[SESSION_ID_LEN + 2];

	if (streamable_header(
		exchange, "HTTP_MCP_SESSION_ID", id, sizeof(id)) != NULL)
		return true;
	if (http_header(&exchange->response, "Allow", "POST, OPTIONS") !=
	    ERR_OK)
		http_error_of(&exchange->response, ERR_NOMEM, NULL);
	else
		streamable_error(exchange, 405, -32600,
		    "this method needs a session (Mcp-Session-Id)", NULL);
	return false;
}

static bool
version_known(struct exchange *exchange)
{
	char version[64];
	enum revision revision;

	if (streamable_header(exchange, "HTTP_MCP_PROTOCOL_VERSION", version,
		sizeof(version)) == NULL ||
	    revision_parse(version, &revision) == ERR_OK)
		return true;
	streamable_error(
	    exchange, 400, -32600, "unsupported MCP-Protocol-Version", NULL);
	return false;
}

void
streamable_delete(struct exchange *exchange)
{
	if (names_session(exchange) && version_known(exchange))
		exchange->run = delete_run;
}

/* ---- GET ---- */

static void
get_run(struct exchange *exchange)
{
	struct session_info info;
	char event_id[128];

	if (streamable_session(exchange, &info) != ERR_OK)
		return;
	if (streamable_header(exchange, "HTTP_LAST_EVENT_ID", event_id,
		sizeof(event_id)) != NULL)
		resume_get(exchange, &info, event_id);
	else
		standing_get(exchange, &info);
}

void
streamable_get(struct exchange *exchange)
{
	const char *accept = http_field(&exchange->request, "HTTP_ACCEPT");

	if (!names_session(exchange) || !version_known(exchange))
		return;
	if (!http_accepts(accept, "text/event-stream")) {
		streamable_error(exchange, 406, -32600,
		    "this is an event stream: Accept text/event-stream", NULL);
		return;
	}
	exchange->run = get_run;
}

/* ---- POST ---- */

/* A notification may be the end of a call, wherever that runs. */
static void
take_notification(struct streamable *streamable, const char *session,
    const struct rpc_message *message)
{
	static const char *const path[] = { "params", "requestId", NULL };
	char raw_id[RPC_ID_MAX + 1];
	struct json_span span;

	if (message->kind != RPC_NOTIFICATION ||
	    strcmp(message->method, "notifications/cancelled") != 0 ||
	    json_find(message->text, message->text_len, path, &span) !=
		ERR_OK ||
	    span.len > RPC_ID_MAX)
		return;
	memcpy(raw_id, span.at, span.len);
	raw_id[span.len] = '\0';
	streamable_cancel(streamable, session, raw_id);
}

static void
initialize_run(struct exchange *exchange)
{
	struct streamable *streamable = exchange->transport->streamable;
	const char *client = http_field(&exchange->request, "REMOTE_ADDR");
	char id[SESSION_ID_LEN + 1];
	enum err rc = ERR_BUSY;

	if (!streamable->draining)
		rc = session_create(streamable->state, SESSION_STREAMABLE,
		    client != NULL ? client : "", id);
	if (rc != ERR_OK) {
		exchange_refuse(exchange, ERR_BUSY, NULL);
		return;
	}
	log_info("session.open", "id=%.16s client=%s transport=streamable", id,
	    client != NULL ? client : "");
	post_begin(exchange, id, REVISION_NONE, true);
}

/* Batches are for the revision that has them; initialize is never in one. */
static bool
batch_fits(struct exchange *exchange, enum revision revision)
{
	const struct batch *batch = exchange->batch;

	if (batch == NULL)
		return true;
	if (revision != REVISION_2025_03_26) {
		streamable_error(exchange, 400, -32600,
		    "Invalid Request: this revision has no batches, send one "
		    "message at a time",
		    NULL);
		return false;
	}
	return true;
}

static void
post_run(struct exchange *exchange)
{
	struct streamable *streamable = exchange->transport->streamable;
	const struct batch *batch = exchange->batch;
	struct session_info info;

	if (streamable_session(exchange, &info) != ERR_OK)
		return;
	if (!batch_fits(exchange, (enum revision)info.revision)) {
		exchange_answer(exchange);
		return;
	}
	if (exchange->message != NULL)
		take_notification(streamable, info.id, exchange->message);
	for (size_t i = 0; batch != NULL && i < batch->n; i++) {
		if (batch->items[i].message != NULL)
			take_notification(
			    streamable, info.id, batch->items[i].message);
	}
	post_begin(exchange, info.id, (enum revision)info.revision, false);
}

static void
modern_run(struct exchange *exchange)
{
	const struct rpc_message *message = exchange->message;

	if (message->kind == RPC_REQUEST &&
	    strcmp(message->method, "subscriptions/listen") == 0)
		standing_listen(exchange);
	else
		post_begin(exchange, "stateless", REVISION_2026_07_28, false);
}

static void
prepare_legacy(struct exchange *exchange)
{
	const struct rpc_message *message = exchange->message;
	char id[SESSION_ID_LEN + 2];
	bool session = streamable_header(exchange, "HTTP_MCP_SESSION_ID", id,
			   sizeof(id)) != NULL;
	bool initialize = message != NULL && message->kind == RPC_REQUEST &&
	    strcmp(message->method, "initialize") == 0;

	if (initialize && !session)
		exchange->run = initialize_run;
	else if (!session)
		streamable_error(exchange, 400, -32600,
		    "Invalid Request: Mcp-Session-Id is missing, send "
		    "initialize first",
		    NULL);
	else if (version_known(exchange))
		exchange->run = post_run;
}

static enum err
parse_body(struct exchange *exchange, struct rpc_fault *fault)
{
	const struct conf *conf = exchange->transport->conf;
	const struct buf *body = &exchange->request.body;

	if (batch_is(buf_str(body), body->len))
		return batch_parse(
		    buf_str(body), body->len, conf, &exchange->batch, fault);
	return rpc_parse(
	    buf_str(body), body->len, conf, &exchange->message, fault);
}

static void
refuse_body(struct exchange *exchange, const struct rpc_fault *fault)
{
	const struct err_info *info = err_info(fault->err);

	if (fault->id[0] != '\0')
		http_error(&exchange->response,
		    info->http_status == 200 ? 400 : info->http_status,
		    fault->id, info->rpc_code, fault->text);
	else
		streamable_error(exchange,
		    info->http_status == 200 ? 400 : info->http_status,
		    info->rpc_code, fault->text, NULL);
}

void
streamable_post(struct exchange *exchange)
{
	const char *accept = http_field(&exchange->request, "HTTP_ACCEPT");
	struct rpc_fault fault;

	if (!http_accepts(accept, "application/json") &&
	    !http_accepts(accept, "text/event-stream"))
		streamable_error(exchange, 406, -32600,
		    "Accept must list application/json and text/event-stream",
		    NULL);
	else if (parse_body(exchange, &fault) != ERR_OK)
		refuse_body(exchange, &fault);
	else if (!era_is_modern(exchange))
		prepare_legacy(exchange);
	else if (era_check(exchange) == ERR_OK)
		exchange->run = modern_run;
}
