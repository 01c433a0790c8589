/* A connection's life and its input. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/conn.h"

#define WRITE_AT_ONCE ((size_t)256 << 10)
/* How much is read for nothing after an early answer. */
#define PASS_OVER_MAX ((size_t)16 << 20)

void
conn_doom(struct conn *conn)
{
	struct server *server = conn->server;

	if (conn->phase == CONN_DOOMED)
		return;
	if (conn->phase == CONN_ARRIVING)
		server->requests--;
	arrival_free(conn->arrival);
	conn->arrival = NULL;
	conn_file_free(conn);
	conn->phase = CONN_DOOMED;
	tick_stop(&conn->tick);
	bufferevent_disable(conn->bev, EV_READ | EV_WRITE);
	SLIST_INSERT_HEAD(&server->dying, conn, dying);
	event_active(server->reaper, 0, 0);
}

void
conn_free(struct conn *conn)
{
	TAILQ_REMOVE(&conn->server->conns, conn, link);
	conn->server->count--;
	gather_done(&conn->gather);
	free(conn);
}

/* ---- a request arrives ---- */

static void
begin(struct conn *conn)
{
	struct server *server = conn->server;
	enum err rc;

	conn->started = clock_ms();
	conn->early = false;
	conn->phase = CONN_ARRIVING;
	server->requests++;
	tick_start(&server->arriving, &conn->tick);
	if (server->requests > server->conf->requests_max) {
		conn_refuse(conn, ERR_BUSY,
		    "too many requests at once "
		    "(setting requests_max)");
		return;
	}
	rc = arrival_new(server->conf, conn->gather.id, &conn->arrival);
	if (rc != ERR_OK)
		conn_refuse(conn, ERR_BUSY, NULL);
}

static void
stored(struct conn *conn, enum err rc)
{
	const char *text = NULL;

	if (rc == ERR_OK)
		return;
	if (rc == ERR_HTTP_HEADERS)
		text = "the header fields are too large (setting header_max)";
	else if (rc == ERR_HTTP_TOO_LARGE)
		text = "the body is too large (setting body_max)";
	else if (rc == ERR_PARSE)
		text = "the parameters are malformed";
	else
		rc = ERR_BUSY;
	conn_refuse(conn, rc, text);
}

static void
complete(struct conn *conn)
{
	enum err rc =
	    arrival_record(conn->arrival, RECORD_STDIN, conn->gather.id, 0);

	if (rc == ERR_OK)
		rc = conn_submit(conn);
	stored(conn, rc);
}

/* The web server gives a request up: it wants END_REQUEST, soon. */
static void
aborted(struct conn *conn)
{
	if (conn->phase == CONN_ARRIVING) {
		arrival_free(conn->arrival);
		conn->arrival = NULL;
		conn->server->requests--;
		conn->phase = CONN_WORKING;
		conn_finish(conn);
	} else if (conn->phase == CONN_STREAM || conn->phase == CONN_FILE) {
		if (record_finish(conn->server->scratch, conn->gather.id) ==
		    ERR_OK)
			conn_flush(conn);
		conn_doom(conn);
	}
	/* else the answer is on its way */
}

static void
reply(struct conn *conn, const struct gather_step *step)
{
	if (evbuffer_add(conn->server->scratch, step->reply, step->len) != 0)
		conn_doom(conn);
	else
		conn_flush(conn);
}

static void
handle(
    struct conn *conn, enum gather_event event, const struct gather_step *step)
{
	bool arriving = conn->phase == CONN_ARRIVING;
	unsigned id = conn->gather.id;

	switch (event) {
	case GATHER_BEGIN:
		begin(conn);
		break;
	case GATHER_RECORD:
		if (arriving)
			stored(conn,
			    arrival_record(conn->arrival, step->record_type, id,
				step->len));
		break;
	case GATHER_DATA:
		if (arriving)
			stored(conn,
			    arrival_data(conn->arrival, step->record_type,
				step->data, step->len));
		break;
	case GATHER_PARAMS_END:
		if (arriving)
			stored(conn,
			    arrival_record(
				conn->arrival, RECORD_PARAMS, id, 0));
		break;
	case GATHER_COMPLETE:
		if (arriving)
			complete(conn);
		break;
	case GATHER_ABORT:
		aborted(conn);
		break;
	case GATHER_REPLY:
		reply(conn, step);
		break;
	case GATHER_FAULT:
		log_info("fcgi.fault", "what=\"not FastCGI\"");
		conn_doom(conn);
		break;
	case GATHER_MORE:
		break;
	}
}

/* Reads for nothing, up to a bound. */
static void
pass_over(struct conn *conn, struct evbuffer *in)
{
	size_t n = evbuffer_get_length(in);

	conn->passed_over += n;
	evbuffer_drain(in, n);
	if (conn->passed_over > PASS_OVER_MAX)
		conn_doom(conn);
}

static void
on_read(struct bufferevent *bev, void *arg)
{
	static const uint8_t nothing[1];
	struct evbuffer *in = bufferevent_get_input(bev);
	struct conn *conn = arg;
	enum gather_event event;
	struct gather_step step;

	do {
		size_t n = evbuffer_get_contiguous_space(in);
		const uint8_t *data =
		    n > 0 ? evbuffer_pullup(in, (ev_ssize_t)n) : nothing;

		if (conn->phase == CONN_LINGER || conn->phase == CONN_DOOMED) {
			pass_over(conn, in);
			return;
		}
		event = gather_next(
		    &conn->gather, data, n, conn->server->max_open, &step);
		/* data is borrowed from the buffer: first use, then drop */
		handle(conn, event, &step);
		evbuffer_drain(in, step.used);
	} while (event != GATHER_MORE || evbuffer_get_length(in) > 0);
}

static void
on_write(struct bufferevent *bev, void *arg)
{
	(void)bev;
	conn_written(arg);
}

static void
on_event(struct bufferevent *bev, short what, void *arg)
{
	struct conn *conn = arg;
	size_t queued = evbuffer_get_length(bufferevent_get_output(bev));
	bool answered = conn->phase == CONN_IDLE || conn->phase == CONN_LINGER;
	bool expects = conn->phase == CONN_WORKING || conn->phase == CONN_FILE;

	/* a peer that only says no more may still read its answer */
	conn->eof = true;
	if ((what & BEV_EVENT_ERROR) != 0 ||
	    (!expects && (!answered || queued == 0)))
		conn_doom(conn);
	else if (answered)
		conn->phase = CONN_LINGER;
}

void
conn_new(struct server *server, int fd)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (conn != NULL)
		conn->bev = bufferevent_socket_new(
		    loop_base(server->loop), fd, BEV_OPT_CLOSE_ON_FREE);
	if (conn == NULL || conn->bev == NULL) {
		free(conn);
		close(fd);
		atomic_fetch_sub(&server->open, 1);
		return;
	}
	conn->server = server;
	conn->stream.ops = &conn_stream_ops;
	conn->peer.ops = &conn_peer_ops;
	gather_init(&conn->gather);
	TAILQ_INSERT_TAIL(&server->conns, conn, link);
	server->count++;
	bufferevent_setcb(conn->bev, on_read, on_write, on_event, conn);
	(void)bufferevent_set_max_single_write(conn->bev, WRITE_AT_ONCE);
	tick_start(&server->arriving, &conn->tick);
	if (bufferevent_enable(conn->bev, EV_READ) != 0)
		conn_doom(conn);
}
