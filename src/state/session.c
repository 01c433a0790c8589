#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rnd.h"
#include "state/table.h"

#define RANDOM_BYTES 16

static bool
id_formed(const char *id)
{
	return strnlen(id, SESSION_ID_LEN + 1) == SESSION_ID_LEN &&
	    strspn(id, "0123456789abcdef") == SESSION_ID_LEN;
}

enum err
session_process(const char *id, uint64_t *ret_process)
{
	uint64_t process;

	if (!id_formed(id))
		return ERR_PARSE;
	process = table_key(id + 2 * RANDOM_BYTES);
	if (process == 0)
		return ERR_PARSE;
	*ret_process = process;
	return ERR_OK;
}

/* The session that may go when all slots are taken: the one longest idle
 * without call or stream. */
static uint32_t
idlest_locked(const struct table *t)
{
	uint32_t high = table_high(t, POOL_SESSION), best = TABLE_NONE;
	uint64_t seen = UINT64_MAX;

	for (uint32_t i = 0; i < high; i++) {
		const struct session_slot *s = table_session(t, i);

		if (s->slot.state != SLOT_USED || s->kind == SESSION_SSE ||
		    s->owner != 0 || s->calls != 0 || s->seen_ms >= seen)
			continue;
		seen = s->seen_ms;
		best = i;
	}
	return best;
}

static uint32_t
session_take_locked(struct table *t)
{
	uint32_t i = table_take_locked(t, POOL_SESSION);

	if (i != TABLE_NONE)
		return i;
	if ((i = idlest_locked(t)) == TABLE_NONE)
		return TABLE_NONE;
	session_free_locked(t, i);
	return table_take_locked(t, POOL_SESSION);
}

static void
session_fill_locked(struct state *state, uint32_t i, enum session_kind kind,
    const char *client, const char *id)
{
	struct table *t = state->table;
	struct session_slot *s = table_session(t, i);
	uint64_t now = clock_ms();

	table_text_locked(t->texts[i].id, sizeof(t->texts[i].id), id);
	table_text_locked(
	    t->texts[i].client, sizeof(t->texts[i].client), client);
	STORE(s->kind, kind);
	STORE(s->revision, 0);
	STORE(s->calls, 0);
	STORE(s->first_call, 0);
	STORE(s->owner_slot, state->slot);
	STORE(s->owner, kind == SESSION_SSE ? state->number : 0);
	STORE(s->created_ms, now);
	STORE(s->seen_ms, now);
	STORE(s->key, table_key(id));
	STORE(s->slot.state, SLOT_USED);
	table_index_locked(t, i);
}

enum err
session_create(struct state *state, enum session_kind kind, const char *client,
    char *ret_id)
{
	struct table *t = state->table;
	char id[SESSION_ID_LEN + 1];
	enum err rc;
	uint32_t i;

	if ((rc = rnd_hex(id, RANDOM_BYTES)) != ERR_OK)
		return rc;
	snprintf(id + 2 * RANDOM_BYTES, 17, "%016" PRIx64, state->number);
	if ((rc = table_lock(t)) != ERR_OK)
		return rc;
	if ((i = session_take_locked(t)) != TABLE_NONE)
		session_fill_locked(state, i, kind, client, id);
	table_unlock(t);
	if (i == TABLE_NONE)
		return ERR_BUSY;
	memcpy(ret_id, id, sizeof(id));
	return ERR_OK;
}

/* Locks the table with the session's slot found. Unlocked on failure. */
static enum err
lock_session(struct state *state, const char *id, uint32_t *ret_session)
{
	enum err rc;
	uint32_t i;

	if (!id_formed(id))
		return ERR_NOT_FOUND;
	if ((rc = table_lock(state->table)) != ERR_OK)
		return rc;
	if ((i = table_find_locked(state->table, id)) == TABLE_NONE) {
		table_unlock(state->table);
		return ERR_NOT_FOUND;
	}
	*ret_session = i;
	return ERR_OK;
}

