#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/app.h"
#include "server/fcgi.h"
#include "server/process.h"
#include "server/server.h"
#include "transport/sse.h"
#include "transport/streamable.h"

/* While shutting down: how often to look, and how long answers may take to
 * flow out after the last stream was told to end. */
#define DRAIN_LOOK_MS 20
#define DRAIN_FLUSH_MS 500

struct app {
	const struct conf *conf;
	struct conf_fault *fault;
	struct mcp_host host;
	struct transport transport;
	struct listener *listener;
	struct loop *loop;
	struct workers *workers;
	struct state *state;
	struct snekbox *snekbox;
	struct mcp *mcp;
	struct inbox *inbox;
	struct server *server;
	struct event *signals[PROCESS_SIGNALS];
	struct event *second, *drain;
	uint64_t drain_since; /* clock_ms; 0: not shutting down */
};

static struct app *
app_of_host(struct mcp_host *host)
{
	return (
	    struct app *)(void *)((char *)host - offsetof(struct app, host));
}

/* ---- what the core needs ---- */

static void
host_offload(struct mcp_host *host, void (*work)(void *arg),
    void (*done)(void *arg), void *arg)
{
	workers_offload(app_of_host(host)->workers, work, done, arg);
}

static void
host_ring(struct mcp_host *host, uint64_t process)
{
	struct app *app = app_of_host(host);

	/* a ring that is lost costs 250 ms: waiters look by themselves */
	if (app->inbox != NULL &&
	    inbox_send(app->inbox, process, INBOX_RING, "", "", 0, NULL,
		NULL) != ERR_OK)
		log_debug("inbox.ring", "process=%016llx",
		    (unsigned long long)process);
}

static void
host_idle(struct mcp_host *host)
{
	struct app *app = app_of_host(host);

	if (app->drain != NULL)
		event_active(app->drain, 0, 0);
}

/* ---- the inbox ---- */

static void
received(
    void *arg, struct inbox_message *message, const struct inbox_view *view)
{
	struct app *app = arg;

	if (view->type == INBOX_POST) {
		sse_received(app->transport.sse, message, view);
		return;
	}
	if (view->type == INBOX_CANCEL) {
		streamable_received(app->transport.streamable, message, view);
		return;
	}
	inbox_ack(message, INBOX_ACCEPTED, NULL, NULL, NULL);
	mcp_ring(app->mcp);
}

static enum err
open_inbox(struct app *app)
{
	static const struct inbox_ops ops = { .received = received };
	enum err rc = inbox_open(
	    app->state, loop_base(app->loop), &ops, app, &app->inbox);

	if (rc == ERR_OK) {
		sse_set_inbox(app->transport.sse, app->inbox);
		streamable_set_inbox(app->transport.streamable, app->inbox);
	}
	return rc;
}

static void
close_inbox(struct app *app)
{
	struct inbox *inbox = app->inbox;

	/* closing calls back: nothing may be sent through it any more */
	app->inbox = NULL;
	sse_set_inbox(app->transport.sse, NULL);
	streamable_set_inbox(app->transport.streamable, NULL);
	inbox_close(inbox);
}

static void
on_second(evutil_socket_t fd, short what, void *arg)
{
	struct app *app = arg;

	(void)fd;
	(void)what;
	if (state_tick(app->state)) {
		log_warn("state.again",
		    "the shared table was removed; "
		    "registered anew");
		close_inbox(app);
		sse_check(app->transport.sse);
	}
	if (app->drain_since == 0)
		mcp_tick(app->mcp);
	streamable_tick(app->transport.streamable);
	if (app->inbox == NULL && app->drain_since == 0 &&
	    open_inbox(app) != ERR_OK)
		log_warn("inbox.open", "can't be opened; trying again");
}

/* ---- the end ---- */

/* Streams whose calls are answered end; at the end of the grace all do, and
 * what was written gets a moment to flow out. */
