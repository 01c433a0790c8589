#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "server/conn.h"

/* Keep-alives due so soon (a part of their interval) go out together: fewer
 * wake-ups. */
#define SLACK_PART 50
#define LINGER_MS 5000

/* ---- descriptors ---- */

static unsigned
count_open(void)
{
	CLEANUP_DIR DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (dir == NULL)
		return 64;
	while (readdir(dir) != NULL)
		n++;
	return n;
}

/* How many connections may be open: of all descriptors some stay reserved, for
 * requests' files, the sandbox and other processes; a part is kept from
 * streams, so that POSTs come through. */
static void
set_limits(struct server *server)
{
	struct rlimit limit;
	unsigned all, taken = count_open(), reserve;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1000000)
		limit.rlim_cur = 1000000;
	all = (unsigned)limit.rlim_cur;
	reserve = all / 4;
	if (reserve > 1024)
		reserve = 1024;
	server->max_open =
	    all > taken + reserve + 4 ? all - taken - reserve : 4;
	server->max_files = reserve / 2;
	server->max_streams = server->max_open - server->max_open / 4;
	if (server->max_streams + 1024 < server->max_open)
		server->max_streams = server->max_open - 1024;
}

/* ---- deadlines ---- */

static void
arriving_due(struct tick *tick)
{
	struct conn *conn = conn_of_tick(tick);

	if (conn->phase == CONN_ARRIVING)
		conn_refuse(conn, ERR_TIMEOUT,
		    "the request did not arrive in "
		    "time (setting request_timeout)");
	else
		conn_doom(conn);
}

static void
closing_due(struct tick *tick)
{
	conn_doom(conn_of_tick(tick));
}

/* A slow client is no dead one. */
static void
answering_due(struct tick *tick)
{
	struct conn *conn = conn_of_tick(tick);

	if (conn_file_moved(conn))
		tick_start(&conn->server->answering, tick);
	else
		conn_doom(conn);
}

static enum err
open_ticks(struct server *server)
{
	const struct conf *conf = server->conf;
	struct event_base *base = loop_base(server->loop);
	enum err rc;

	if ((rc = ticks_init(&server->arriving, base, conf->request_timeout, 0,
		 arriving_due)) != ERR_OK ||
	    (rc = ticks_init(&server->answering, base, conf->request_timeout, 0,
		 answering_due)) != ERR_OK ||
	    (rc = ticks_init(&server->lingering, base, LINGER_MS, 0,
		 closing_due)) != ERR_OK ||
	    (rc = ticks_init(&server->idle, base, conf->keepalive_idle,
		 conf->keepalive_idle / SLACK_PART, conn_stream_idle)) !=
		ERR_OK)
		return rc;
	return ticks_init(&server->busy, base, conf->keepalive_busy,
	    conf->keepalive_busy / SLACK_PART, conn_stream_busy);
}

static void
close_ticks(struct server *server)
{
	ticks_done(&server->arriving);
	ticks_done(&server->answering);
	ticks_done(&server->lingering);
	ticks_done(&server->idle);
	ticks_done(&server->busy);
}

/* ---- the end of connections ---- */

static void
bury(struct conn *conn)
{
	const struct stream_events *events = conn->events;

	conn->events = NULL;
	if (events != NULL) {
		conn->server->streams--;
		events->closed(conn->events_arg);
	}
	bufferevent_free(conn->bev);
	conn->bev = NULL;
	atomic_fetch_sub(&conn->server->open, 1);
	if (!conn->working)
		conn_free(conn);
}

static void
reap(evutil_socket_t fd, short what, void *arg)
{
	struct server *server = arg;

	(void)fd;
	(void)what;
	while (!SLIST_EMPTY(&server->dying)) {
		struct conn *conn = SLIST_FIRST(&server->dying);

		SLIST_REMOVE_HEAD(&server->dying, dying);
		bury(conn);
	}
}

/* ---- connections come ---- */

struct newcomer {
	struct task task;
	struct server *server;
	int fd;
};

static void
welcome(struct task *task)
{
	struct newcomer *newcomer = (struct newcomer *)task;

	conn_new(newcomer->server, newcomer->fd);
	free(newcomer);
}

/* In the accept thread. */
static void
on_accepted(void *arg, int fd)
{
	struct server *server = arg;
	struct newcomer *newcomer = malloc(sizeof(*newcomer));

	if (newcomer == NULL) {
		close(fd);
		return;
	}
	atomic_fetch_add(&server->open, 1);
	newcomer->task.run = welcome;
	newcomer->server = server;
	newcomer->fd = fd;
	loop_post(server->loop, &newcomer->task);
}

/* In the accept thread. */
static bool
is_ready(void *arg)
{
	struct server *server = arg;

	return atomic_load(&server->open) < server->max_open;
}

const struct listener_ops *
server_listener(void)
{
	static const struct listener_ops ops = {
		.accepted = on_accepted,
		.ready = is_ready,
	};

	return &ops;
}

/* ---- the whole ---- */

enum err
server_open(const struct conf *conf, struct loop *loop, struct workers *workers,
    struct transport *transport, struct server **ret_server)
{
	struct server *server = calloc(1, sizeof(*server));

	if (server == NULL)
		return ERR_NOMEM;
	server->conf = conf;
	server->loop = loop;
	server->workers = workers;
	server->transport = transport;
	TAILQ_INIT(&server->conns);
	SLIST_INIT(&server->dying);
	set_limits(server);
	server->scratch = evbuffer_new();
	server->reaper = event_new(loop_base(loop), -1, 0, reap, server);
	if (server->scratch == NULL || server->reaper == NULL ||
	    open_ticks(server) != ERR_OK) {
		server_close(server);
		return ERR_NOMEM;
	}
	*ret_server = server;
	return ERR_OK;
}

void
server_close(struct server *server)
{
	struct conn *conn;

	if (server == NULL)
		return;
	TAILQ_FOREACH(conn, &server->conns, link)
	conn_doom(conn);
	if (server->reaper != NULL) {
		reap(-1, 0, server);
		event_free(server->reaper);
	}
	close_ticks(server);
	if (server->scratch != NULL)
		evbuffer_free(server->scratch);
	free(server);
}

void
server_drain(struct server *server)
{
	struct conn *conn;

	server->draining = true;
	TAILQ_FOREACH(conn, &server->conns, link)
	{
		if (conn->phase == CONN_IDLE)
			conn_doom(conn);
	}
}

unsigned
server_connections(const struct server *server)
{
	return server->count;
}
