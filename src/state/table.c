#include <errno.h>
#include <string.h>
#include <time.h>

#include "state/table.h"

_Static_assert(METRIC_COUNT <= TABLE_METRICS, "room for every metric");
_Static_assert(sizeof(struct session_slot) == 64, "one cache line");
_Static_assert(offsetof(struct process_slot, slot) == 0 &&
	offsetof(struct session_slot, slot) == 0 &&
	offsetof(struct call_slot, slot) == 0 &&
	offsetof(struct ticket_slot, slot) == 0 &&
	offsetof(struct client_slot, slot) == 0,
    "each begins with its slot");

const size_t table_stride[POOL_COUNT] = {
	[POOL_PROCESS] = sizeof(struct process_slot),
	[POOL_SESSION] = sizeof(struct session_slot),
	[POOL_CALL] = sizeof(struct call_slot),
	[POOL_TICKET] = sizeof(struct ticket_slot),
	[POOL_CLIENT] = sizeof(struct client_slot),
};

/* Waits for a lock that somebody holds; as pthread_mutex_clocklock, which
 * gcc's thread sanitizer does not know and so takes for no lock at all. */
static int
lock_wait(pthread_mutex_t *lock)
{
#ifdef __SANITIZE_THREAD__
	uint64_t until = clock_ms() + TABLE_LOCK_MS;
	struct timespec nap = { 0, 100000 };
	int rc;

	while (
	    (rc = pthread_mutex_trylock(lock)) == EBUSY && clock_ms() < until)
		nanosleep(&nap, NULL);
	return rc;
#else
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += TABLE_LOCK_MS * 1000000L;
	t.tv_sec += t.tv_nsec / 1000000000L;
	t.tv_nsec %= 1000000000L;
	return pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &t);
#endif
}

enum err
table_lock(struct table *t)
{
	int rc = pthread_mutex_trylock(&t->head->lock);

	/* a stopped process may hold it: better an error than a loop that
	 * stands still */
	if (rc == EBUSY)
		rc = lock_wait(&t->head->lock);
	if (rc == 0)
		return ERR_OK;
	if (rc != EOWNERDEAD)
		return ERR_TIMEOUT;
	table_repair_locked(t);
	/* last: when we die in the repair, the next one repairs again */
	pthread_mutex_consistent(&t->head->lock);
	return ERR_OK;
}

void
table_unlock(struct table *t)
{
	pthread_mutex_unlock(&t->head->lock);
}

uint32_t
table_take_locked(struct table *t, enum pool_kind kind)
{
	struct pool *pool = &t->head->pools[kind];
	uint32_t i;

	if (pool->free != 0 && pool->free <= t->sizes.slots[kind]) {
		i = pool->free - 1;
		STORE(pool->free, table_slot(t, kind, i)->next);
	} else if (pool->high < t->sizes.slots[kind]) {
		/* before the slot's state: no slot in use stands above it */
		i = pool->high;
		STORE(pool->high, i + 1);
	} else {
		return TABLE_NONE;
	}
	STORE(pool->used, pool->used + 1);
	return i;
}

void
table_give_locked(struct table *t, enum pool_kind kind, uint32_t i)
{
	struct pool *pool = &t->head->pools[kind];
	struct slot *slot = table_slot(t, kind, i);

	STORE(slot->state, SLOT_FREE);
	STORE(slot->next, pool->free);
	STORE(pool->free, i + 1);
	STORE(pool->used, pool->used - 1);
}

void
table_text_locked(char *place, size_t size, const char *text)
{
	size_t n = strnlen(text, size - 1);

	memset(place + n, 0, size - n);
	table_point();
	memcpy(place, text, n);
	table_point();
}

/* FNV-1a */
uint64_t
table_hash(const char *text, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++) {
		hash ^= (unsigned char)text[i];
		hash *= 0x100000001b3u;
	}
	return hash;
}

/* The id is random: its first digits are as good as any hash of it. */
uint64_t
table_key(const char *id)
{
	uint64_t key = 0;

	for (int i = 0; i < 16; i++) {
		unsigned c = (unsigned char)id[i];

		key = key << 4 | (c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return key;
}

static uint32_t *
bucket(const struct table *t, uint64_t key)
{
	return &t->index[key & (t->buckets - 1)];
}

void
table_index_locked(struct table *t, uint32_t session)
{
	struct session_slot *s = table_session(t, session);
	uint32_t *first = bucket(t, s->key);

	STORE(s->chain, *first);
	STORE(*first, session + 1);
}

void
table_unindex_locked(struct table *t, uint32_t session)
{
	struct session_slot *s = table_session(t, session);
	uint32_t *link = bucket(t, s->key);

	/* the count bounds the walk should a chain ever be a ring */
	for (uint32_t n = t->sizes.slots[POOL_SESSION]; n > 0; n--) {
		if (*link == 0 || *link > t->sizes.slots[POOL_SESSION])
			return;
		if (*link == session + 1) {
			STORE(*link, s->chain);
			return;
		}
		link = &table_session(t, *link - 1)->chain;
	}
}

uint32_t
table_find_locked(const struct table *t, const char *id)
{
	uint64_t key = table_key(id);
	uint32_t link = *bucket(t, key);

	for (uint32_t n = t->sizes.slots[POOL_SESSION]; n > 0; n--) {
		struct session_slot *s;

		if (link == 0 || link > t->sizes.slots[POOL_SESSION])
			return TABLE_NONE;
		s = table_session(t, link - 1);
		if (s->key == key && s->slot.state == SLOT_USED &&
		    memcmp(t->texts[link - 1].id, id, SESSION_ID_LEN) == 0)
			return link - 1;
		link = s->chain;
	}
	return TABLE_NONE;
}

uint32_t
table_process_find(const struct table *t, uint64_t number)
{
	uint32_t high = table_high(t, POOL_PROCESS);

	for (uint32_t i = 0; i < high; i++) {
		struct process_slot *p = table_process(t, i);

		if (p->slot.state == SLOT_USED && p->number == number)
			return i;
	}
	return TABLE_NONE;
}