static void
on_drain(evutil_socket_t fd, short what, void *arg)
{
	struct timeval again = { .tv_usec = DRAIN_LOOK_MS * 1000 };
	struct app *app = arg;
	uint64_t spent = clock_ms() - app->drain_since;
	bool over = spent >= app->conf->shutdown_grace;
	unsigned left;

	(void)fd;
	(void)what;
	if (app->drain_since == 0)
		return;
	(void)sse_drain(app->transport.sse, over);
	/* a call may outlive its connection there */
	left = streamable_drain(app->transport.streamable, over);
	if ((server_connections(app->server) == 0 && left == 0) ||
	    spent >= app->conf->shutdown_grace + DRAIN_FLUSH_MS)
		event_base_loopbreak(loop_base(app->loop));
	else
		(void)event_add(app->drain, &again);
}

static void
on_signal(evutil_socket_t number, short what, void *arg)
{
	struct app *app = arg;

	(void)what;
	if (app->drain_since != 0)
		return;
	log_info("app.ending", "signal=%d connections=%u calls=%u", (int)number,
	    server_connections(app->server), mcp_calls(app->mcp));
	app->drain_since = clock_ms();
	listener_stop(app->listener);
	mcp_drain(app->mcp);
	server_drain(app->server);
	on_drain(-1, 0, app);
}

static enum err
open_signals(struct app *app)
{
	for (int i = 0; i < PROCESS_SIGNALS; i++) {
		app->signals[i] = evsignal_new(
		    loop_base(app->loop), process_signals[i], on_signal, app);
		if (app->signals[i] == NULL ||
		    event_add(app->signals[i], NULL) != 0)
			return ERR_SYS;
	}
	return ERR_OK;
}

static enum err
open_timers(struct app *app)
{
	struct timeval second = { .tv_sec = 1 };
	struct event_base *base = loop_base(app->loop);

	app->second = event_new(base, -1, EV_PERSIST, on_second, app);
	app->drain = evtimer_new(base, on_drain, app);
	if (app->second == NULL || app->drain == NULL ||
	    event_add(app->second, &second) != 0)
		return ERR_SYS;
	return ERR_OK;
}

/* ---- opening and closing ---- */

