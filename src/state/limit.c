#include <string.h>

#include "state/table.h"

/* how long a process that was told to ask may take */
#define RING_MS 250
#define REAP_MS 50

static void
queue_changed_locked(struct table *t)
{
	STORE(t->head->queue_version, t->head->queue_version + 1);
}

/* Leases that ran out. */
static void
expire_locked(struct table *t, uint64_t now)
{
	uint32_t high = table_high(t, POOL_TICKET);

	for (uint32_t i = 0; i < high; i++) {
		const struct ticket_slot *k = table_ticket(t, i);

		if (k->slot.state == SLOT_LEASED && k->deadline_ms <= now)
			ticket_free_locked(t, i);
	}
}

uint32_t
ticket_find_locked(const struct table *t, const struct limit_ticket *ticket)
{
	uint32_t high = table_high(t, POOL_TICKET);
	const struct ticket_slot *k;

	if (ticket->slot < high) {
		k = table_ticket(t, ticket->slot);
		if (k->slot.state != SLOT_FREE && k->number == ticket->number)
			return ticket->slot;
	}
	/* elsewhere, when the table moved to a new segment */
	for (uint32_t i = 0; i < high; i++) {
		k = table_ticket(t, i);
		if (k->slot.state != SLOT_FREE && k->number == ticket->number)
			return i;
	}
	return TABLE_NONE;
}

/* How many places an endpoint has left: none while it is set aside, one at a
 * time to try it afterwards. */
static uint32_t
endpoint_places(const struct table *t, uint32_t i, uint64_t now)
{
	const struct table_header *h = t->head;
	const struct endpoint *e = &h->endpoints[i];
	struct limit_ticket trial = { .number = e->trial, .slot = TABLE_NONE };

	if (e->in_use >= h->workers)
		return 0;
	if (e->retry_ms == 0)
		return h->workers - e->in_use;
	if (now < e->retry_ms ||
	    (e->trial != 0 && ticket_find_locked(t, &trial) != TABLE_NONE))
		return 0;
	return 1;
}

static uint32_t
places_free(const struct table *t, uint64_t now)
{
	uint32_t n = 0;

	for (uint32_t i = 0;
	     i < t->head->endpoint_count && i < LIMIT_ENDPOINTS_MAX; i++)
		n += endpoint_places(t, i, now);
	return n;
}

/* The next endpoint in turn with a free place. */
static uint32_t
endpoint_choose(const struct table *t, uint64_t now)
{
	const struct table_header *h = t->head;
	uint32_t count = h->endpoint_count;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t e = (h->endpoint_next + i) % count;

		if (endpoint_places(t, e, now) > 0)
			return e;
	}
	return TABLE_NONE;
}

enum err
limit_endpoints(
    struct state *state, unsigned count, unsigned workers, const bool *stops)
{
	struct table_header *h = state->table->head;
	enum err rc;

	if (count > LIMIT_ENDPOINTS_MAX)
		return ERR_LIMIT;
	if ((rc = table_lock(state->table)) != ERR_OK)
		return rc;
	if (h->endpoint_next >= count)
		STORE(h->endpoint_next, 0);
	for (unsigned i = 0; i < count; i++)
		STORE(h->endpoints[i].stops, stops[i]);
	STORE(h->workers, workers);
	STORE(h->endpoint_count, count);
	queue_changed_locked(state->table);
	table_unlock(state->table);
	return ERR_OK;
}

/* The client's slot; one without tickets, longest without a grant, makes
 * room. */
