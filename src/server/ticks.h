/*
 * Deadlines for thousands of connections: one list for each length of time,
 * kept in order by adding at its end, and one timer of the loop for each list.
 * Starting, stopping and starting again cost nothing but pointers.
 */
#ifndef SERVER_TICKS_H
#define SERVER_TICKS_H

#include <stdint.h>
#include <sys/queue.h>

#include <event2/event.h>

#include "base/err.h"

struct ticks;

/* One deadline, embedded in what waits; zeroed memory is a stopped one. */
struct tick {
	TAILQ_ENTRY(tick) link;
	struct ticks *list; /* NULL: stopped */
	uint64_t due;       /* clock_ms */
};

TAILQ_HEAD(tick_head, tick);

struct ticks {
	struct tick_head head;
	struct event *timer; /* owned */
	uint64_t interval;   /* ms */
	uint64_t slack;      /* ms: those due so soon go together */
	void (*due)(struct tick *tick);
};

/* Makes a list whose ticks come interval ms after their start, or up to slack
 * ms earlier. due(tick) is called in the loop for each, which is stopped
 * then. */
enum err
ticks_init(struct ticks *ticks, struct event_base *base, uint64_t interval,
    uint64_t slack, void (*due)(struct tick *tick)) MUST_CHECK;

/* Ticks still in the list are forgotten. */
void ticks_done(struct ticks *ticks);

/* Starts a tick, or starts it again, in this list or from another. */
void tick_start(struct ticks *ticks, struct tick *tick);
void tick_stop(struct tick *tick);

#endif
