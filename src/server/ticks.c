#include <string.h>

#include "base/clock.h"
#include "server/ticks.h"

/* Arms the timer for the first of the list. */
static void
arm(struct ticks *ticks, uint64_t now)
{
	const struct tick *first = TAILQ_FIRST(&ticks->head);
	uint64_t wait = first->due > now ? first->due - now : 0;
	struct timeval tv = { .tv_sec = (time_t)(wait / 1000),
		.tv_usec = (suseconds_t)(wait % 1000 * 1000) };

	/* fails without memory only, and this event has been added before */
	(void)event_add(ticks->timer, &tv);
}

static void
fire(evutil_socket_t fd, short what, void *arg)
{
	struct ticks *ticks = arg;
	uint64_t now = clock_ms();
	struct tick *tick;

	(void)fd;
	(void)what;
	/* one that starts again meanwhile is due later than now + slack */
	while ((tick = TAILQ_FIRST(&ticks->head)) != NULL &&
	    tick->due <= now + ticks->slack) {
		tick_stop(tick);
		ticks->due(tick);
	}
	if (!TAILQ_EMPTY(&ticks->head))
		arm(ticks, clock_ms());
}

enum err
ticks_init(struct ticks *ticks, struct event_base *base, uint64_t interval,
    uint64_t slack, void (*due)(struct tick *tick))
{
	memset(ticks, 0, sizeof(*ticks));
	TAILQ_INIT(&ticks->head);
	ticks->interval = interval;
	ticks->slack = slack;
	ticks->due = due;
	ticks->timer = evtimer_new(base, fire, ticks);
	return ticks->timer != NULL ? ERR_OK : ERR_NOMEM;
}

void
ticks_done(struct ticks *ticks)
{
	if (ticks->timer != NULL)
		event_free(ticks->timer);
	ticks->timer = NULL;
}

void
tick_start(struct ticks *ticks, struct tick *tick)
{
	uint64_t now = clock_ms();

	tick_stop(tick);
	tick->list = ticks;
	tick->due = now + ticks->interval;
	TAILQ_INSERT_TAIL(&ticks->head, tick, link);
	if (!event_pending(ticks->timer, EV_TIMEOUT, NULL))
		arm(ticks, now);
}

void
tick_stop(struct tick *tick)
{
	if (tick->list == NULL)
		return;
	TAILQ_REMOVE(&tick->list->head, tick, link);
	tick->list = NULL;
}
