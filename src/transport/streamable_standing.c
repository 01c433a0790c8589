/* Streams that stand open for what the server may say: GET of the revisions
 * with sessions, subscriptions/listen of 2026-07-28. Nothing here changes
 * while a process lives, so that they hold little but comments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "mcp/listen.h"
#include "state/metrics.h"
#include "transport/event_stream.h"
#include "transport/streamable_internal.h"

struct standing {
	LIST_ENTRY(standing) link;
	struct streamable *streamable;
	struct stream *stream;
	char *listen_id; /* raw, owned; NULL: the stream of a session */
	char session[SESSION_ID_LEN + 1];
};

static void
standing_free(struct standing *standing)
{
	struct streamable *streamable = standing->streamable;

	LIST_REMOVE(standing, link);
	if (standing->listen_id == NULL &&
	    session_stream(streamable->state, standing->session, false) !=
		ERR_OK)
		log_debug(
		    "session.stream", "id=%.16s is gone", standing->session);
	free(standing->listen_id);
	free(standing);
}

static void
standing_close(struct standing *standing)
{
	standing->stream->ops->close(standing->stream);
	standing_free(standing);
}

static void
stream_closed(void *arg)
{
	standing_free(arg);
}

static void
stream_keepalive(void *arg)
{
	struct standing *standing = arg;

	standing->stream->ops->write(standing->stream, EVENT_STREAM_COMMENT,
	    strlen(EVENT_STREAM_COMMENT));
}

static bool
stream_busy(void *arg)
{
	(void)arg;
	return false;
}

static const struct stream_events events = {
	.closed = stream_closed,
	.keepalive = stream_keepalive,
	.busy = stream_busy,
};

/* Opens the stream; on failure the exchange is answered. */
static struct standing *
standing_open(struct exchange *exchange, const char *session)
{
	struct streamable *streamable = exchange->transport->streamable;
	struct standing *standing = calloc(1, sizeof(*standing));
	enum err rc = standing != NULL ? ERR_OK : ERR_NOMEM;

	if (rc == ERR_OK && streamable->draining)
		rc = ERR_BUSY;
	if (rc == ERR_OK)
		rc = exchange_streamable(exchange);
	if (rc == ERR_OK)
		rc = streamable_stream_head(&exchange->response);
	if (rc == ERR_OK)
		rc = exchange_stream(
		    exchange, &events, standing, &standing->stream);
	if (rc != ERR_OK) {
		free(standing);
		buf_done(&exchange->response.head);
		exchange_refuse(exchange, rc == ERR_CLOSED ? rc : ERR_BUSY,
		    "no more streams can be opened now");
		return NULL;
	}
	standing->streamable = streamable;
	snprintf(standing->session, sizeof(standing->session), "%s", session);
	LIST_INSERT_HEAD(&streamable->standings, standing, link);
	metric_add(streamable->state, METRIC_streams_opened, 1);
	return standing;
}

/* ---- GET ---- */

void
standing_get(struct exchange *exchange, const struct session_info *info)
{
	struct streamable *streamable = exchange->transport->streamable;
	struct standing *standing;

	/* the newer stream takes over; another process lets its one go when
	 * it sees that the session's stream is here */
	standing_end_all(streamable, info->id);
	if ((standing = standing_open(exchange, info->id)) == NULL)
		return;
	if (session_stream(streamable->state, info->id, true) != ERR_OK) {
		standing_close(standing);
		return;
	}
	/* something to send makes every web server send the head at once */
	stream_keepalive(standing);
}

/* ---- subscriptions/listen ---- */

static enum err
write_message(struct standing *standing, const struct buf *json)
{
	CLEANUP_BUF struct buf event = { .max = 8192 };
	enum err rc =
	    event_stream_event(&event, "message", json->data, json->len);

	if (rc == ERR_OK)
		standing->stream->ops->write(
		    standing->stream, event.data, event.len);
	return rc;
}

static enum err
acknowledge(struct standing *standing)
{
	CLEANUP_BUF struct buf json = { .max = 2048 };
	enum err rc = listen_acknowledged(&json, standing->listen_id);

	return rc != ERR_OK ? rc : write_message(standing, &json);
}

static void
conclude(struct standing *standing)
{
	CLEANUP_BUF struct buf json = { .max = 2048 };

	if (listen_concluded(&json, standing->listen_id) != ERR_OK ||
	    write_message(standing, &json) != ERR_OK)
		log_debug("listen.end", "out of memory");
}

void
standing_listen(struct exchange *exchange)
{
	const char *accept = http_field(&exchange->request, "HTTP_ACCEPT");
	CLEANUP_FREE char *id = strdup(exchange->message->id);
	struct standing *standing;

	if (id == NULL) {
		exchange_refuse(exchange, ERR_NOMEM, NULL);
		return;
	}
	if (!listen_is_valid(exchange->message)) {
		streamable_error(exchange, 400, -32602, LISTEN_FAULT, NULL);
		exchange_answer(exchange);
		return;
	}
	if (!http_accepts(accept, "text/event-stream")) {
		streamable_error(exchange, 406, -32600,
		    "this is an event stream: Accept text/event-stream", NULL);
		exchange_answer(exchange);
		return;
	}
	if ((standing = standing_open(exchange, "")) == NULL)
		return;
	standing->listen_id = STEAL_PTR(id);
	if (acknowledge(standing) != ERR_OK)
		standing_close(standing);
}

/* ---- all of them ---- */

void
standing_end_all(struct streamable *streamable, const char *session)
{
	struct standing *standing = LIST_FIRST(&streamable->standings), *next;

	for (; standing != NULL; standing = next) {
		next = LIST_NEXT(standing, link);
		if (session != NULL && strcmp(standing->session, session) != 0)
			continue;
		if (standing->listen_id != NULL)
			conclude(standing);
		standing_close(standing);
	}
}

void
standing_tick(struct streamable *streamable)
{
	struct standing *standing = LIST_FIRST(&streamable->standings), *next;
	struct session_info info;
	enum err rc;

	for (; standing != NULL; standing = next) {
		next = LIST_NEXT(standing, link);
		if (standing->listen_id != NULL)
			continue;
		rc = session_find(streamable->state, standing->session, &info);
		if (rc == ERR_NOT_FOUND ||
		    (rc == ERR_OK &&
			info.owner != state_process(streamable->state)))
			standing_close(standing);
	}
}
