#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "state/metrics.h"
#include "transport/event_stream.h"
#include "transport/route.h"
#include "transport/sse_internal.h"

/* The longest event: bounded already by the settings of results. */
#define EVENT_MAX ((size_t)1 << 30)

enum err
sse_open(const struct conf *conf, struct state *state, struct mcp *mcp,
    struct mcp_host *host, struct sse **ret_sse)
{
	struct sse *sse = calloc(1, sizeof(*sse));

	if (sse == NULL)
		return ERR_NOMEM;
	sse->conf = conf;
	sse->state = state;
	sse->mcp = mcp;
	sse->host = host;
	*ret_sse = sse;
	return ERR_OK;
}

void
sse_close(struct sse *sse)
{
	if (sse == NULL)
		return;
	sse_incoming_done(sse);
	sse_table_done(&sse->sessions);
	free(sse);
}

/* ---- a session and its stream ---- */

/* The stream is closed already. Must not be called from within the core: it
 * drops the sinks of calls under way. */
static void
session_free(struct sse_session *session)
{
	struct sse *sse = session->sse;

	log_info("session.close", "id=%.16s", session->id);
	sse_table_remove(&sse->sessions, session);
	mcp_session_free(session->mcp);
	/* not found: another process made room for a newer session */
	if (session_end(sse->state, session->id) != ERR_OK)
		session->id[0] = '\0';
	free(session);
}

void
sse_session_close(struct sse_session *session)
{
	session->stream->ops->close(session->stream);
	session_free(session);
}

static void
stream_closed(void *arg)
{
	session_free(arg);
}

static bool
is_evicted(const struct sse_session *session)
{
	struct session_info info;

	return session_find(session->sse->state, session->id, &info) ==
	    ERR_NOT_FOUND;
}

static void
stream_keepalive(void *arg)
{
	struct sse_session *session = arg;

	if (is_evicted(session)) {
		sse_session_close(session);
		return;
	}
	session->stream->ops->write(session->stream, EVENT_STREAM_COMMENT,
	    strlen(EVENT_STREAM_COMMENT));
}

static bool
stream_busy(void *arg)
{
	const struct sse_session *session = arg;

	return mcp_session_busy(session->mcp);
}

static const struct stream_events events = {
	.closed = stream_closed,
	.keepalive = stream_keepalive,
	.busy = stream_busy,
};

static void
write_event(
    struct sse_session *session, const char *name, const char *data, size_t n)
{
	CLEANUP_BUF struct buf event = { 0 };

	buf_init(&event, EVENT_MAX);
	if (event_stream_event(&event, name, data, n) == ERR_OK)
		session->stream->ops->write(
		    session->stream, event.data, event.len);
	else /* the client would wait for ever for what is lost here */
		session->stream->ops->fail(session->stream);
}

/* ---- answers of the core ---- */

struct sse_sink {
	struct sink sink;
	struct sse_session *session; /* outlives the sink */
};

static void
sink_notify(struct sink *sink, const char *json, size_t len)
{
	write_event(((struct sse_sink *)sink)->session, "message", json, len);
}

static void
sink_reply(struct sink *sink, const char *json, size_t len)
{
	sink_notify(sink, json, len);
	free(sink);
}

static void
sink_drop(struct sink *sink)
{
	free(sink);
}

static const struct sink_ops sink_ops = {
	.notify = sink_notify,
	.reply = sink_reply,
	.drop = sink_drop,
};

enum err
sse_sink_new(struct sse_session *session, const struct rpc_message *message,
    struct sink **ret_sink)
{
	struct sse_sink *sink;

	if (message->kind != RPC_REQUEST) {
		*ret_sink = NULL;
		return ERR_OK;
	}
	if ((sink = calloc(1, sizeof(*sink))) == NULL)
		return ERR_NOMEM;
	sink->sink.ops = &sink_ops;
	sink->session = session;
	*ret_sink = &sink->sink;
	return ERR_OK;
}

void
sse_sink_free(struct sink *sink)
{
	free(sink);
}

void
sse_deliver(
    struct sse_session *session, struct rpc_message *message, struct sink *sink)
{
	mcp_handle(session->mcp, message, sink);
	if (mcp_session_busy(session->mcp))
		session->stream->ops->busy(session->stream);
}

/* ---- GET /sse ---- */