static enum err
open_log(const struct conf *conf, struct conf_fault *fault)
{
	enum log_level level;
	int fd = STDERR_FILENO;
	enum err rc;

	if ((rc = log_level_parse(conf->log_level, &level)) != ERR_OK) {
		snprintf(fault->text, sizeof(fault->text),
		    "log_level must be "
		    "error, warn, info or debug");
		return ERR_CONF;
	}
	if (conf->log_file[0] != '\0')
		fd = open(conf->log_file,
		    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	if (fd < 0) {
		snprintf(fault->text, sizeof(fault->text),
		    "%s: %m (setting "
		    "log_file)",
		    conf->log_file);
		return ERR_SYS;
	}
	log_setup(level, fd);
	return ERR_OK;
}

static enum err
failed(struct app *app, enum err rc, const char *what, const char *why)
{
	if (app->fault->text[0] == '\0')
		snprintf(app->fault->text, sizeof(app->fault->text), "%s: %s",
		    what, why);
	return rc;
}

static enum err
open_below(struct app *app)
{
	enum err rc;

	if ((rc = listener_open(app->conf, app->fault, &app->listener)) !=
	    ERR_OK)
		return failed(app, rc, "socket", err_info(rc)->text);
	if ((rc = fcgi_init()) != ERR_OK ||
	    (rc = loop_open(&app->loop)) != ERR_OK ||
	    (rc = workers_open(app->loop, (unsigned)app->conf->worker_threads,
		 &app->workers)) != ERR_OK)
		return failed(app, rc, "event loop", err_info(rc)->text);
	if ((rc = state_open(app->conf, &app->state)) != ERR_OK)
		return failed(app, rc, "shared table", state_fault());
	if ((rc = snekbox_open(app->conf, loop_base(app->loop), app->fault,
		 &app->snekbox)) != ERR_OK)
		return failed(app, rc, "sandbox client", err_info(rc)->text);
	return ERR_OK;
}

static enum err
open_above(struct app *app)
{
	struct transport *transport = &app->transport;
	enum err rc;

	app->host.base = loop_base(app->loop);
	app->host.offload = host_offload;
	app->host.ring = host_ring;
	app->host.idle = host_idle;
	if ((rc = mcp_open(app->conf, app->state, app->snekbox, &app->host,
		 &app->mcp)) != ERR_OK)
		return failed(app, rc, "core", err_info(rc)->text);
	if ((rc = transport_init(transport, app->conf, app->fault)) != ERR_OK)
		return failed(app, rc, "settings", err_info(rc)->text);
	transport->state = app->state;
	transport->artifacts = mcp_artifacts(app->mcp);
	if ((rc = sse_open(app->conf, app->state, app->mcp, &app->host,
		 &transport->sse)) != ERR_OK ||
	    (rc = streamable_open(app->conf, app->state, app->mcp,
		 app->host.base, &transport->streamable)) != ERR_OK ||
	    (rc = server_open(app->conf, app->loop, app->workers, transport,
		 &app->server)) != ERR_OK)
		return failed(app, rc, "transports", err_info(rc)->text);
	if ((rc = open_inbox(app)) != ERR_OK)
		return failed(
		    app, rc, "inbox (setting run_dir)", strerror(errno));
	if ((rc = open_signals(app)) != ERR_OK ||
	    (rc = open_timers(app)) != ERR_OK ||
	    (rc = listener_start(
		 app->listener, server_listener(), app->server)) != ERR_OK)
		return failed(app, rc, "event loop", err_info(rc)->text);
	return ERR_OK;
}

static void
free_event(struct event *event)
{
	if (event != NULL)
		event_free(event);
}

static void
drain_all(struct app *app)
{
	if (app->transport.sse != NULL)
		(void)sse_drain(app->transport.sse, true);
	if (app->transport.streamable != NULL)
		(void)streamable_drain(app->transport.streamable, true);
}

static void
app_close(struct app *app)
{
	if (app->listener != NULL)
		listener_stop(app->listener);
	if (app->inbox != NULL)
		close_inbox(app);
	drain_all(app);
	workers_close(app->workers);
	if (app->loop != NULL)
		loop_flush(app->loop);
	drain_all(app);
	server_close(app->server);
	sse_close(app->transport.sse);
	streamable_close(app->transport.streamable);
	transport_done(&app->transport);
	mcp_close(app->mcp);
	snekbox_close(app->snekbox);
	state_close(app->state);
	for (int i = 0; i < PROCESS_SIGNALS; i++)
		free_event(app->signals[i]);
	free_event(app->second);
	free_event(app->drain);
	loop_close(app->loop);
	listener_close(app->listener);
}

enum err
app_run(const struct conf *conf, struct conf_fault *fault)
{
	struct app app = { .conf = conf, .fault = fault };
	enum err rc;

	fault->text[0] = '\0';
	if ((rc = open_log(conf, fault)) == ERR_OK &&
	    (rc = open_below(&app)) == ERR_OK &&
	    (rc = open_above(&app)) == ERR_OK) {
		process_ready();
		log_info("app.started", "process=%016llx",
		    (unsigned long long)state_process(app.state));
		mcp_tick(app.mcp);
		if (event_base_dispatch(loop_base(app.loop)) < 0)
			rc = failed(&app, ERR_SYS, "event loop", "failed");
		log_info("app.ended", "ms=%llu",
		    (unsigned long long)(app.drain_since != 0
			    ? clock_ms() - app.drain_since
			    : 0));
	}
	app_close(&app);
	return rc;
}
