#include <string.h>

#include "base/clock.h"
#include "cli/execution.h"
#include "state/limit.h"

#define LOOK_MS 100
#define BODY_ROOM ((size_t)1 << 30)

struct execution {
	struct engine *engine;
	const struct execution_view *view;
	struct event *timer; /* owned */
	struct limit_ticket ticket;
	bool ticketed;
	struct buf body;
	struct snekbox_run *run; /* NULL: waiting, or over */
	unsigned attempts;
	uint64_t limit_ms, begun_ms, started_ms;
	enum err rc; /* ERR_CLOSED until it is over */
	struct outcome outcome;
};

static void
leave(struct execution *x, bool hold)
{
	uint64_t ring;

	if (x->ticketed)
		limit_leave(x->engine->state, &x->ticket, hold, &ring);
	x->ticketed = false;
}

static void
over(struct execution *x, enum err rc)
{
	x->rc = rc;
	engine_stop(x->engine);
}

static void
join(struct execution *x)
{
	enum err rc = limit_enter(x->engine->state, "cli", &x->ticket);

	x->ticketed = rc == ERR_OK;
	if (rc != ERR_OK)
		over(x, rc);
}

/* ---- the run ---- */

static void
started(void *arg)
{
	struct execution *x = arg;

	x->started_ms = clock_ms();
	limit_endpoint_down(x->engine->state, x->ticket.endpoint, 0);
}

static void
done(void *arg, const struct sandbox_reply *reply, struct buf *body)
{
	struct execution *x = arg;
	struct engine *engine = x->engine;
	const struct conf *conf = engine->conf;
	struct sandbox_limits limits = { .time_ms = x->limit_ms,
		.output_bytes = conf->jail_output };

	(void)body;
	if (reply->transport == ERR_NOT_FOUND &&
	    ++x->attempts < snekbox_endpoints(engine->snekbox)) {
		/* nothing ran: the next one may be tried */
		snekbox_take_body(x->run, &x->body);
		x->run = NULL;
		limit_endpoint_down(engine->state, x->ticket.endpoint,
		    clock_ms() + conf->sandbox_retry_after);
		leave(x, false);
		join(x);
		return;
	}
	x->run = NULL;
	if (snekbox_stops(engine->snekbox, x->ticket.endpoint)) {
		limits.memory_bytes = conf->jail_memory;
		limits.disk_bytes = conf->jail_disk;
		limits.processes = conf->jail_processes;
	}
	leave(x, false);
	over(x, outcome_parse(reply, conf, &limits, &x->outcome));
}

static const struct snekbox_callbacks callbacks = { started, done };

static void
submit(struct execution *x)
{
	struct engine *engine = x->engine;
	enum err rc = snekbox_submit(engine->snekbox, x->ticket.endpoint,
	    &x->body, x->limit_ms + engine->conf->sandbox_reply_timeout,
	    &callbacks, x, &x->run);

	if (rc != ERR_OK)
		over(x, rc);
}

/* ---- waiting ---- */

static void
look(struct execution *x)
{
	const struct conf *conf = x->engine->conf;
	uint64_t now = clock_ms();
	unsigned position;

	if (!x->ticketed || x->run != NULL)
		return;
	if (limit_try(x->engine->state, &x->ticket,
		now + x->limit_ms + conf->sandbox_connect_timeout +
		    conf->sandbox_reply_timeout,
		&position))
		submit(x);
	else if (now > x->begun_ms + conf->queue_timeout)
		over(x, ERR_BUSY);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct execution *x = arg;

	(void)fd;
	(void)what;
	look(x);
	if (x->view != NULL)
		x->view->progress(x->view->arg,
		    x->started_ms != 0 ? clock_ms() - x->started_ms : 0,
		    x->limit_ms);
}

static enum err
begin(struct execution *x, const struct sandbox_job *job)
{
	static const struct timeval often = { .tv_usec = LOOK_MS * 1000 };
	struct engine *engine = x->engine;
	unsigned n = snekbox_endpoints(engine->snekbox);
	bool stops[LIMIT_ENDPOINTS_MAX], all = true;
	struct sandbox_limits asked = { .time_ms = x->limit_ms };
	enum err rc;

	if (n > LIMIT_ENDPOINTS_MAX)
		return ERR_CONF;
	for (unsigned i = 0; i < n; i++) {
		stops[i] = snekbox_stops(engine->snekbox, i);
		all = all && stops[i];
		/* none is given up untried */
		limit_endpoint_down(engine->state, i, 0);
	}
	/* only our own sandbox is known to have this limit */
	if (all)
		asked.output_bytes = engine->conf->jail_output;
	if ((rc = limit_endpoints(engine->state, n,
		 (unsigned)engine->conf->sandbox_workers, stops)) != ERR_OK ||
	    (rc = outcome_request(&x->body, job, engine->conf, &asked)) !=
		ERR_OK)
		return rc;
	x->timer =
	    event_new(loop_base(engine->loop), -1, EV_PERSIST, on_timer, x);
	if (x->timer == NULL || event_add(x->timer, &often) != 0)
		return ERR_NOMEM;
	x->begun_ms = clock_ms();
	join(x);
	look(x);
	return ERR_OK;
}

enum err
execution_run(struct engine *engine, const struct sandbox_job *job,
    const struct execution_view *view, struct outcome *ret_outcome)
{
	struct execution x = { .engine = engine,
		.view = view,
		.limit_ms = engine->conf->sandbox_time_limit,
		.rc = ERR_CLOSED };
	enum err rc;

	buf_init(&x.body, BODY_ROOM);
	if ((rc = begin(&x, job)) == ERR_OK) {
		if (x.rc == ERR_CLOSED)
			engine_run(engine);
		rc = x.rc;
	}
	if (x.run != NULL)
		snekbox_cancel(x.run);
	leave(&x, false);
	if (x.timer != NULL)
		event_free(x.timer);
	buf_done(&x.body);
	if (rc == ERR_OK)
		*ret_outcome = x.outcome;
	else
		outcome_done(&x.outcome);
	return rc;
}
