/* GET with Last-Event-ID: what a client has missed of a stream, from the file
 * that the process with the call writes, and what still comes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "state/metrics.h"
#include "transport/event_stream.h"
#include "transport/streamable_internal.h"

#define LOOK_MS 100 /* between two looks at the file */
/* so often in a row no process may have the call before it is given up: the
 * one that had it tells the table first, then writes its last event */
#define MISSES_MAX 5
#define EVENT_MAX ((size_t)1 << 30)

struct resume {
	LIST_ENTRY(resume) link;
	struct streamable *streamable;
	struct stream *stream;
	struct event *timer; /* owned */
	struct event_reader reader;
	unsigned seen; /* number of the last event that the client has */
	unsigned misses;
	char session[SESSION_ID_LEN + 1];
};

static void
resume_free(struct resume *resume)
{
	LIST_REMOVE(resume, link);
	event_free(resume->timer);
	event_reader_close(&resume->reader);
	free(resume);
}

static void
resume_close(struct resume *resume)
{
	resume->stream->ops->close(resume->stream);
	resume_free(resume);
}

static void
stream_closed(void *arg)
{
	resume_free(arg);
}

static void
stream_keepalive(void *arg)
{
	struct resume *resume = arg;

	resume->stream->ops->write(
	    resume->stream, EVENT_STREAM_COMMENT, strlen(EVENT_STREAM_COMMENT));
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

/* The process with the call has died: nothing more will come. */
static void
send_loss(struct resume *resume)
{
	CLEANUP_BUF struct buf json = { .max = 2048 };
	CLEANUP_BUF struct buf event = { .max = 4096 };

	if (rpc_error(&json, resume->reader.raw_id, -32603,
		"the process that ran this call has ended: its result is lost",
		NULL) == ERR_OK &&
	    event_stream_event(&event, "message", json.data, json.len) ==
		ERR_OK)
		resume->stream->ops->write(
		    resume->stream, event.data, event.len);
}

/* Sends what is there. ERR_TRUNCATED: more is to come. ERR_OK: that was
 * all. */
static enum err
send_events(struct resume *resume)
{
	for (;;) {
		CLEANUP_BUF struct buf event = { .max = EVENT_MAX };
		unsigned number;
		bool last;
		enum err rc =
		    event_reader_next(&resume->reader, &event, &number, &last);

		if (rc != ERR_OK)
			return rc;
		resume->misses = 0;
		if (number > resume->seen && event.len > 0)
			resume->stream->ops->write(
			    resume->stream, event.data, event.len);
		if (last)
			return ERR_OK;
	}
}

static bool
is_lost(struct resume *resume)
{
	uint64_t process;

	if (session_call_find(resume->streamable->state, resume->session,
		resume->reader.raw_id, &process) != ERR_NOT_FOUND)
		resume->misses = 0;
	else
		resume->misses++;
	return resume->misses > MISSES_MAX;
}

static void
look(struct resume *resume)
{
	struct timeval again = { .tv_usec = LOOK_MS * 1000 };
	enum err rc = send_events(resume);

	if (rc == ERR_TRUNCATED && !is_lost(resume) &&
	    event_add(resume->timer, &again) == 0)
		return;
	if (rc != ERR_OK)
		send_loss(resume);
	resume_close(resume);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	look(arg);
}

/* Everything but the stream. */
static enum err
resume_new(struct streamable *streamable, const struct session_info *info,
    const char *event_id, struct resume **ret_resume)
{
	struct resume *resume = calloc(1, sizeof(*resume));
	char name[EVENT_LOG_NAME + 1];
	enum err rc;

	if (resume == NULL)
		return ERR_NOMEM;
	if ((rc = event_log_id(event_id, name, &resume->seen)) != ERR_OK ||
	    (rc = event_reader_open(&resume->reader,
		 state_run_dir(streamable->state), info->id, name)) != ERR_OK) {
		free(resume);
		return ERR_NOT_FOUND;
	}
	resume->timer = evtimer_new(streamable->base, on_timer, resume);
	if (resume->timer == NULL) {
		event_reader_close(&resume->reader);
		free(resume);
		return ERR_NOMEM;
	}
	resume->streamable = streamable;
	snprintf(resume->session, sizeof(resume->session), "%s", info->id);
	LIST_INSERT_HEAD(&streamable->resumes, resume, link);
	post_supersede(streamable, name);
	*ret_resume = resume;
	return ERR_OK;
}

void
resume_get(struct exchange *exchange, const struct session_info *info,
    const char *event_id)
{
	struct streamable *streamable = exchange->transport->streamable;
	struct resume *resume;
	enum err rc = exchange_streamable(exchange);

	if (rc == ERR_OK)
		rc = resume_new(streamable, info, event_id, &resume);
	if (rc == ERR_NOT_FOUND) {
		streamable_error(exchange, 400, -32600,
		    "nothing is kept of the stream of this Last-Event-ID",
		    NULL);
		exchange_answer(exchange);
		return;
	}
	if (rc != ERR_OK) {
		exchange_refuse(exchange, ERR_BUSY, NULL);
		return;
	}
	if (streamable_stream_head(&exchange->response) != ERR_OK ||
	    exchange_stream(exchange, &events, resume, &resume->stream) !=
		ERR_OK) {
		resume_free(resume);
		buf_done(&exchange->response.head);
		exchange_refuse(exchange, ERR_BUSY, NULL);
		return;
	}
	log_info("session.resume", "id=%.16s", info->id);
	metric_add(streamable->state, METRIC_streams_opened, 1);
	stream_keepalive(resume);
	look(resume);
}

void
resume_end_all(struct streamable *streamable)
{
	while (!LIST_EMPTY(&streamable->resumes))
		resume_close(LIST_FIRST(&streamable->resumes));
}