/* The event that tells where to POST: a path on this same origin, never more,
 * because only the client knows by which name it reached us. */
static enum err
write_endpoint(struct sse_session *session, const char *prefix)
{
	CLEANUP_BUF struct buf url = { 0 };
	enum err rc;

	buf_init(&url, HTTP_PATH_MAX + 256);
	if ((rc = buf_printf(&url, "%s/messages/?session_id=%s", prefix,
		 session->id)) != ERR_OK)
		return rc;
	write_event(session, "endpoint", url.data, url.len);
	return ERR_OK;
}

static enum err
stream_head(struct http_response *response)
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

static enum err
session_new(struct sse *sse, const struct exchange *exchange,
    struct sse_session **ret_session)
{
	const char *client = http_field(&exchange->request, "REMOTE_ADDR");
	struct sse_session *session;
	enum err rc;

	if ((rc = sse_table_reserve(&sse->sessions)) != ERR_OK)
		return rc;
	if ((session = calloc(1, sizeof(*session))) == NULL)
		return ERR_NOMEM;
	session->sse = sse;
	if (client == NULL)
		client = "";
	if ((rc = session_create(
		 sse->state, SESSION_SSE, client, session->id)) != ERR_OK) {
		free(session);
		return rc;
	}
	rc = mcp_session_new(sse->mcp, session->id, client, &session->mcp);
	if (rc != ERR_OK) {
		if (session_end(sse->state, session->id) != ERR_OK)
			rc = ERR_INTERNAL;
		free(session);
		return rc;
	}
	sse_table_add(&sse->sessions, session);
	/* a part of the id: the whole is what lets in */
	log_info("session.open", "id=%.16s client=%s", session->id, client);
	*ret_session = session;
	return ERR_OK;
}

static enum err
get_open(struct exchange *exchange)
{
	struct sse *sse = exchange->transport->sse;
	CLEANUP_BUF struct buf prefix = { 0 };
	struct sse_session *session;
	enum err rc;

	buf_init(&prefix, HTTP_PATH_MAX);
	if (sse->draining)
		return ERR_BUSY;
	if ((rc = exchange_streamable(exchange)) != ERR_OK ||
	    (rc = route_prefix(exchange, &prefix)) != ERR_OK ||
	    (rc = session_new(sse, exchange, &session)) != ERR_OK)
		return rc;
	mcp_session_prefix(session->mcp, buf_str(&prefix));
	rc = exchange_stream(exchange, &events, session, &session->stream);
	if (rc != ERR_OK) {
		session_free(session);
		return rc;
	}
	metric_add(sse->state, METRIC_streams_opened, 1);
	if (write_endpoint(session, buf_str(&prefix)) != ERR_OK)
		sse_session_close(session);
	return ERR_OK;
}

static void
get_run(struct exchange *exchange)
{
	enum err rc = get_open(exchange);

	if (rc == ERR_OK)
		return;
	buf_done(&exchange->response.head);
	exchange_refuse(exchange, rc == ERR_CLOSED ? rc : ERR_BUSY,
	    "no more streams can be opened now");
}

void
sse_get(struct exchange *exchange)
{
	const char *accept = http_field(&exchange->request, "HTTP_ACCEPT");

	/* lenient: clients that name only JSON mean the answers */
	if (!http_accepts(accept, "text/event-stream") &&
	    !http_accepts(accept, "application/json")) {
		http_error(&exchange->response, 406, NULL, -32600,
		    "this is an event stream: Accept text/event-stream");
		return;
	}
	if (stream_head(&exchange->response) != ERR_OK)
		http_error_of(&exchange->response, ERR_NOMEM, NULL);
	else
		exchange->run = get_run;
}

/* ---- all sessions ---- */

static void
check_one(struct sse_session *session, void *arg)
{
	(void)arg;
	if (is_evicted(session))
		sse_session_close(session);
}

void
sse_check(struct sse *sse)
{
	sse_table_each(&sse->sessions, check_one, NULL);
}

static void
drain_one(struct sse_session *session, void *arg)
{
	const bool *all = arg;

	if (*all || !mcp_session_busy(session->mcp))
		sse_session_close(session);
}

unsigned
sse_drain(struct sse *sse, bool all)
{
	sse->draining = true;
	sse_table_each(&sse->sessions, drain_one, &all);
	return (unsigned)sse->sessions.count;
}
