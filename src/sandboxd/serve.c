#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/bufferevent.h>
#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>

#include "base/clock.h"
#include "base/log.h"
#include "sandboxd/channel.h"
#include "sandboxd/serve.h"

#define READ_SECONDS 30    /* silence of a caller that still sends */
#define WRITE_SECONDS 30   /* a caller that does not read */
#define PIPELINE_MAX 65536 /* bytes taken behind a request */
#define RETRY_AFTER "1"
#define SPARES 16 /* descriptors that callers can't take from programs */
#define PAUSE_MS 200
#define SAY_MS 10000

struct serve {
	const struct conf *conf;
	struct pool *pool;
	struct evhttp *http; /* owned */
	uint64_t started_ms;
	struct evconnlistener *listener; /* borrowed from http */
	struct event *resume;            /* owned */
	int spares[SPARES];
	uint64_t said_ms; /* when lack of descriptors was last logged */
	LIST_HEAD(, call) calls;
};

/* A request that waits or runs. */
struct call {
	LIST_ENTRY(call) entry;
	struct serve *serve;
	struct evhttp_request *req;
	struct pool_job *job;
};

struct route {
	const char *path;
	enum evhttp_cmd_type method;
	const char *allow;
	void (*handle)(struct serve *serve, struct evhttp_request *req);
};

/* ---- answers ---- */

static void
send_reply(struct evhttp_request *req, int status, struct evbuffer *body)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);

	if (evhttp_add_header(headers, "Content-Type", "application/json") !=
		0 ||
	    evhttp_add_header(headers, "Connection", "close") != 0 ||
	    evhttp_add_header(headers, "Server", "sandboxd") != 0)
		log_warn("sandboxd.reply", "out of memory");
	evhttp_send_reply(req, status, NULL, body);
}

static void
send_text(struct evhttp_request *req, int status, const char *text)
{
	struct evbuffer *body = evbuffer_new();

	if (body != NULL && evbuffer_add(body, text, strlen(text)) != 0)
		log_warn("sandboxd.reply", "out of memory");
	send_reply(req, status, body);
	if (body != NULL)
		evbuffer_free(body);
}

static void
send_fault(struct evhttp_request *req, int status, const char *title,
    const char *description)
{
	char text[1024];

	if (description == NULL)
		snprintf(text, sizeof(text), "{\"title\": \"%s\"}", title);
	else
		snprintf(text, sizeof(text),
		    "{\"title\": \"%s\", "
		    "\"description\": \"%s\"}",
		    title, description);
	send_text(req, status, text);
}

static void
send_busy(struct evhttp_request *req)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);

	if (evhttp_add_header(headers, "Retry-After", RETRY_AFTER) != 0)
		log_warn("sandboxd.reply", "out of memory");
	send_fault(req, 503, "503 Service Unavailable",
	    "all programs and the queue (sandboxd_queue) are taken; try "
	    "again");
}

/* The body as the slot wrote it, without copying it. */
static void
send_memfd(struct evhttp_request *req, int status, int fd)
{
	struct evbuffer *body = evbuffer_new();
	struct stat st;

	if (body == NULL || fstat(fd, &st) != 0 ||
	    evbuffer_add_file(body, fd, 0, st.st_size) != 0) {
		close(fd);
		send_fault(
		    req, 500, "500 Internal Server Error", "out of memory");
	} else {
		send_reply(req, status, body);
	}
	if (body != NULL)
		evbuffer_free(body);
}

/* ---- POST /eval ---- */

static void
call_free(struct call *call)
{
	LIST_REMOVE(call, entry);
	free(call);
}

/* The caller is gone: so is its program, also when it only waits. */
static void
on_gone(struct evhttp_connection *con, void *arg)
{
	struct call *call = arg;

	(void)con;
	pool_cancel(call->serve->pool, call->job);
	/* the request no longer has a connection; this only frees it */
	evhttp_connection_set_closecb(con, NULL, NULL);
	if (evhttp_request_get_connection(call->req) == NULL)
		evhttp_request_free(call->req);
	call_free(call);
}

static void
on_answer(const struct pool_answer *answer, void *arg)
{
	struct call *call = arg;
	struct evhttp_request *req = call->req;

	evhttp_connection_set_closecb(
	    evhttp_request_get_connection(req), NULL, NULL);
	call_free(call);
	if (answer->rc == ERR_OK) {
		send_memfd(req, answer->status, answer->fd);
		return;
	}
	log_warn("sandboxd.eval", "failed: %s", answer->text);
	send_fault(req, 500, "500 Internal Server Error",
	    "the sandbox failed; its log says why");
}

