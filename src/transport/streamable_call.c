/* From the message of a POST to its answer: plain JSON, or an event stream
 * while a call is under way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "state/metrics.h"
#include "transport/event_stream.h"
#include "transport/streamable_internal.h"

#define EVENT_MAX ((size_t)1 << 30)
#define TOUCH_MS 20000

/* One request of a post. */
struct part {
	struct sink sink;
	struct post *post;
	char *id; /* raw, owned; NULL: answered, or none */
};

struct post {
	LIST_ENTRY(post) link;
	struct streamable *streamable;
	struct exchange *exchange; /* owned; NULL once answered or streamed */
	struct stream *stream;     /* NULL: none, or its client is gone */
	struct mcp_session *mcp;   /* owned */
	enum revision revision;
	bool fresh; /* an initialize whose session is new */
	bool batch;
	bool streamed; /* answers are events, whoever reads them */
	bool handling; /* its messages are being handed to the core */
	bool ending;   /* what the core drops now is passed over */
	unsigned open; /* parts not answered */
	struct event_log log;
	uint64_t touched_ms;
	struct buf answers; /* of a batch */
	char session[SESSION_ID_LEN + 1];
	size_t n;
	struct part parts[];
};

/* ---- its end ---- */

static void
post_free(struct post *post)
{
	struct streamable *streamable = post->streamable;

	post->ending = true;
	mcp_session_free(post->mcp);
	event_log_close(&post->log);
	if (post->exchange != NULL)
		exchange_refuse(post->exchange, ERR_BUSY, NULL);
	if (post->stream != NULL)
		post->stream->ops->close(post->stream);
	for (size_t i = 0; i < post->n; i++)
		free(post->parts[i].id);
	buf_done(&post->answers);
	LIST_REMOVE(post, link);
	streamable->posts_open--;
	free(post);
}

/* ---- plain answers ---- */

/* The code of an error answer as the core writes it; 0: a result. */
static int
error_code(const struct part *part, const char *json)
{
	static const char begin[] = "{\"jsonrpc\":\"2.0\",\"id\":";
	static const char error[] = ",\"error\":{\"code\":";
	const char *at = json + strlen(begin) + strlen(part->id);

	if (strlen(json) < (size_t)(at - json) ||
	    strncmp(at, error, strlen(error)) != 0)
		return 0;
	return (int)strtol(at + strlen(error), NULL, 10);
}

/* Older clients read no body of a refused request: there an error of the
 * method is an answer like others. */
static int
status_of(const struct post *post, int code)
{
	if (post->revision < REVISION_2026_07_28)
		return code == -32600 ? 400 : 200;
	if (code == -32601)
		return 404;
	return code == -32600 || code == -32602 ? 400 : 200;
}

static void
answer_json(struct post *post, int status, const char *json, size_t len)
{
	struct exchange *exchange = STEAL_PTR(post->exchange);
	struct http_response *response = &exchange->response;

	response->status = status;
	if (http_header(response, "Content-Type", "application/json") !=
		ERR_OK ||
	    (post->fresh && status == 200 &&
		http_header(response, "Mcp-Session-Id", post->session) !=
		    ERR_OK) ||
	    buf_append(&response->body, json, len) != ERR_OK) {
		exchange_refuse(exchange, ERR_NOMEM, NULL);
		return;
	}
	exchange_answer(exchange);
}

static void
answer_empty(struct post *post, int status)
{
	post->exchange->response.status = status;
	exchange_answer(STEAL_PTR(post->exchange));
}

static void
append_answer(struct post *post, const char *json, size_t len)
{
	struct buf *all = &post->answers;

	if (buf_putc(all, all->len == 0 ? '[' : ',') != ERR_OK ||
	    buf_append(all, json, len) != ERR_OK)
		log_warn("batch.answer", "an answer is lost: out of memory");
}

/* All parts are answered. */
static void
answer_batch(struct post *post)
{
	if (post->answers.len == 0)
		answer_empty(post, 202);
	else if (buf_putc(&post->answers, ']') != ERR_OK)
		exchange_refuse(STEAL_PTR(post->exchange), ERR_NOMEM, NULL);
	else
		answer_json(post, 200, post->answers.data, post->answers.len);
}

/* ---- events ---- */

