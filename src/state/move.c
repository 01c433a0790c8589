/*
 * From a segment that was unlinked (logind's RemoveIPC does that) to its
 * successor. Every process takes along what is its own; the first one also
 * the totals and the sessions that belong to no process.
 */
#include <string.h>

#include "base/cleanup.h"
#include "state/table.h"

/* Where the slots of one table stand in the other. */
struct move {
	struct state *state;
	struct table *from, *to;
	uint64_t since_ms; /* streamable sessions made later are ours */
	uint32_t *sessions;
};

static void
move_counters(struct state *state, struct table *from)
{
	uint32_t i = table_process_find(from, state->number);
	uint64_t *now = atomic_load(&state->counters);

	for (size_t m = 0; i != TABLE_NONE && m < TABLE_METRICS; m++)
		__atomic_fetch_add(&now[m],
		    __atomic_exchange_n(&table_process(from, i)->counters[m], 0,
			__ATOMIC_RELAXED),
		    __ATOMIC_RELAXED);
}

static void
move_totals_locked(struct move *m)
{
	const struct table_header *from = m->from->head;
	struct table_header *to = m->to->head;
	uint64_t at = to->totals_at & 1;

	/* done before by one who died then */
	if (to->totals_at >> 32 == from->id)
		return;

	for (size_t i = 0; i < TABLE_METRICS; i++)
		STORE(to->totals[at ^ 1][i],
		    to->totals[at][i] + from->totals[from->totals_at & 1][i]);
	STORE(to->totals_at, (uint64_t)from->id << 32 | (at ^ 1));
}

static bool
session_ours(const struct move *m, const struct session_slot *s)
{
	if (s->slot.state != SLOT_USED)
		return false;
	if (s->owner == m->state->number)
		return true;
	return s->kind == SESSION_STREAMABLE && s->created_ms >= m->since_ms;
}

static void
move_session_locked(struct move *m, uint32_t from)
{
	const struct session_slot *old = table_session(m->from, from);
	struct session_slot *new;
	uint32_t i;

	if ((i = table_take_locked(m->to, POOL_SESSION)) == TABLE_NONE)
		return;
	new = table_session(m->to, i);
	m->to->texts[i] = m->from->texts[from];
	table_point();
	STORE(new->kind, old->kind);
	STORE(new->revision, old->revision);
	STORE(new->calls, 0);
	STORE(new->first_call, 0);
	STORE(new->owner_slot, m->state->slot);
	STORE(new->owner, old->owner == m->state->number ? old->owner : 0);
	STORE(new->created_ms, old->created_ms);
	STORE(new->seen_ms, old->seen_ms);
	STORE(new->key, old->key);
	STORE(new->slot.state, SLOT_USED);
	table_index_locked(m->to, i);
	m->sessions[from] = i;
}

static void
move_call_locked(struct move *m, const struct call_slot *old)
{
	uint32_t i, session = TABLE_NONE;
	struct session_slot *s;
	struct call_slot *new;

	if (old->session < m->from->sizes.slots[POOL_SESSION])
		session = m->sessions[old->session];
	if (session == TABLE_NONE)
		return;
	if ((i = table_take_locked(m->to, POOL_CALL)) == TABLE_NONE)
		return;
	s = table_session(m->to, session);
	new = table_call(m->to, i);
	memcpy(new->raw, old->raw, sizeof(new->raw));
	table_point();
	STORE(new->session, session);
	STORE(new->chain, s->first_call);
	STORE(new->process_slot, m->state->slot);
	STORE(new->length, old->length);
	STORE(new->process, old->process);
	STORE(new->hash, old->hash);
	STORE(new->slot.state, SLOT_USED);
	STORE(s->first_call, i + 1);
	STORE(s->calls, s->calls + 1);
}

static void
move_ticket_locked(struct move *m, const struct ticket_slot *old)
{
	struct limit_ticket ticket = { .number = old->number };
	const struct client_slot *client = table_client(m->from, old->client);
	uint32_t c = client_slot_locked(m->to, client->hash), i;
	struct table_header *h = m->to->head;
	struct ticket_slot *new;

	/* moved before by one who died then */
	if (ticket_find_locked(m->to, &ticket) != TABLE_NONE)
		return;
	if (c == TABLE_NONE ||
	    (i = table_take_locked(m->to, POOL_TICKET)) == TABLE_NONE)
		return;
	new = table_ticket(m->to, i);
	STORE(new->client, c);
	STORE(new->endpoint, old->endpoint);
	STORE(new->process_slot, m->state->slot);
	STORE(new->number, old->number);
	STORE(new->process, old->process);
	STORE(new->deadline_ms, old->deadline_ms);
	STORE(new->polled_ms, old->polled_ms);
	STORE(new->rung_ms, 0);
	STORE(new->slot.state, old->slot.state);
	ticket_count_locked(m->to, i);
	if (h->ticket_next <= old->number)
		STORE(h->ticket_next, old->number + 1);
}

static void
move_slots_locked(struct move *m)
{
	struct table *from = m->from;
	uint64_t self = m->state->number;

	for (uint32_t i = 0; i < table_high(from, POOL_SESSION); i++) {
		m->sessions[i] = TABLE_NONE;
		if (table_session(from, i)->slot.state == SLOT_USED)
			m->sessions[i] =
			    table_find_locked(m->to, from->texts[i].id);
		if (m->sessions[i] == TABLE_NONE &&
		    session_ours(m, table_session(from, i)))
			move_session_locked(m, i);
	}
	for (uint32_t i = 0; i < table_high(from, POOL_CALL); i++) {
		const struct call_slot *c = table_call(from, i);

		if (c->slot.state == SLOT_USED && c->process == self)
			move_call_locked(m, c);
	}
	for (uint32_t i = 0; i < table_high(from, POOL_TICKET); i++) {
		const struct ticket_slot *k = table_ticket(from, i);

		if (k->slot.state != SLOT_FREE &&
		    (k->process == self ||
			(k->process == 0 && m->since_ms == 0)))
			move_ticket_locked(m, k);
	}
}

/* The endpoints' states: what is set aside stays so. */
static void
move_endpoints_locked(struct move *m)
{
	const struct table_header *from = m->from->head;
	struct table_header *to = m->to->head;

	if (to->endpoint_count != 0 ||
	    from->endpoint_count > LIMIT_ENDPOINTS_MAX)
		return;
	for (uint32_t i = 0; i < from->endpoint_count; i++) {
		STORE(to->endpoints[i].stops, from->endpoints[i].stops);
		STORE(to->endpoints[i].retry_ms, from->endpoints[i].retry_ms);
	}
	STORE(to->workers, from->workers);
	STORE(to->endpoint_count, from->endpoint_count);
}

/* The old table's lock is taken first, always in this order. */
void
table_move(struct state *state, struct table *old, struct table *new)
{
	CLEANUP_FREE uint32_t *sessions = NULL;
	struct move m = { state, old, new, 0, NULL };

	move_counters(state, old);
	sessions = calloc(old->sizes.slots[POOL_SESSION], sizeof(*sessions));
	if ((m.sessions = sessions) == NULL || table_lock(old) != ERR_OK)
		return;
	if (table_lock(new) == ERR_OK) {
		m.since_ms = old->head->moved_ms;
		move_endpoints_locked(&m);
		move_slots_locked(&m);
		/* last: when we die before, the next process is the first */
		if (m.since_ms == 0) {
			move_totals_locked(&m);
			STORE(old->head->moved_ms, clock_ms());
		}
		table_unlock(new);
	}
	table_unlock(old);
}