/* evhttp stops reading behind a request and so would see a closed connection
 * only when it writes. What else the caller sends stays where it is (evhttp's
 * own callback ends the process over it), up to a bound. */
static void
watch_caller(struct call *call)
{
	struct evhttp_connection *con =
	    evhttp_request_get_connection(call->req);
	struct bufferevent *bev = evhttp_connection_get_bufferevent(con);
	struct timeval write_time = { WRITE_SECONDS, 0 };
	bufferevent_data_cb read_cb, write_cb;
	bufferevent_event_cb event_cb;
	void *arg;

	evhttp_connection_set_closecb(con, on_gone, call);
	bufferevent_getcb(bev, &read_cb, &write_cb, &event_cb, &arg);
	bufferevent_setcb(bev, NULL, write_cb, event_cb, arg);
	bufferevent_setwatermark(bev, EV_READ, 0, PIPELINE_MAX);
	bufferevent_set_timeouts(bev, NULL, &write_time);
	bufferevent_enable(bev, EV_READ);
}

static void
submit(struct serve *serve, struct evhttp_request *req, unsigned flags)
{
	struct call *call = calloc(1, sizeof(*call));
	enum err rc = ERR_NOMEM;

	if (call != NULL) {
		call->serve = serve;
		call->req = req;
		LIST_INSERT_HEAD(&serve->calls, call, entry);
		rc = pool_submit(serve->pool,
		    evhttp_request_get_input_buffer(req), flags, on_answer,
		    call, &call->job);
	}
	if (rc == ERR_OK) {
		watch_caller(call);
		return;
	}
	if (call != NULL)
		call_free(call);
	if (rc == ERR_BUSY)
		send_busy(req);
	else
		send_fault(
		    req, 500, "500 Internal Server Error", "out of memory");
}

static bool
media_is(const char *type, const char *wanted)
{
	size_t n = strlen(wanted);

	return strncasecmp(type, wanted, n) == 0 &&
	    (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

static void
handle_eval(struct serve *serve, struct evhttp_request *req)
{
	const char *type = evhttp_find_header(
	    evhttp_request_get_input_headers(req), "Content-Type");
	char text[256];
	size_t n = 0;

	if (type == NULL || media_is(type, "application/json")) {
		submit(serve, req, 0);
		return;
	}
	if (media_is(type, "application/x-www-form-urlencoded")) {
		submit(serve, req, CHANNEL_FORM);
		return;
	}
	/* only harmless characters of it go into the answer */
	for (; type[n] != '\0' && n < 100 && type[n] >= 0x20 &&
	     type[n] < 0x7f && type[n] != '"' && type[n] != '\\';
	     n++)
		;
	snprintf(text, sizeof(text), "%.*s is an unsupported media type.",
	    (int)n, type);
	send_fault(req, 415, "415 Unsupported Media Type", text);
}

/* ---- the rest ---- */

static void
handle_options(struct serve *serve, struct evhttp_request *req)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);

	(void)serve;
	if (evhttp_add_header(headers, "Allow", "POST") != 0)
		log_warn("sandboxd.reply", "out of memory");
	send_text(req, 200, "");
}

static void
handle_health(struct serve *serve, struct evhttp_request *req)
{
	struct pool_counts counts;
	char text[256];

	pool_count(serve->pool, &counts);
	snprintf(text, sizeof(text),
	    "{\"status\": \"ok\", \"version\": "
	    "\"" VERSION "\", \"workers\": %u, \"ready\": %u, \"running\": "
	    "%u, \"queued\": %u, \"served\": %llu, \"uptime_ms\": %llu}",
	    counts.slots, counts.ready, counts.running, counts.queued,
	    (unsigned long long)counts.served,
	    (unsigned long long)(clock_ms() - serve->started_ms));
	send_text(req, 200, text);
}

/* The only way from the network to anything. */
static const struct route routes[] = {
	{ "/eval", EVHTTP_REQ_POST, "POST", handle_eval },
	{ "/eval", EVHTTP_REQ_OPTIONS, "POST", handle_options },
	{ "/healthz", EVHTTP_REQ_GET, "GET, HEAD", handle_health },
	{ "/healthz", EVHTTP_REQ_HEAD, "GET, HEAD", handle_health },
};