static void
send_event(struct post *post, const struct buf *event)
{
	if (post->stream != NULL)
		post->stream->ops->write(post->stream, event->data, event->len);
}

/* Errors have no id: clients that count on a result would come back for it
 * for ever. */
static void
post_event(
    struct post *post, const char *json, size_t len, bool last, bool numbered)
{
	CLEANUP_BUF struct buf event = { .max = EVENT_MAX };
	char id[EVENT_LOG_ID_MAX + 1] = "";
	enum err rc = ERR_OK;
	size_t head;

	if (numbered)
		event_log_next_id(&post->log, id, sizeof(id));
	if (id[0] != '\0')
		rc = buf_printf(&event, "id: %s\n", id);
	head = event.len;
	if (rc == ERR_OK)
		rc = event_stream_event(&event, "message", json, len);
	if (rc != ERR_OK) {
		/* lost: the client must not wait for ever */
		if (post->stream != NULL)
			post->stream->ops->fail(post->stream);
		return;
	}
	if (post->log.fd >= 0 &&
	    event_log_append(&post->log, event.data, event.len, last) != ERR_OK)
		buf_drop(&event, head);
	send_event(post, &event);
}

/* An event without data that tells an id before anything else: who loses the
 * connection early can come back too. Older clients cannot read it. */
static void
prime(struct post *post)
{
	CLEANUP_BUF struct buf event = { .max = 256 };
	char id[EVENT_LOG_ID_MAX + 1];

	event_log_next_id(&post->log, id, sizeof(id));
	if (post->revision != REVISION_2025_11_25 || id[0] == '\0' ||
	    buf_printf(&event, "id: %s\nretry: 1000\ndata: \n\n", id) !=
		ERR_OK ||
	    event_log_append(&post->log, event.data, event.len, false) !=
		ERR_OK)
		return;
	send_event(post, &event);
}

static void
stream_closed(void *arg)
{
	struct post *post = arg;

	post->stream = NULL;
	if (post->revision >= REVISION_2026_07_28)
		post_free(post);
}

static void
stream_keepalive(void *arg)
{
	struct post *post = arg;

	post->stream->ops->write(
	    post->stream, EVENT_STREAM_COMMENT, strlen(EVENT_STREAM_COMMENT));
}

static bool
stream_busy(void *arg)
{
	const struct post *post = arg;

	return post->revision >= REVISION_2026_07_28 && post->open > 0;
}

static const struct stream_events events = {
	.closed = stream_closed,
	.keepalive = stream_keepalive,
	.busy = stream_busy,
};

/* Whether the client names event streams: any type at all means little. */
static bool
wants_stream(const struct exchange *exchange)
{
	const char *accept = http_field(&exchange->request, "HTTP_ACCEPT");

	return accept != NULL && http_accepts(accept, "text/event-stream") &&
	    (strcasestr(accept, "text/event-stream") != NULL ||
		strcasestr(accept, "text/*") != NULL);
}

/* A call is under way: from here on its answer is a stream, if it can be. */
static void
open_stream(struct post *post)
{
	struct streamable *streamable = post->streamable;
	struct http_response *response = &post->exchange->response;
	size_t before = response->head.len;
	bool modern = post->revision >= REVISION_2026_07_28;
	enum err rc;

	if (post->batch || !wants_stream(post->exchange))
		return;
	if ((rc = exchange_streamable(post->exchange)) != ERR_OK) {
		/* gone already: there that is a cancellation */
		if (rc == ERR_CLOSED && modern)
			post_free(post);
		return;
	}
	if (streamable_stream_head(response) != ERR_OK ||
	    exchange_stream(post->exchange, &events, post, &post->stream) !=
		ERR_OK) {
		response->head.len = before;
		if (response->head.data != NULL)
			response->head.data[before] = '\0';
		return;
	}
	post->exchange = NULL;
	post->streamed = true;
	metric_add(streamable->state, METRIC_streams_opened, 1);
	if (modern) {
		post->stream->ops->busy(post->stream);
		return;
	}
	if (streamable->conf->events_bytes > 0 &&
	    event_log_create(&post->log, state_run_dir(streamable->state),
		post->session, post->parts[0].id) != ERR_OK)
		log_warn("events.open", "the events of a stream are not kept");
	post->touched_ms = clock_ms();
	prime(post);
}