static void
info_fill(const struct table *t, uint32_t i, struct session_info *ret_info)
{
	const struct session_slot *s = table_session(t, i);

	*ret_info = (struct session_info){
		.kind =
		    s->kind == SESSION_SSE ? SESSION_SSE : SESSION_STREAMABLE,
		.owner = s->owner,
		.revision = s->revision,
		.created_ms = s->created_ms,
		.seen_ms = s->seen_ms,
	};
	memcpy(ret_info->id, t->texts[i].id, SESSION_ID_LEN);
	memcpy(
	    ret_info->client, t->texts[i].client, sizeof(ret_info->client) - 1);
}

enum err
session_find(struct state *state, const char *id, struct session_info *ret_info)
{
	struct table *t = state->table;
	struct session_info info;
	struct process_slot p;
	uint32_t i, slot;
	enum err rc;

	if (!id_formed(id))
		return ERR_PARSE;
	if ((rc = lock_session(state, id, &i)) != ERR_OK)
		return rc;
	info_fill(t, i, &info);
	slot = table_session(t, i)->owner_slot % t->sizes.slots[POOL_PROCESS];
	p.pid = table_process(t, slot)->pid;
	p.start = table_process(t, slot)->start;
	table_unlock(t);
	if (info.owner != 0 &&
	    !peer_alive(state, slot, info.owner, p.pid, p.start)) {
		peer_reclaim(state, slot, info.owner);
		if (info.kind == SESSION_SSE)
			return ERR_NOT_FOUND;
		info.owner = 0;
	}
	*ret_info = info;
	return ERR_OK;
}

enum err
session_touch(struct state *state, const char *id, unsigned revision)
{
	struct session_slot *s;
	enum err rc;
	uint32_t i;

	if ((rc = lock_session(state, id, &i)) != ERR_OK)
		return rc;
	s = table_session(state->table, i);
	STORE(s->seen_ms, clock_ms());
	if (revision != 0)
		STORE(s->revision, revision);
	table_unlock(state->table);
	return ERR_OK;
}

enum err
session_stream(struct state *state, const char *id, bool open)
{
	struct session_slot *s;
	enum err rc;
	uint32_t i;

	if ((rc = lock_session(state, id, &i)) != ERR_OK)
		return rc;
	s = table_session(state->table, i);
	if (s->kind == SESSION_STREAMABLE && open) {
		/* nobody's between the two stores */
		STORE(s->owner, 0);
		STORE(s->owner_slot, state->slot);
		STORE(s->owner, state->number);
	} else if (s->kind == SESSION_STREAMABLE && s->owner == state->number) {
		STORE(s->owner, 0);
	}
	STORE(s->seen_ms, clock_ms());
	table_unlock(state->table);
	return ERR_OK;
}

enum err
session_end(struct state *state, const char *id)
{
	enum err rc;
	uint32_t i;

	if ((rc = lock_session(state, id, &i)) != ERR_OK)
		return rc;
	session_free_locked(state->table, i);
	table_unlock(state->table);
	return ERR_OK;
}

unsigned
session_expire(struct state *state, uint64_t idle_ms)
{
	struct table *t = state->table;
	uint64_t now = clock_ms();
	unsigned n = 0;
	uint32_t high;

	if (table_lock(t) != ERR_OK)
		return 0;
	high = table_high(t, POOL_SESSION);
	for (uint32_t i = 0; i < high; i++) {
		const struct session_slot *s = table_session(t, i);

		if (s->slot.state != SLOT_USED || s->kind == SESSION_SSE ||
		    s->owner != 0 || s->calls != 0 ||
		    s->seen_ms + idle_ms > now)
			continue;
		session_free_locked(t, i);
		n++;
	}
	table_unlock(t);
	return n;
}

/* Ids are compared by hash, length and their first bytes: two long ones that
 * collide belong to one client, who harms itself alone. */