static void
on_request(struct evhttp_request *req, void *arg)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *path = uri != NULL ? evhttp_uri_get_path(uri) : NULL;
	const char *allow = NULL;

	for (size_t i = 0;
	     path != NULL && i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (strcmp(routes[i].path, path) != 0)
			continue;
		allow = routes[i].allow;
		if (evhttp_request_get_command(req) == routes[i].method) {
			routes[i].handle(arg, req);
			return;
		}
	}
	if (allow == NULL) {
		send_fault(req, 404, "404 Not Found", NULL);
		return;
	}
	if (evhttp_add_header(
		evhttp_request_get_output_headers(req), "Allow", allow) != 0)
		log_warn("sandboxd.reply", "out of memory");
	send_fault(req, 405, "405 Method Not Allowed", NULL);
}

static void
set_limits(struct serve *serve)
{
	evhttp_set_max_headers_size(
	    serve->http, (ev_ssize_t)serve->conf->header_max);
	evhttp_set_max_body_size(
	    serve->http, (ev_ssize_t)serve->conf->sandboxd_body_max);
	evhttp_set_timeout(serve->http, READ_SECONDS);
	evhttp_set_allowed_methods(serve->http,
	    EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
		EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
		EVHTTP_REQ_PATCH);
	evhttp_set_gencb(serve->http, on_request, serve);
}

/* ---- lack of descriptors ---- */

static void
spares_close(struct serve *serve)
{
	for (int i = 0; i < SPARES; i++) {
		if (serve->spares[i] >= 0)
			close(serve->spares[i]);
		serve->spares[i] = -1;
	}
}

static bool
spares_open(struct serve *serve)
{
	for (int i = 0; i < SPARES; i++) {
		serve->spares[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (serve->spares[i] < 0) {
			spares_close(serve);
			return false;
		}
	}
	return true;
}

static void
pause_accept(struct serve *serve)
{
	struct timeval pause = { 0, PAUSE_MS * 1000 };

	if (event_add(serve->resume, &pause) == 0)
		evconnlistener_disable(serve->listener);
}

/* The one that accepts: libevent hands our callback evhttp's argument. */
static struct serve *accepting;

/* Callers have taken all: what runs gets the spare ones, and new callers wait
 * until some are back. */
static void
on_accept_error(struct evconnlistener *listener, void *arg)
{
	struct serve *serve = accepting;
	uint64_t now = clock_ms();

	(void)listener;
	(void)arg;
	if (serve->said_ms == 0 || now - serve->said_ms > SAY_MS) {
		log_warn("sandboxd.accept", "no connection for a moment: %s",
		    evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
		serve->said_ms = now;
	}
	spares_close(serve);
	pause_accept(serve);
}

static void
on_resume(evutil_socket_t socket, short what, void *arg)
{
	struct serve *serve = arg;

	(void)socket;
	(void)what;
	if (spares_open(serve))
		evconnlistener_enable(serve->listener);
	else
		pause_accept(serve);
}

static enum err
listen_on(struct serve *serve, struct event_base *base, int socket)
{
	struct evhttp_bound_socket *bound;

	serve->resume = evtimer_new(base, on_resume, serve);
	if (serve->resume == NULL || !spares_open(serve))
		return ERR_SYS;
	bound = evhttp_accept_socket_with_handle(serve->http, socket);
	if (bound == NULL)
		return ERR_SYS;
	accepting = serve;
	serve->listener = evhttp_bound_socket_get_listener(bound);
	evconnlistener_set_error_cb(serve->listener, on_accept_error);
	return ERR_OK;
}

enum err
serve_new(struct serve **ret_serve, struct event_base *base,
    const struct conf *conf, struct pool *pool, int socket)
{
	struct serve *serve = calloc(1, sizeof(*serve));

	if (serve == NULL)
		return ERR_NOMEM;
	serve->conf = conf;
	serve->pool = pool;
	serve->started_ms = clock_ms();
	LIST_INIT(&serve->calls);
	memset(serve->spares, -1, sizeof(serve->spares));
	if ((serve->http = evhttp_new(base)) == NULL) {
		free(serve);
		return ERR_NOMEM;
	}
	set_limits(serve);
	if (listen_on(serve, base, socket) != ERR_OK) {
		serve_free(serve);
		return ERR_SYS;
	}
	*ret_serve = serve;
	return ERR_OK;
}

void
serve_free(struct serve *serve)
{
	if (serve == NULL)
		return;
	evhttp_free(serve->http);
	if (serve->resume != NULL)
		event_free(serve->resume);
	spares_close(serve);
	free(serve);
}