/* ---- what the core says ---- */

static void
sink_notify(struct sink *sink, const char *json, size_t len)
{
	struct post *post = ((struct part *)sink)->post;

	if (post->streamed)
		post_event(post, json, len, false, true);
}

static void
part_done(struct post *post)
{
	if (--post->open > 0)
		return;
	if (post->batch && !post->handling)
		answer_batch(post);
	if (!post->handling)
		post_free(post);
}

static void
sink_reply(struct sink *sink, const char *json, size_t len)
{
	struct part *part = (struct part *)sink;
	struct post *post = part->post;
	int code = error_code(part, json);

	free(STEAL_PTR(part->id));
	if (post->fresh && code != 0) {
		/* refused: there is no session */
		post->fresh = false;
		if (session_end(post->streamable->state, post->session) !=
		    ERR_OK)
			log_debug("session.close", "id=%.16s was gone",
			    post->session);
	}
	if (post->streamed)
		post_event(post, json, len, true, code == 0);
	else if (post->batch)
		append_answer(post, json, len);
	else
		answer_json(post, status_of(post, code), json, len);
	part_done(post);
}

static void
sink_drop(struct sink *sink)
{
	struct part *part = (struct part *)sink;
	struct post *post = part->post;

	free(STEAL_PTR(part->id));
	if (post->ending)
		return;
	/* cancelled: no answer comes */
	if (post->streamed && post->log.fd >= 0 &&
	    event_log_append(&post->log, "", 0, true) != ERR_OK)
		log_debug("events.end", "not kept");
	if (!post->batch && post->exchange != NULL)
		answer_empty(post, 202);
	part_done(post);
}

static const struct sink_ops sink_ops = {
	.notify = sink_notify,
	.reply = sink_reply,
	.drop = sink_drop,
};

/* ---- its beginning ---- */

static enum err
add_part(struct post *post, const struct rpc_message *message)
{
	struct part *part = &post->parts[post->n];

	part->sink.ops = &sink_ops;
	part->post = post;
	if ((part->id = strdup(message->id)) == NULL)
		return ERR_NOMEM;
	post->n++;
	post->open++;
	return ERR_OK;
}

static enum err
add_parts(struct post *post, const struct exchange *exchange)
{
	const struct batch *batch = exchange->batch;
	enum err rc = ERR_OK;

	if (batch == NULL)
		return exchange->message->kind == RPC_REQUEST
		    ? add_part(post, exchange->message)
		    : ERR_OK;
	for (size_t i = 0; i < batch->n && rc == ERR_OK; i++) {
		const struct rpc_message *message = batch->items[i].message;

		if (message != NULL && message->kind == RPC_REQUEST)
			rc = add_part(post, message);
	}
	return rc;
}

/* Under which path files are linked for this peer. */
static void
set_prefix(struct post *post, const struct exchange *exchange)
{
	CLEANUP_BUF struct buf prefix = { .max = HTTP_PATH_MAX };

	if (route_prefix(exchange, &prefix) == ERR_OK)
		mcp_session_prefix(post->mcp, buf_str(&prefix));
}

static enum err
post_new(struct exchange *exchange, const char *session, enum revision revision,
    struct post **ret_post)
{
	struct streamable *streamable = exchange->transport->streamable;
	const char *client = http_field(&exchange->request, "REMOTE_ADDR");
	size_t n = exchange->batch != NULL ? exchange->batch->n : 1;
	struct post *post =
	    calloc(1, sizeof(*post) + n * sizeof(post->parts[0]));
	enum err rc;

	if (post == NULL)
		return ERR_NOMEM;
	post->streamable = streamable;
	post->revision = revision;
	post->batch = exchange->batch != NULL;
	buf_init(&post->answers, EVENT_MAX);
	event_log_none(&post->log);
	snprintf(post->session, sizeof(post->session), "%s", session);
	LIST_INSERT_HEAD(&streamable->posts, post, link);
	streamable->posts_open++;
	if ((rc = add_parts(post, exchange)) == ERR_OK)
		rc = mcp_session_new(streamable->mcp, session,
		    client != NULL ? client : "", &post->mcp);
	if (rc != ERR_OK) {
		post_free(post);
		return rc;
	}
	if (revision == REVISION_2026_07_28)
		mcp_session_stateless(post->mcp);
	set_prefix(post, exchange);
	post->exchange = exchange;
	*ret_post = post;
	return ERR_OK;
}

