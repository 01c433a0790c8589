/*
 * Admission of executions over all processes: as many at once as each sandbox
 * endpoint has workers; the rest wait in a bounded queue, fair between clients
 * and first come first served within one. A place is a lease {process,
 * endpoint, deadline}; a dead process' leases end at once where the endpoint
 * stops a run whose caller is gone, else at their deadline.
 *
 * Endpoints are numbered as in the setting snekbox_url.
 */
#ifndef STATE_LIMIT_H
#define STATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "state/shm.h"

#define LIMIT_ENDPOINTS_MAX 16

/* One call's place in the queue or its lease. Caller's storage; valid from
 * limit_enter to limit_leave. */
struct limit_ticket {
	uint64_t number; /* arrival, rising over all processes */
	uint32_t slot;
	uint32_t endpoint; /* once granted */
	bool granted;
};

/* Tells the table what endpoints there are (workers each; stops: a run ends
 * with its connection). Every process says the same; a change wins at once. */
enum err limit_endpoints(struct state *state, unsigned count, unsigned workers,
    const bool *stops) MUST_CHECK;

/* Joins the queue. ERR_BUSY when queue_max calls wait already. */
enum err limit_enter(struct state *state, const char *client,
    struct limit_ticket *ret_ticket) MUST_CHECK;

/* Asks for the lease: true when it is this ticket's turn and an endpoint that
 * is not set aside has a free place; ticket->endpoint then tells which, and the
 * lease runs until deadline_ms (clock_ms) at most. Else *ret_position is its
 * place in the queue, from 1. */
bool limit_try(struct state *state, struct limit_ticket *ticket,
    uint64_t deadline_ms, unsigned *ret_position);

/* Starts the lease's clock anew, when the run is really sent. */
void limit_extend(
    struct state *state, struct limit_ticket *ticket, uint64_t deadline_ms);

/* Leaves the queue, or gives the lease back: at once, or with hold at its
 * deadline (a run that goes on in a Snekbox without us). *ret_ring is the
 * process whose call is next, 0 for none: ring its inbox. */
void limit_leave(struct state *state, struct limit_ticket *ticket, bool hold,
    uint64_t *ret_ring);

/* Sets an endpoint aside until retry_at_ms after it failed, or (0) back to
 * service. */
void limit_endpoint_down(
    struct state *state, unsigned endpoint, uint64_t retry_at_ms);

/* How many endpoints are not set aside. */
unsigned limit_endpoints_up(struct state *state);

#endif