static uint32_t
call_find_locked(const struct table *t, uint32_t session, const char *raw)
{
	size_t len = strlen(raw);
	uint64_t hash = table_hash(raw, len);
	uint32_t link = table_session(t, session)->first_call;

	for (uint32_t n = t->sizes.slots[POOL_CALL]; n > 0; n--) {
		const struct call_slot *c;

		if (link == 0 || link > t->sizes.slots[POOL_CALL])
			break;
		c = table_call(t, link - 1);
		if (c->hash == hash && c->length == (uint32_t)len &&
		    memcmp(c->raw, raw,
			len < TABLE_RAW_MAX ? len : TABLE_RAW_MAX) == 0)
			return link - 1;
		link = c->chain;
	}
	return TABLE_NONE;
}

static void
call_fill_locked(
    struct state *state, uint32_t session, uint32_t call, const char *raw)
{
	struct table *t = state->table;
	struct session_slot *s = table_session(t, session);
	struct call_slot *c = table_call(t, call);
	size_t len = strlen(raw);

	memcpy(c->raw, raw, len < TABLE_RAW_MAX ? len : TABLE_RAW_MAX);
	table_point();
	STORE(c->length, (uint32_t)len);
	STORE(c->hash, table_hash(raw, len));
	STORE(c->session, session);
	STORE(c->process_slot, state->slot);
	STORE(c->process, state->number);
	STORE(c->chain, s->first_call);
	STORE(c->slot.state, SLOT_USED);
	STORE(s->first_call, call + 1);
	STORE(s->calls, s->calls + 1);
	STORE(s->seen_ms, clock_ms());
}

enum err
session_call_begin(struct state *state, const char *id, const char *raw_call_id)
{
	struct table *t = state->table;
	uint32_t session, call;
	enum err rc;

	if ((rc = lock_session(state, id, &session)) != ERR_OK)
		return rc;
	rc = ERR_BUSY;
	if (call_find_locked(t, session, raw_call_id) != TABLE_NONE) {
		rc = ERR_INTERNAL;
	} else if (table_session(t, session)->calls <
		state->session_calls_max &&
	    (call = table_take_locked(t, POOL_CALL)) != TABLE_NONE) {
		call_fill_locked(state, session, call, raw_call_id);
		rc = ERR_OK;
	}
	table_unlock(t);
	return rc;
}

void
session_call_end(struct state *state, const char *id, const char *raw_call_id)
{
	struct table *t = state->table;
	uint32_t session, call;

	if (lock_session(state, id, &session) != ERR_OK)
		return;
	call = call_find_locked(t, session, raw_call_id);
	if (call != TABLE_NONE &&
	    table_call(t, call)->process == state->number) {
		call_free_locked(t, call);
		STORE(table_session(t, session)->seen_ms, clock_ms());
	}
	table_unlock(t);
}

enum err
session_call_find(struct state *state, const char *id, const char *raw_call_id,
    uint64_t *ret_process)
{
	struct table *t = state->table;
	uint32_t session, call;
	enum err rc;

	if ((rc = lock_session(state, id, &session)) != ERR_OK)
		return rc;
	rc = ERR_NOT_FOUND;
	call = call_find_locked(t, session, raw_call_id);
	if (call != TABLE_NONE) {
		*ret_process = table_call(t, call)->process;
		rc = ERR_OK;
	}
	table_unlock(t);
	return rc;
}

void
session_count(struct state *state, struct session_counts *ret_counts)
{
	const struct pool *pools = state->table->head->pools;
	struct session_counts counts = { 0 };

	peer_reap(state, 50);
	if (table_lock(state->table) == ERR_OK) {
		counts.processes = pools[POOL_PROCESS].used;
		counts.sessions = pools[POOL_SESSION].used;
		counts.calls = pools[POOL_CALL].used;
		counts.waiters = state->table->head->waiting;
		counts.leases = pools[POOL_TICKET].used - counts.waiters;
		table_unlock(state->table);
	}
	*ret_counts = counts;
}