uint32_t
client_slot_locked(struct table *t, uint64_t hash)
{
	uint32_t high = table_high(t, POOL_CLIENT), idle = TABLE_NONE, i;
	uint64_t granted = UINT64_MAX;

	for (i = 0; i < high; i++) {
		const struct client_slot *c = table_client(t, i);

		if (c->slot.state != SLOT_USED)
			continue;
		if (c->hash == hash)
			return i;
		if (c->leases == 0 && c->waiting == 0 && c->granted < granted) {
			granted = c->granted;
			idle = i;
		}
	}
	i = table_take_locked(t, POOL_CLIENT);
	if (i == TABLE_NONE && idle != TABLE_NONE) {
		table_give_locked(t, POOL_CLIENT, idle);
		i = table_take_locked(t, POOL_CLIENT);
	}
	if (i == TABLE_NONE)
		return TABLE_NONE;
	STORE(table_client(t, i)->leases, 0);
	STORE(table_client(t, i)->waiting, 0);
	STORE(table_client(t, i)->hash, hash);
	STORE(table_client(t, i)->granted, 0);
	STORE(table_client(t, i)->slot.state, SLOT_USED);
	return i;
}

static void
ticket_fill_locked(
    struct state *state, uint32_t i, uint32_t client, uint64_t now)
{
	struct table *t = state->table;
	struct table_header *h = t->head;
	struct ticket_slot *k = table_ticket(t, i);
	struct client_slot *c = table_client(t, client);

	STORE(k->client, client);
	STORE(k->endpoint, 0);
	STORE(k->process_slot, state->slot);
	STORE(k->number, h->ticket_next);
	STORE(k->process, state->number);
	STORE(k->deadline_ms, 0);
	STORE(k->polled_ms, now);
	STORE(k->rung_ms, 0);
	STORE(h->ticket_next, k->number + 1);
	STORE(k->slot.state, SLOT_WAITING);
	STORE(c->waiting, c->waiting + 1);
	STORE(h->waiting, h->waiting + 1);
	queue_changed_locked(t);
}

enum err
limit_enter(
    struct state *state, const char *client, struct limit_ticket *ret_ticket)
{
	struct table *t = state->table;
	uint64_t hash = table_hash(client, strlen(client)), now = clock_ms();
	uint32_t owner, i = TABLE_NONE;
	enum err rc;

	peer_reap(state, REAP_MS);
	if ((rc = table_lock(t)) != ERR_OK)
		return rc;
	expire_locked(t, now);
	/* who finds a place at once does not wait */
	if (t->head->waiting < state->queue_max + places_free(t, now) &&
	    (owner = client_slot_locked(t, hash)) != TABLE_NONE &&
	    (i = table_take_locked(t, POOL_TICKET)) != TABLE_NONE) {
		ticket_fill_locked(state, i, owner, now);
		*ret_ticket = (struct limit_ticket){
			.number = table_ticket(t, i)->number,
			.slot = i,
		};
	}
	table_unlock(t);
	return i == TABLE_NONE ? ERR_BUSY : ERR_OK;
}

static void
grant_locked(
    struct table *t, uint32_t i, uint32_t endpoint, uint64_t deadline_ms)
{
	struct table_header *h = t->head;
	struct ticket_slot *k = table_ticket(t, i);
	struct client_slot *c = table_client(t, k->client);
	struct endpoint *e = &h->endpoints[endpoint];

	if (e->retry_ms != 0)
		STORE(e->trial, k->number);
	STORE(k->endpoint, endpoint);
	STORE(k->deadline_ms, deadline_ms);
	STORE(k->slot.state, SLOT_LEASED);
	STORE(e->in_use, e->in_use + 1);
	STORE(c->leases, c->leases + 1);
	STORE(c->waiting, c->waiting - 1);
	STORE(h->waiting, h->waiting - 1);
	STORE(c->granted, h->grant_next);
	STORE(h->grant_next, h->grant_next + 1);
	STORE(h->endpoint_next, (endpoint + 1) % h->endpoint_count);
	queue_changed_locked(t);
}

