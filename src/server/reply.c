/* A connection's output: answers and streams. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/conn.h"
#include "server/fcgi.h"
#include "state/metrics.h"

/* A stream whose output has not moved for so many keep-alives is dropped. */
#define STALLS_MAX 8
#define CONTENT_MAX ((size_t)1 << 31)

static size_t
queued(const struct conn *conn)
{
	return evbuffer_get_length(bufferevent_get_output(conn->bev));
}

static void
scratch_clear(struct server *server)
{
	evbuffer_drain(server->scratch, evbuffer_get_length(server->scratch));
}

void
conn_flush(struct conn *conn)
{
	struct evbuffer *scratch = conn->server->scratch;
	struct evbuffer *out = bufferevent_get_output(conn->bev);

	/* mostly all goes at once, without a turn of the loop */
	if (evbuffer_get_length(out) == 0 &&
	    evbuffer_write(scratch, bufferevent_getfd(conn->bev)) < 0 &&
	    errno != EAGAIN && errno != EINTR) {
		scratch_clear(conn->server);
		conn_doom(conn);
		return;
	}
	if (evbuffer_get_length(scratch) > 0 &&
	    evbuffer_add_buffer(out, scratch) != 0) {
		scratch_clear(conn->server);
		conn_doom(conn);
	}
}

/* ---- answers ---- */

void
conn_written(struct conn *conn)
{
	struct server *server = conn->server;

	conn->stalls = 0;
	if (queued(conn) > 0)
		return;
	if (conn->phase == CONN_FILE) {
		conn_file_more(conn);
	} else if (conn->phase == CONN_IDLE) {
		tick_stop(&conn->tick);
	} else if (conn->phase == CONN_LINGER) {
		if (!conn->early || conn->eof) {
			conn_doom(conn);
			return;
		}
		/* closing with input unread would take the answer away from
		 * the peer (ECONNRESET): it must have seen the end first */
		shutdown(bufferevent_getfd(conn->bev), SHUT_WR);
		tick_start(&server->lingering, &conn->tick);
	}
}

void
conn_finish(struct conn *conn)
{
	struct server *server = conn->server;

	if (conn->phase == CONN_DOOMED)
		return;
	if (record_finish(server->scratch, conn->gather.id) != ERR_OK) {
		scratch_clear(server);
		conn_doom(conn);
		return;
	}
	conn_flush(conn);
	gather_end(&conn->gather);
	if (conn->phase == CONN_DOOMED)
		return;
	conn->phase = conn->gather.keep && !conn->eof && !server->draining
	    ? CONN_IDLE
	    : CONN_LINGER;
	tick_start(&server->answering, &conn->tick);
	conn_written(conn);
}

static void
note(const struct conn *conn, const struct exchange *exchange,
    const struct http_response *response)
{
	struct state *state = conn->server->transport->state;
	unsigned long long ms = clock_ms() - conn->started;
	int shown = exchange != NULL && exchange->shown > 0
	    ? (int)exchange->shown
	    : 200;

	metric_add(state, METRIC_requests, 1);
	if (response->status >= 400 &&
	    (exchange == NULL || exchange->run == NULL))
		metric_add(state, METRIC_requests_refused, 1);
	log_event(response->status < 400 ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO,
	    "http.request", "status=%d ms=%llu method=%.16s path=%.*s",
	    response->status, ms,
	    exchange != NULL ? exchange->request.method : "", shown,
	    exchange != NULL ? buf_str(&exchange->request.path) : "");
}

void
conn_answer(struct conn *conn, struct http_response *response)
{
	struct server *server = conn->server;
	CLEANUP_BUF struct buf content = { 0 };
	enum err rc;

	buf_init(&content, CONTENT_MAX);
	if ((rc = http_response_head(response, false, &content)) == ERR_OK &&
	    !response->head_only)
		rc = buf_append(
		    &content, buf_str(&response->body), response->body.len);
	if (rc == ERR_OK)
		rc = record_stdout(server->scratch, conn->gather.id,
		    content.data, content.len);
	if (rc != ERR_OK) {
		scratch_clear(server);
		conn_doom(conn);
	} else if (response->file >= 0 && !response->head_only) {
		conn_file_begin(conn, response);
	} else {
		conn_finish(conn);
	}
}

void
conn_refuse(struct conn *conn, enum err err, const char *text)
{
	struct http_response response;

	http_response_init(&response);
	http_error_of(&response, err, text);
	arrival_free(conn->arrival);
	conn->arrival = NULL;
	conn->server->requests--;
	conn->phase = CONN_WORKING;
	/* a request that took too long may go on for ever: no keeping then */
	conn->early = true;
	conn->eof = conn->eof || err == ERR_TIMEOUT;
	note(conn, NULL, &response);
	conn_answer(conn, &response);
	http_response_done(&response);
}

static void
peer_answer(struct peer *peer, struct exchange *exchange)
{
	struct conn *conn = conn_of_peer(peer);
	struct http_response *response = &exchange->response;

	if (response->file >= 0 &&
	    conn->server->files >= conn->server->max_files) {
		buf_done(&response->head);
		http_error_of(response, ERR_BUSY, NULL);
	}
	note(conn, exchange, response);
	conn->working = false;
	conn->server->requests--;
	if (conn->bev == NULL)
		conn_free(conn);
	else if (conn->phase != CONN_DOOMED)
		conn_answer(conn, response);
}

/* ---- streams ---- */

static enum err
send_stream_head(struct conn *conn, const struct http_response *response)
{
	struct server *server = conn->server;
	CLEANUP_BUF struct buf head = { 0 };
	enum err rc;

	buf_init(&head, CONTENT_MAX);
	if ((rc = http_response_head(response, true, &head)) != ERR_OK ||
	    (rc = record_stdout(server->scratch, conn->gather.id, head.data,
		 head.len)) != ERR_OK) {
		scratch_clear(server);
		return rc;
	}
	conn_flush(conn);
	return ERR_OK;
}

