/* Giving back: sessions, calls, tickets and all that a process held. */
#include "state/table.h"

/* Takes a call out of its session's list. */
static void
call_unlink_locked(struct table *t, uint32_t call)
{
	struct call_slot *c = table_call(t, call);
	struct session_slot *s = table_session(t, c->session);
	uint32_t *link = &s->first_call;

	for (uint32_t n = t->sizes.slots[POOL_CALL]; n > 0; n--) {
		if (*link == 0 || *link > t->sizes.slots[POOL_CALL])
			return;
		if (*link == call + 1) {
			STORE(*link, c->chain);
			STORE(s->calls, s->calls - 1);
			return;
		}
		link = &table_call(t, *link - 1)->chain;
	}
}

void
call_free_locked(struct table *t, uint32_t call)
{
	call_unlink_locked(t, call);
	table_give_locked(t, POOL_CALL, call);
}

/* The calls go first: a call never outlives its session. */
void
session_free_locked(struct table *t, uint32_t session)
{
	struct session_slot *s = table_session(t, session);

	for (uint32_t n = t->sizes.slots[POOL_CALL]; n > 0; n--) {
		if (s->first_call == 0 ||
		    s->first_call > t->sizes.slots[POOL_CALL])
			break;
		call_free_locked(t, s->first_call - 1);
	}
	table_unindex_locked(t, session);
	table_give_locked(t, POOL_SESSION, session);
}

void
ticket_count_locked(struct table *t, uint32_t ticket)
{
	struct table_header *h = t->head;
	struct ticket_slot *k = table_ticket(t, ticket);
	struct client_slot *c = table_client(t, k->client);

	if (k->slot.state == SLOT_WAITING) {
		STORE(c->waiting, c->waiting + 1);
		STORE(h->waiting, h->waiting + 1);
	} else if (k->slot.state == SLOT_LEASED) {
		struct endpoint *e = &h->endpoints[k->endpoint];

		STORE(c->leases, c->leases + 1);
		STORE(e->in_use, e->in_use + 1);
	}
	STORE(h->queue_version, h->queue_version + 1);
}

void
ticket_free_locked(struct table *t, uint32_t ticket)
{
	struct table_header *h = t->head;
	struct ticket_slot *k = table_ticket(t, ticket);
	struct client_slot *c = table_client(t, k->client);

	if (k->slot.state == SLOT_WAITING) {
		STORE(c->waiting, c->waiting - 1);
		STORE(h->waiting, h->waiting - 1);
	} else {
		struct endpoint *e = &h->endpoints[k->endpoint];

		STORE(c->leases, c->leases - 1);
		STORE(e->in_use, e->in_use - 1);
	}
	table_give_locked(t, POOL_TICKET, ticket);
	STORE(h->queue_version, h->queue_version + 1);
}

/* The second half of a fold: may be run again after a death within it. */
void
process_fold_finish_locked(struct table *t)
{
	struct table_header *h = t->head;
	uint32_t fold = h->fold;

	if (fold == 0)
		return;
	STORE(h->totals_at, (h->totals_at & ~1ull) | fold >> 31);
	fold &= 0x7fffffff;
	if (fold - 1 < t->sizes.slots[POOL_PROCESS]) {
		struct process_slot *p = table_process(t, fold - 1);

		STORE(p->slot.state, SLOT_FREE);
	}
	STORE(h->fold, 0);
}

/* Adds a process' counters to the totals and frees its slot, both or none
 * even when we die between: one store commits. */
void
process_fold_locked(struct table *t, uint32_t slot)
{
	struct table_header *h = t->head;
	struct process_slot *p = table_process(t, slot);
	uint32_t at = (uint32_t)(h->totals_at & 1), to = at ^ 1;

	for (size_t i = 0; i < TABLE_METRICS; i++) {
		uint64_t n = __atomic_load_n(&p->counters[i], __ATOMIC_RELAXED);

		STORE(h->totals[to][i], h->totals[at][i] + n);
	}
	STORE(h->fold, (to << 31) | (slot + 1));
	process_fold_finish_locked(t);
	table_give_locked(t, POOL_PROCESS, slot);
}

static void
reclaim_sessions_locked(struct table *t, uint64_t number)
{
	uint32_t high = table_high(t, POOL_SESSION);

	for (uint32_t i = 0; i < high; i++) {
		struct session_slot *s = table_session(t, i);

		if (s->slot.state != SLOT_USED || s->owner != number)
			continue;
		if (s->kind == SESSION_SSE)
			session_free_locked(t, i);
		else
			STORE(s->owner, 0);
	}
}

static void
reclaim_calls_locked(struct table *t, uint64_t number)
{
	uint32_t high = table_high(t, POOL_CALL);

	for (uint32_t i = 0; i < high; i++) {
		struct call_slot *c = table_call(t, i);

		if (c->slot.state == SLOT_USED && c->process == number)
			call_free_locked(t, i);
	}
}

/* A run whose caller is gone goes on where the endpoint does not stop it: its
 * lease stays until the deadline, without a process. */
static void
reclaim_tickets_locked(struct table *t, uint64_t number)
{
	uint32_t high = table_high(t, POOL_TICKET);

	for (uint32_t i = 0; i < high; i++) {
		struct ticket_slot *k = table_ticket(t, i);

		if (k->slot.state == SLOT_FREE || k->process != number)
			continue;
		if (k->slot.state == SLOT_LEASED &&
		    !t->head->endpoints[k->endpoint].stops)
			STORE(k->process, 0);
		else
			ticket_free_locked(t, i);
	}
}

/* The process slot goes last, so that a death in the middle leaves it to the
 * next one to go on. */
void
process_reclaim_locked(struct table *t, uint32_t slot)
{
	uint64_t number = table_process(t, slot)->number;

	reclaim_calls_locked(t, number);
	reclaim_sessions_locked(t, number);
	reclaim_tickets_locked(t, number);
	process_fold_locked(t, slot);
}
