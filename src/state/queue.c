/* The fair order of those who wait. */
#include <stdlib.h>

#include "state/table.h"

/* how long an order of the queue may be used that nothing changed */
#define VIEW_MS 100

enum err
queue_view_init(struct queue_view *view, uint32_t tickets)
{
	*view = (struct queue_view){ .version = UINT64_MAX };
	view->waiters = calloc(tickets, sizeof(*view->waiters));
	view->position = calloc(tickets, sizeof(*view->position));
	return view->waiters != NULL && view->position != NULL ? ERR_OK
							       : ERR_NOMEM;
}

void
queue_view_done(struct queue_view *view)
{
	free(view->waiters);
	free(view->position);
	*view = (struct queue_view){ .version = UINT64_MAX };
}

static int
compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int
by_client(const void *pa, const void *pb)
{
	const struct waiter *a = pa, *b = pb;

	if (a->client != b->client)
		return compare(a->client, b->client);
	return compare(a->number, b->number);
}

/* The fair order: fewest leases, then longest without a grant, then arrival.
 * Who waits behind another of the same client counts as if that one had been
 * granted just now. */
static int
by_turn(const void *pa, const void *pb)
{
	const struct waiter *a = pa, *b = pb;

	if (a->level != b->level)
		return compare(a->level, b->level);
	if ((a->nth > 0) != (b->nth > 0))
		return a->nth > 0 ? 1 : -1;
	if (a->granted != b->granted)
		return compare(a->granted, b->granted);
	return compare(a->number, b->number);
}

static uint32_t
waiters_gather(const struct table *t, uint64_t now, struct waiter *waiters)
{
	uint32_t high = table_high(t, POOL_TICKET), n = 0;

	for (uint32_t i = 0; i < high; i++) {
		const struct ticket_slot *k = table_ticket(t, i);

		if (k->slot.state == SLOT_WAITING &&
		    now - k->polled_ms <= QUEUE_STALE_MS)
			waiters[n++] = (struct waiter){ .slot = i,
				.client = k->client,
				.number = k->number };
	}
	return n;
}

static void
waiters_sort(const struct table *t, struct waiter *waiters, uint32_t n)
{
	qsort(waiters, n, sizeof(*waiters), by_client);
	for (uint32_t i = 0; i < n; i++) {
		struct waiter *w = &waiters[i];
		const struct client_slot *c = table_client(t, w->client);

		if (i > 0 && w->client == w[-1].client)
			w->nth = w[-1].nth + 1;
		w->level = c->leases + w->nth;
		w->granted = c->granted;
	}
	qsort(waiters, n, sizeof(*waiters), by_turn);
}

void
queue_view_locked(struct state *state, uint64_t now)
{
	struct queue_view *v = &state->queue;
	const struct table *t = state->table;

	if (v->version == t->head->queue_version && now - v->at_ms < VIEW_MS)
		return;
	for (uint32_t i = 0; i < v->count; i++)
		v->position[v->waiters[i].slot] = 0;
	v->count = waiters_gather(t, now, v->waiters);
	if (v->count > 1)
		waiters_sort(t, v->waiters, v->count);
	for (uint32_t i = 0; i < v->count; i++)
		v->position[v->waiters[i].slot] = i + 1;
	v->version = t->head->queue_version;
	v->at_ms = now;
}