/* Hands one message to the core, which may answer at once. */
static void
handle(struct post *post, struct rpc_message *message, size_t *at)
{
	struct sink *sink = NULL;

	if (message->kind == RPC_REQUEST)
		sink = &post->parts[(*at)++].sink;
	mcp_handle(post->mcp, message, sink);
}

static void
refuse_item(struct post *post, const struct rpc_fault *fault)
{
	CLEANUP_BUF struct buf out = { .max = 4096 };

	if (rpc_fault_answer(&out, fault) == ERR_OK)
		append_answer(post, out.data, out.len);
}

static void
handle_batch(struct post *post)
{
	struct batch *batch = post->exchange->batch;
	size_t at = 0;

	for (size_t i = 0; i < batch->n; i++) {
		struct batch_item *item = &batch->items[i];

		if (item->message != NULL)
			handle(post, STEAL_PTR(item->message), &at);
		else
			refuse_item(post, &item->fault);
	}
}

static void
begin(struct post *post)
{
	size_t at = 0;

	post->handling = true;
	if (post->batch)
		handle_batch(post);
	else
		handle(post, STEAL_PTR(post->exchange->message), &at);
	post->handling = false;
	if (post->open > 0) {
		open_stream(post);
		return;
	}
	if (post->batch)
		answer_batch(post);
	else if (post->exchange != NULL) /* a notification or a response */
		answer_empty(post, 202);
	post_free(post);
}

void
post_begin(struct exchange *exchange, const char *session,
    enum revision revision, bool fresh)
{
	struct streamable *streamable = exchange->transport->streamable;
	struct post *post;

	if (post_new(exchange, session, revision, &post) != ERR_OK) {
		if (fresh && session_end(streamable->state, session) != ERR_OK)
			log_debug("session.close", "id=%.16s", session);
		exchange_refuse(exchange, ERR_NOMEM, NULL);
		return;
	}
	post->fresh = fresh;
	begin(post);
}

/* ---- all posts ---- */

void
post_fail(struct post *post, const char *text)
{
	for (size_t i = 0; i < post->n; i++) {
		CLEANUP_BUF struct buf out = { .max = 4096 };
		struct part *part = &post->parts[i];

		if (part->id == NULL ||
		    rpc_error(&out, part->id, -32603, text, NULL) != ERR_OK)
			continue;
		free(STEAL_PTR(part->id));
		if (post->streamed)
			post_event(post, out.data, out.len, true, false);
		else if (post->batch)
			append_answer(post, out.data, out.len);
		else
			answer_json(post, 200, out.data, out.len);
	}
	if (post->batch && post->exchange != NULL)
		answer_batch(post);
	post_free(post);
}

void
post_end_all(
    struct streamable *streamable, const char *session, const char *text)
{
	struct post *post = LIST_FIRST(&streamable->posts), *next;

	for (; post != NULL; post = next) {
		next = LIST_NEXT(post, link);
		if (session == NULL || strcmp(post->session, session) == 0)
			post_fail(post, text);
	}
}

void
post_tick(struct streamable *streamable)
{
	struct post *post = LIST_FIRST(&streamable->posts), *next;
	uint64_t now = clock_ms();
	struct session_info info;

	for (; post != NULL; post = next) {
		next = LIST_NEXT(post, link);
		if (post->revision >= REVISION_2026_07_28)
			continue;
		if (session_find(streamable->state, post->session, &info) ==
		    ERR_NOT_FOUND) {
			post_fail(post, "the session was ended");
		} else if (now >= post->touched_ms + TOUCH_MS) {
			post->touched_ms = now;
			event_log_touch(&post->log);
		}
	}
}

void
post_supersede(struct streamable *streamable, const char *name)
{
	struct post *post;

	LIST_FOREACH(post, &streamable->posts, link)
	{
		if (post->stream != NULL && post->log.fd >= 0 &&
		    strcmp(post->log.name, name) == 0) {
			post->stream->ops->close(post->stream);
			post->stream = NULL;
		}
	}
}
