/*
 * Counters, summed over all processes, those that ended included.
 */
#ifndef STATE_METRICS_H
#define STATE_METRICS_H

#include <stdint.h>

#include "state/shm.h"

/* X(name, help) */
#define METRICS_ROWS(X) \
	X(requests, "HTTP requests answered") \
	X(requests_refused, "HTTP requests refused before any handler") \
	X(streams_opened, "event streams opened") \
	X(streams_dropped, "event streams ended for a slow client") \
	X(messages, "JSON-RPC messages received") \
	X(forwarded, "messages forwarded to another process") \
	X(calls, "tool calls begun") \
	X(calls_ok, "tool calls that succeeded") \
	X(calls_failed, "tool calls that ended in an error of the program") \
	X(calls_busy, "tool calls refused because the queue was full") \
	X(calls_cancelled, "tool calls cancelled") \
	X(calls_sandbox, "tool calls that failed for the sandbox's sake")

enum metric {
#define METRIC_ENUM(name, help) METRIC_##name,
	METRICS_ROWS(METRIC_ENUM)
#undef METRIC_ENUM
	    METRIC_COUNT
};

/* Adds n to this process' counter. Any thread, no lock. */
void metric_add(struct state *state, enum metric metric, uint64_t n);

/* The sum over all processes, dead ones folded in. */
uint64_t metric_sum(struct state *state, enum metric metric);

#endif
