/* The check of every invariant: what the repair would compute, compared. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "state/table.h"

static const char *const pool_names[] = { "process", "session", "call",
	"ticket", "client" };

static enum err
check_free(const struct table *t, enum pool_kind kind, uint32_t live)
{
	const struct pool *pool = &t->head->pools[kind];
	uint32_t link = pool->free, n = 0;

	for (; link != 0 && n <= pool->high; n++) {
		if (link > pool->high ||
		    table_slot(t, kind, link - 1)->state != SLOT_FREE) {
			state_fault_set("%s slot %u is in the free list",
			    pool_names[kind], link - 1);
			return ERR_INTERNAL;
		}
		link = table_slot(t, kind, link - 1)->next;
	}
	if (n + live != pool->high || live != pool->used) {
		state_fault_set("%s slots: %u free and %u in use of %u, "
				"counted %u",
		    pool_names[kind], n, live, pool->high, pool->used);
		return ERR_INTERNAL;
	}
	return ERR_OK;
}

static enum err
check_pool(const struct table *t, enum pool_kind kind)
{
	const struct pool *pool = &t->head->pools[kind];
	uint32_t live = 0;

	if (pool->size != t->sizes.slots[kind] || pool->high > pool->size) {
		state_fault_set("%s slots: size %u, high %u", pool_names[kind],
		    pool->size, pool->high);
		return ERR_INTERNAL;
	}
	for (uint32_t i = 0; i < pool->high; i++) {
		uint32_t state = table_slot(t, kind, i)->state;

		if (state == SLOT_FREE)
			continue;
		if (!slot_state_valid(kind, state) || !slot_valid(t, kind, i)) {
			state_fault_set(
			    "%s slot %u holds nonsense", pool_names[kind], i);
			return ERR_INTERNAL;
		}
		live++;
	}
	return check_free(t, kind, live);
}

/* The calls in a session's list, or TABLE_NONE when it is not a list. */
static uint32_t
calls_listed(const struct table *t, uint32_t session)
{
	uint32_t link = table_session(t, session)->first_call, n = 0;

	while (link != 0) {
		if (link > t->sizes.slots[POOL_CALL] ||
		    !slot_used(t, POOL_CALL, link - 1) ||
		    table_call(t, link - 1)->session != session ||
		    ++n > t->sizes.slots[POOL_CALL])
			return TABLE_NONE;
		link = table_call(t, link - 1)->chain;
	}
	return n;
}

static enum err
check_sessions(const struct table *t)
{
	uint32_t high = table_high(t, POOL_SESSION), calls = 0;

	for (uint32_t i = 0; i < high; i++) {
		const struct session_slot *s = table_session(t, i);
		uint32_t n;

		if (s->slot.state != SLOT_USED)
			continue;
		if (table_find_locked(t, t->texts[i].id) != i) {
			state_fault_set(
			    "session slot %u is not in the index", i);
			return ERR_INTERNAL;
		}
		if ((n = calls_listed(t, i)) != s->calls) {
			state_fault_set("session slot %u: %u calls counted, "
					"%u listed",
			    i, s->calls, n);
			return ERR_INTERNAL;
		}
		calls += n;
	}
	if (calls != t->head->pools[POOL_CALL].used) {
		state_fault_set("%u calls in sessions, %u in use", calls,
		    t->head->pools[POOL_CALL].used);
		return ERR_INTERNAL;
	}
	return ERR_OK;
}

/* Every entry of the index is a session in use, and each stands there once. */
static enum err
check_index(const struct table *t)
{
	uint32_t n = 0;

	for (uint32_t b = 0; b < t->buckets; b++) {
		uint32_t link = t->index[b];

		while (link != 0) {
			if (!slot_used(t, POOL_SESSION, link - 1) ||
			    ++n > t->head->pools[POOL_SESSION].used) {
				state_fault_set("index bucket %u is wrong", b);
				return ERR_INTERNAL;
			}
			link = table_session(t, link - 1)->chain;
		}
	}
	if (n != t->head->pools[POOL_SESSION].used) {
		state_fault_set("%u sessions in the index, %u in use", n,
		    t->head->pools[POOL_SESSION].used);
		return ERR_INTERNAL;
	}
	return ERR_OK;
}

struct tally {
	uint32_t leases, waiting;
};

static void
tally_tickets(const struct table *t, struct tally *clients,
    struct tally *endpoints, uint32_t *ret_waiting)
{
	uint32_t high = table_high(t, POOL_TICKET);

	for (uint32_t i = 0; i < high; i++) {
		const struct ticket_slot *k = table_ticket(t, i);

		if (k->slot.state == SLOT_WAITING) {
			clients[k->client].waiting++;
			++*ret_waiting;
		} else if (k->slot.state == SLOT_LEASED) {
			clients[k->client].leases++;
			endpoints[k->endpoint].leases++;
		}
	}
}

static enum err
check_queue(const struct table *t)
{
	CLEANUP_FREE struct tally *clients = NULL;
	struct tally endpoints[LIMIT_ENDPOINTS_MAX] = { { 0, 0 } };
	const struct table_header *h = t->head;
	uint32_t waiting = 0, high = table_high(t, POOL_CLIENT);

	clients = calloc(t->sizes.slots[POOL_CLIENT], sizeof(*clients));
	if (clients == NULL)
		return ERR_NOMEM;
	tally_tickets(t, clients, endpoints, &waiting);
	if (waiting != h->waiting) {
		state_fault_set("%u wait, %u counted", waiting, h->waiting);
		return ERR_INTERNAL;
	}
	for (uint32_t i = 0; i < LIMIT_ENDPOINTS_MAX; i++) {
		if (endpoints[i].leases != h->endpoints[i].in_use) {
			state_fault_set("endpoint %u: %u leases, %u counted", i,
			    endpoints[i].leases, h->endpoints[i].in_use);
			return ERR_INTERNAL;
		}
	}
	for (uint32_t i = 0; i < high; i++) {
		const struct client_slot *c = table_client(t, i);

		if (c->slot.state == SLOT_USED &&
		    (clients[i].leases != c->leases ||
			clients[i].waiting != c->waiting)) {
			state_fault_set("client slot %u is counted wrong", i);
			return ERR_INTERNAL;
		}
	}
	return ERR_OK;
}

enum err
table_check_locked(struct table *t)
{
	const struct table_header *h = t->head;
	enum err rc = ERR_OK;

	if (h->fold != 0 || h->endpoint_count > LIMIT_ENDPOINTS_MAX ||
	    (h->endpoint_count > 0 && h->endpoint_next >= h->endpoint_count)) {
		state_fault_set("the header holds nonsense");
		return ERR_INTERNAL;
	}
	for (int kind = 0; rc == ERR_OK && kind < POOL_COUNT; kind++)
		rc = check_pool(t, (enum pool_kind)kind);
	if (rc == ERR_OK)
		rc = check_sessions(t);
	if (rc == ERR_OK)
		rc = check_index(t);
	if (rc == ERR_OK)
		rc = check_queue(t);
	return rc;
}