/* One waiting ticket asks; true when it is a lease now. */
static bool
try_locked(struct state *state, uint32_t i, uint64_t deadline_ms,
    unsigned *ret_position)
{
	struct table *t = state->table;
	struct ticket_slot *k = table_ticket(t, i);
	uint64_t now = clock_ms();
	uint32_t endpoint;

	if (k->slot.state == SLOT_LEASED)
		return true;
	expire_locked(t, now);
	if (now - k->polled_ms > QUEUE_STALE_MS)
		queue_changed_locked(t);
	STORE(k->polled_ms, now);
	queue_view_locked(state, now);
	*ret_position = state->queue.position[i];
	if (*ret_position == 0 || *ret_position > places_free(t, now))
		return false;
	if ((endpoint = endpoint_choose(t, now)) == TABLE_NONE)
		return false;
	grant_locked(t, i, endpoint, deadline_ms);
	return true;
}

bool
limit_try(struct state *state, struct limit_ticket *ticket,
    uint64_t deadline_ms, unsigned *ret_position)
{
	struct table *t = state->table;
	uint32_t i;

	if (ticket->granted)
		return true;
	*ret_position = 1;
	peer_reap(state, REAP_MS);
	if (table_lock(t) != ERR_OK)
		return false;
	i = ticket_find_locked(t, ticket);
	if (i != TABLE_NONE &&
	    try_locked(state, i, deadline_ms, ret_position)) {
		ticket->slot = i;
		ticket->endpoint = table_ticket(t, i)->endpoint;
		ticket->granted = true;
	}
	table_unlock(t);
	return ticket->granted;
}

void
limit_extend(
    struct state *state, struct limit_ticket *ticket, uint64_t deadline_ms)
{
	struct table *t = state->table;
	uint32_t i;

	if (table_lock(t) != ERR_OK)
		return;
	i = ticket_find_locked(t, ticket);
	if (i != TABLE_NONE && table_ticket(t, i)->slot.state == SLOT_LEASED)
		STORE(table_ticket(t, i)->deadline_ms, deadline_ms);
	table_unlock(t);
}

/* The process of the first waiter who could have a place and was not told so
 * just now. */
static uint64_t
ring_locked(struct state *state, uint64_t now)
{
	struct queue_view *v = &state->queue;
	struct table *t = state->table;
	uint32_t places = places_free(t, now);

	queue_view_locked(state, now);
	for (uint32_t i = 0; i < v->count && i < places; i++) {
		struct ticket_slot *k = table_ticket(t, v->waiters[i].slot);

		if (now - k->rung_ms < RING_MS)
			continue;
		STORE(k->rung_ms, now);
		return k->process;
	}
	return 0;
}

void
limit_leave(struct state *state, struct limit_ticket *ticket, bool hold,
    uint64_t *ret_ring)
{
	struct table *t = state->table;
	uint64_t now = clock_ms();
	struct ticket_slot *k;
	uint32_t i;

	*ret_ring = 0;
	if (table_lock(t) != ERR_OK)
		return;
	if ((i = ticket_find_locked(t, ticket)) != TABLE_NONE) {
		k = table_ticket(t, i);
		if (hold && k->slot.state == SLOT_LEASED)
			STORE(k->process, 0);
		else if (k->process == state->number)
			ticket_free_locked(t, i);
	}
	expire_locked(t, now);
	*ret_ring = ring_locked(state, now);
	table_unlock(t);
	ticket->number = 0;
}

void
limit_endpoint_down(
    struct state *state, unsigned endpoint, uint64_t retry_at_ms)
{
	struct table *t = state->table;
	struct endpoint *e;

	if (endpoint >= LIMIT_ENDPOINTS_MAX || table_lock(t) != ERR_OK)
		return;
	e = &t->head->endpoints[endpoint];
	STORE(e->trial, 0);
	STORE(e->retry_ms, retry_at_ms);
	table_unlock(t);
}

unsigned
limit_endpoints_up(struct state *state)
{
	struct table *t = state->table;
	uint64_t now = clock_ms();
	unsigned n = 0;

	if (table_lock(t) != ERR_OK)
		return 0;
	for (uint32_t i = 0; i < t->head->endpoint_count; i++) {
		if (now >= t->head->endpoints[i].retry_ms)
			n++;
	}
	table_unlock(t);
	return n;
}