static enum err
peer_streamable(struct peer *peer)
{
	const struct conn *conn = conn_of_peer(peer);
	const struct server *server = conn->server;

	if (conn->phase == CONN_DOOMED || conn->eof)
		return ERR_CLOSED;
	return server->streams < server->max_streams && !server->draining
	    ? ERR_OK
	    : ERR_BUSY;
}

static enum err
peer_stream(struct peer *peer, struct exchange *exchange,
    const struct stream_events *events, void *arg, struct stream **ret_stream)
{
	struct conn *conn = conn_of_peer(peer);
	struct server *server = conn->server;
	enum err rc;

	if ((rc = peer_streamable(peer)) != ERR_OK)
		return rc;
	if ((rc = send_stream_head(conn, &exchange->response)) != ERR_OK)
		return rc;
	note(conn, exchange, &exchange->response);
	conn->working = false;
	server->requests--;
	server->streams++;
	conn->events = events;
	conn->events_arg = arg;
	conn->stalls = 0;
	if (conn->phase != CONN_DOOMED) {
		conn->phase = CONN_STREAM;
		tick_start(&server->idle, &conn->tick);
	}
	*ret_stream = &conn->stream;
	return ERR_OK;
}

const struct peer_ops conn_peer_ops = {
	.answer = peer_answer,
	.streamable = peer_streamable,
	.stream = peer_stream,
};

/* A client too slow, or no memory for it: it goes, the others stay. */
static void
drop(struct conn *conn)
{
	metric_add(conn->server->transport->state, METRIC_streams_dropped, 1);
	log_info("stream.dropped", "queued=%zu", queued(conn));
	conn_doom(conn);
}

static void
stream_write(struct stream *stream, const void *data, size_t n)
{
	struct conn *conn = (struct conn *)(void *)stream;
	struct server *server = conn->server;

	if (conn->phase != CONN_STREAM)
		return;
	if (queued(conn) > 0 &&
	    queued(conn) + n > server->conf->stream_queue_max) {
		drop(conn);
	} else if (record_stdout(server->scratch, conn->gather.id, data, n) !=
	    ERR_OK) {
		scratch_clear(server);
		drop(conn);
	} else {
		conn_flush(conn);
	}
}

static void
stream_close(struct stream *stream)
{
	struct conn *conn = (struct conn *)(void *)stream;

	conn->events = NULL;
	conn->server->streams--;
	conn_finish(conn);
}

static void
stream_fail(struct stream *stream)
{
	conn_doom((struct conn *)(void *)stream);
}

static void
stream_busy(struct stream *stream)
{
	struct conn *conn = (struct conn *)(void *)stream;

	if (conn->phase == CONN_STREAM &&
	    conn->tick.list != &conn->server->busy)
		tick_start(&conn->server->busy, &conn->tick);
}

const struct stream_ops conn_stream_ops = {
	.write = stream_write,
	.close = stream_close,
	.fail = stream_fail,
	.busy = stream_busy,
};

/* A comment, where the one before has gone. */
static void
keepalive(struct conn *conn)
{
	if (queued(conn) == 0)
		conn->events->keepalive(conn->events_arg);
	else if (conn->tick.list == &conn->server->idle &&
	    ++conn->stalls > STALLS_MAX)
		drop(conn);
}

void
conn_stream_idle(struct tick *tick)
{
	struct conn *conn = conn_of_tick(tick);

	tick_start(&conn->server->idle, tick);
	keepalive(conn);
}

void
conn_stream_busy(struct tick *tick)
{
	struct conn *conn = conn_of_tick(tick);
	bool busy = conn->events->busy(conn->events_arg);

	tick_start(busy ? &conn->server->busy : &conn->server->idle, tick);
	keepalive(conn);
}

/* ---- a complete request ---- */

struct job {
	struct work work;
	struct exchange *exchange; /* owned */
	int fd;                    /* owned until parsed */
	size_t body_len;
};

static void
job_work(struct work *work)
{
	struct job *job = (struct job *)work;
	struct exchange *exchange = job->exchange;
	enum err rc = fcgi_parse(job->fd, job->body_len, &exchange->request);

	if (rc == ERR_OK)
		route_prepare(exchange);
	else if (rc == ERR_NOMEM)
		http_error_of(&exchange->response, ERR_BUSY, NULL);
	else
		http_error_of(&exchange->response, ERR_HTTP_BAD_REQUEST,
		    "the request ended early or is malformed");
}

static void
job_done(struct work *work)
{
	struct job *job = (struct job *)work;
	struct exchange *exchange = job->exchange;

	free(job);
	if (exchange->run != NULL)
		exchange->run(exchange);
	else
		exchange_answer(exchange);
}

enum err
conn_submit(struct conn *conn)
{
	struct server *server = conn->server;
	struct job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return ERR_NOMEM;
	job->exchange = exchange_new(server->transport);
	if (job->exchange == NULL ||
	    arrival_finish(conn->arrival, &job->fd, &job->body_len) != ERR_OK) {
		exchange_free(job->exchange);
		free(job);
		return ERR_NOMEM;
	}
	arrival_free(conn->arrival);
	conn->arrival = NULL;
	job->exchange->peer = &conn->peer;
	job->work.work = job_work;
	job->work.done = job_done;
	conn->working = true;
	conn->phase = CONN_WORKING;
	tick_stop(&conn->tick);
	workers_submit(server->workers, &job->work);
	return ERR_OK;
}
