/*
 * The repair after a death under the lock. It reads the facts (slots in use)
 * and knows nothing of what was going on.
 */
#include <string.h>

#include "state/table.h"

bool
slot_state_valid(enum pool_kind kind, uint32_t state)
{
	if (kind == POOL_TICKET)
		return state == SLOT_WAITING || state == SLOT_LEASED;
	return state == SLOT_USED;
}

static bool
process_is(const struct table *t, uint32_t slot, uint64_t number)
{
	struct process_slot *p;

	if (slot >= t->sizes.slots[POOL_PROCESS])
		return false;
	p = table_process(t, slot);
	return p->slot.state == SLOT_USED && p->number == number;
}

bool
slot_used(const struct table *t, enum pool_kind kind, uint32_t i)
{
	return i < t->sizes.slots[kind] &&
	    table_slot(t, kind, i)->state == SLOT_USED;
}

static bool
id_valid(const char *id)
{
	return strnlen(id, sizeof(((struct session_text *)0)->id)) ==
	    SESSION_ID_LEN &&
	    strspn(id, "0123456789abcdef") == SESSION_ID_LEN;
}

static bool
session_valid(const struct table *t, uint32_t i)
{
	const struct session_slot *s = table_session(t, i);
	const struct session_text *x = &t->texts[i];

	if (!id_valid(x->id) || s->key != table_key(x->id) ||
	    memchr(x->client, '\0', sizeof(x->client)) == NULL)
		return false;
	if (s->kind == SESSION_SSE)
		return process_is(t, s->owner_slot, s->owner);
	return s->kind == SESSION_STREAMABLE &&
	    (s->owner == 0 || process_is(t, s->owner_slot, s->owner));
}

static bool
ticket_valid(const struct table *t, uint32_t i)
{
	const struct ticket_slot *k = table_ticket(t, i);
	bool leased = k->slot.state == SLOT_LEASED;

	if (!slot_used(t, POOL_CLIENT, k->client))
		return false;
	if (leased && k->endpoint >= LIMIT_ENDPOINTS_MAX)
		return false;
	return process_is(t, k->process_slot, k->process) ||
	    (leased && k->process == 0);
}

bool
slot_valid(const struct table *t, enum pool_kind kind, uint32_t i)
{
	switch (kind) {
	case POOL_PROCESS:
		return table_process(t, i)->number != 0 &&
		    table_process(t, i)->pid > 0 &&
		    memchr(table_process(t, i)->inbox, '\0', TABLE_INBOX_MAX) !=
		    NULL;
	case POOL_SESSION:
		return session_valid(t, i);
	case POOL_CALL:
		return slot_used(t, POOL_SESSION, table_call(t, i)->session) &&
		    process_is(t, table_call(t, i)->process_slot,
			table_call(t, i)->process);
	case POOL_TICKET:
		return ticket_valid(t, i);
	case POOL_CLIENT:
	case POOL_COUNT:
		break;
	}
	return true;
}

/* Frees what does not hold together and makes the free list anew. Slots that
 * others refer to come first: processes, clients, sessions. */
static void
repair_pool(struct table *t, enum pool_kind kind)
{
	struct pool *pool = &t->head->pools[kind];
	uint32_t high, live = 0;

	if (pool->high > t->sizes.slots[kind])
		STORE(pool->high, t->sizes.slots[kind]);
	STORE(pool->size, t->sizes.slots[kind]);
	STORE(pool->free, 0);
	high = pool->high;
	for (uint32_t i = high; i-- > 0;) {
		struct slot *slot = table_slot(t, kind, i);

		if (slot_state_valid(kind, slot->state) &&
		    slot_valid(t, kind, i)) {
			live++;
			continue;
		}
		if (slot->state != SLOT_FREE)
			STORE(slot->state, SLOT_FREE);
		STORE(slot->next, pool->free);
		STORE(pool->free, i + 1);
	}
	STORE(pool->used, live);
}

static void
repair_sessions(struct table *t)
{
	uint32_t high = table_high(t, POOL_SESSION);

	memset(t->index, 0, t->buckets * sizeof(*t->index));
	table_point();
	for (uint32_t i = 0; i < high; i++) {
		struct session_slot *s = table_session(t, i);

		if (s->slot.state != SLOT_USED)
			continue;
		table_index_locked(t, i);
		STORE(s->first_call, 0);
		STORE(s->calls, 0);
	}
}

static void
repair_calls(struct table *t)
{
	uint32_t high = table_high(t, POOL_CALL);

	for (uint32_t i = 0; i < high; i++) {
		struct call_slot *c = table_call(t, i);
		struct session_slot *s;

		if (c->slot.state != SLOT_USED)
			continue;
		s = table_session(t, c->session);
		STORE(c->chain, s->first_call);
		STORE(s->first_call, i + 1);
		STORE(s->calls, s->calls + 1);
	}
}

/* What the tickets add up to. */
static void
repair_queue(struct table *t)
{
	struct table_header *h = t->head;
	uint32_t clients = table_high(t, POOL_CLIENT);
	uint32_t tickets = table_high(t, POOL_TICKET);

	for (uint32_t i = 0; i < clients; i++) {
		STORE(table_client(t, i)->leases, 0);
		STORE(table_client(t, i)->waiting, 0);
	}
	for (uint32_t i = 0; i < LIMIT_ENDPOINTS_MAX; i++)
		STORE(h->endpoints[i].in_use, 0);
	STORE(h->waiting, 0);
	for (uint32_t i = 0; i < tickets; i++) {
		if (table_ticket(t, i)->slot.state != SLOT_FREE)
			ticket_count_locked(t, i);
	}
	STORE(h->queue_version, h->queue_version + 1);
}

void
table_repair_locked(struct table *t)
{
	struct table_header *h = t->head;

	process_fold_finish_locked(t);
	if (h->endpoint_count > LIMIT_ENDPOINTS_MAX)
		STORE(h->endpoint_count, 0);
	if (h->endpoint_next >= h->endpoint_count)
		STORE(h->endpoint_next, 0);
	repair_pool(t, POOL_PROCESS);
	repair_pool(t, POOL_CLIENT);
	repair_pool(t, POOL_SESSION);
	repair_pool(t, POOL_CALL);
	repair_pool(t, POOL_TICKET);
	repair_sessions(t);
	repair_calls(t);
	repair_queue(t);
	STORE(h->generation, h->generation + 1);
	STORE(h->repairs, h->repairs + 1);
}
