/*
 * The layout of the shared table, private to state/.
 *
 * Everything in the segment is either a fact or derived from facts. The facts
 * are the slots whose state word says that they are in use; a slot's contents
 * are stored before its state word, so a process may die after any store and
 * leave only whole slots behind. Free lists, hash chains and counts are
 * derived: the repair after such a death computes them anew (repair.c).
 *
 * Links are index + 1, so that zeroed memory is an empty table.
 */
#ifndef STATE_TABLE_H
#define STATE_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/clock.h"
#include "state/limit.h"
#include "state/metrics.h"
#include "state/session.h"
#include "state/shm.h"

#define TABLE_MAGIC 0x50537461626c6531u
/* Part of the segment's name: raise it with every change of the structures
 * below and of the order of METRICS_ROWS. */
#define TABLE_VERSION 1
#define TABLE_NONE UINT32_MAX
#define TABLE_METRICS 32
#define TABLE_RAW_MAX 64
#define TABLE_INBOX_MAX 112
/* how long a lock that somebody holds is waited for */
#define TABLE_LOCK_MS 500

/* The store points: a test build dies at the n-th. */
#ifdef STATE_KILL_POINTS
void table_point(void);
#else
#define table_point() ((void)0)
#endif

/* Every store into the segment that is made under the lock. The order matters
 * to whoever repairs after our death, so the compiler must keep it. */
#define STORE(place, value) \
	do { \
		__atomic_store_n(&(place), (value), __ATOMIC_RELEASE); \
		table_point(); \
	} while (0)

enum slot_state { SLOT_FREE, SLOT_USED, SLOT_WAITING, SLOT_LEASED };

/* How each slot begins. */
struct slot {
	uint32_t state; /* enum slot_state */
	uint32_t next;  /* link of the free list */
};

struct process_slot {
	struct slot slot;
	int32_t pid;
	uint32_t unused;
	uint64_t start; /* field 22 of /proc/pid/stat; 0 unknown */
	uint64_t number;
	uint64_t heartbeat_ms;
	char inbox[TABLE_INBOX_MAX];      /* its socket */
	uint64_t counters[TABLE_METRICS]; /* atomic, without the lock */
};

/* What a scan over all sessions reads: one cache line each. */
struct session_slot {
	struct slot slot;
	uint32_t chain; /* derived: link of its hash bucket */
	uint32_t kind;
	uint32_t revision;
	uint32_t calls;      /* derived: how many */
	uint32_t first_call; /* derived: link */
	uint32_t owner_slot;
	uint64_t owner; /* number of the process with its stream, or 0 */
	uint64_t created_ms;
	uint64_t seen_ms;
	uint64_t key; /* first half of the random part of its id */
};

struct session_text {
	char id[SESSION_ID_LEN + 8];
	char client[64];
};

struct call_slot {
	struct slot slot;
	uint32_t session;
	uint32_t chain; /* derived: link among its session's calls */
	uint32_t process_slot;
	uint32_t length; /* of the raw id */
	uint64_t process;
	uint64_t hash;           /* of the whole raw id */
	char raw[TABLE_RAW_MAX]; /* its beginning, zero-filled */
};

/* A waiter (SLOT_WAITING) or a lease (SLOT_LEASED). */
struct ticket_slot {
	struct slot slot;
	uint32_t client;
	uint32_t endpoint;
	uint32_t process_slot;
	uint32_t unused;
	uint64_t number;
	uint64_t process; /* 0: a lease that only its deadline ends */
	uint64_t deadline_ms;
	uint64_t polled_ms; /* when its process last asked */
	uint64_t rung_ms;   /* when its process was last told to ask */
};

/* One of limit's clients; stays without tickets while there is room, so that
 * the time of its last grant is not forgotten. */
struct client_slot {
	struct slot slot;
	uint32_t leases;  /* derived */
	uint32_t waiting; /* derived */
	uint64_t hash;
	uint64_t granted; /* serial number of its last grant, 0 never */
};

struct endpoint {
	uint32_t stops;
	uint32_t in_use;   /* derived */
	uint64_t retry_ms; /* 0: in service */
	uint64_t trial;    /* ticket that tries it after retry_ms */
};

enum pool_kind {
	POOL_PROCESS,
	POOL_SESSION,
	POOL_CALL,
	POOL_TICKET,
	POOL_CLIENT,
	POOL_COUNT
};

struct pool {
	uint32_t size; /* slots */
	uint32_t high; /* slots that were ever in use */
	uint32_t free; /* derived: link */
	uint32_t used; /* derived */
};

struct table_header {
	uint64_t magic; /* stored last when a segment is made */
	uint32_t version;
	uint32_t buckets; /* power of two */
	uint64_t size;    /* bytes of the segment */
	struct pool pools[POOL_COUNT];
	pthread_mutex_t lock;
	uint64_t generation; /* rises with every process that registers */
	uint64_t repairs;
	uint64_t moved_ms; /* when the first process left the segment */
	uint64_t ticket_next;
	uint64_t grant_next;
	uint64_t queue_version; /* rises with every change of the queue */
	uint32_t waiting;       /* derived */
	uint32_t workers;
	uint32_t endpoint_count;
	uint32_t endpoint_next; /* whose turn it is */
	struct endpoint endpoints[LIMIT_ENDPOINTS_MAX];
	/* Sums of processes that ended. The lowest bit of totals_at says which
	 * ones hold; its upper half is the id of the segment whose totals were
	 * taken over, so that one store commits both. A fold is prepared in
	 * the other ones and committed by the store of fold (process slot + 1,
	 * bit 31 which ones), which the repair completes. */
	uint64_t totals_at;
	uint32_t id; /* random */
	uint32_t fold;
	uint64_t totals[2][TABLE_METRICS];
};

/* How many slots of each pool are wanted. */
struct table_sizes {
	uint32_t slots[POOL_COUNT];
};

/* A mapped segment. The sizes are copies: what others could overwrite is not
 * used as a bound. */
struct table {
	int fd;
	size_t size;
	uint32_t buckets;
	struct table_sizes sizes;
	struct table_header *head;
	char *slots[POOL_COUNT];
	struct session_text *texts;
	uint32_t *index;       /* derived: hash buckets of sessions */
	struct table *retired; /* mappings that worker threads may still use */
};

/* A process that this one knows of, by its slot. */
struct peer {
	uint64_t number; /* 0: none */
	uint64_t start;
	pid_t pid;
	int pidfd; /* -1: could not be had */
};

/* One who waits. */
struct waiter {
	uint32_t slot, client;
	uint32_t nth;     /* among its client's waiters, from 0 */
	uint32_t level;   /* leases its client has when it is granted */
	uint64_t granted; /* its client's last grant */
	uint64_t number;
};

/* The order of the queue as this process computed it last. */
struct queue_view {
	uint64_t version;
	uint64_t at_ms;
	uint32_t count;
	struct waiter *waiters; /* in order */
	uint32_t *position;     /* by ticket slot, from 1; 0 not in the order */
};

struct state {
	struct table *table;
	uint64_t *_Atomic counters; /* in this process' slot */
	uint64_t number;
	uint64_t start;
	pid_t pid;
	uint32_t slot;
	uint64_t queue_max;
	uint64_t session_calls_max;
	uint64_t body_max;
	struct table_sizes wanted;
	char name[96];
	char run_dir[88];
	struct peer *peers;
	uint32_t peer_count;
	uint64_t peers_generation;
	uint64_t reaped_ms;
	struct queue_view queue;
};

extern const size_t table_stride[POOL_COUNT];

static inline struct slot *
table_slot(const struct table *t, enum pool_kind kind, uint32_t i)
{
	return (struct slot *)(void *)(t->slots[kind] + i * table_stride[kind]);
}

static inline struct process_slot *
table_process(const struct table *t, uint32_t i)
{
	return (struct process_slot *)(void *)table_slot(t, POOL_PROCESS, i);
}

static inline struct session_slot *
table_session(const struct table *t, uint32_t i)
{
	return (struct session_slot *)(void *)table_slot(t, POOL_SESSION, i);
}

static inline struct call_slot *
table_call(const struct table *t, uint32_t i)
{
	return (struct call_slot *)(void *)table_slot(t, POOL_CALL, i);
}

static inline struct ticket_slot *
table_ticket(const struct table *t, uint32_t i)
{
	return (struct ticket_slot *)(void *)table_slot(t, POOL_TICKET, i);
}

static inline struct client_slot *
table_client(const struct table *t, uint32_t i)
{
	return (struct client_slot *)(void *)table_slot(t, POOL_CLIENT, i);
}

/* How many slots of a pool are worth looking at. */
static inline uint32_t
table_high(const struct table *t, enum pool_kind kind)
{
	uint32_t high = t->head->pools[kind].high;

	return high < t->sizes.slots[kind] ? high : t->sizes.slots[kind];
}

/* table.c: the lock, pools and the session index */

/* ERR_TIMEOUT when somebody else held the lock for TABLE_LOCK_MS. Repairs the
 * table when its holder died. */
enum err table_lock(struct table *t) MUST_CHECK;
void table_unlock(struct table *t);

/* Takes a slot off the free list; its state is SLOT_FREE until the caller has
 * filled it and stores another. TABLE_NONE when all are in use. */
uint32_t table_take_locked(struct table *t, enum pool_kind kind);
void table_give_locked(struct table *t, enum pool_kind kind, uint32_t i);

/* Copies a text of at most size - 1 bytes and fills up with zeros. */
void table_text_locked(char *place, size_t size, const char *text);

uint64_t table_hash(const char *text, size_t len);
void table_index_locked(struct table *t, uint32_t session);
void table_unindex_locked(struct table *t, uint32_t session);
uint32_t table_find_locked(const struct table *t, const char *id);
uint64_t table_key(const char *id);

/* Slot of a process by its number, or TABLE_NONE. */
uint32_t table_process_find(const struct table *t, uint64_t number);

/* segment.c */

/* Maps the segment of that name, made when it is missing; *ret_table holds
 * the creation lock (flock) until segment_ready. */
enum err segment_open(const char *name, const struct table_sizes *wanted,
    struct table **ret_table) MUST_CHECK;
void segment_ready(struct table *t);
/* Closes the file and keeps the mapping. */
void segment_retire(struct table *t);
void segment_close(struct table *t);
bool segment_unlinked(const struct table *t);

/* repair.c */
void table_repair_locked(struct table *t);
bool slot_state_valid(enum pool_kind kind, uint32_t state);
/* Whether the facts of a slot in use fit together. */
bool slot_valid(const struct table *t, enum pool_kind kind, uint32_t i);
bool slot_used(const struct table *t, enum pool_kind kind, uint32_t i);

/* check.c: ERR_INTERNAL with what is wrong in state_fault */
enum err table_check_locked(struct table *t) MUST_CHECK;

/* reclaim.c: what a process held */
void session_free_locked(struct table *t, uint32_t session);
void call_free_locked(struct table *t, uint32_t call);
void ticket_free_locked(struct table *t, uint32_t ticket);
/* Counts a ticket in use with its client, endpoint and the queue. */
void ticket_count_locked(struct table *t, uint32_t ticket);
void process_reclaim_locked(struct table *t, uint32_t slot);
void process_fold_locked(struct table *t, uint32_t slot);
void process_fold_finish_locked(struct table *t);

/* move.c: from an unlinked segment to its successor */
void table_move(struct state *state, struct table *old, struct table *new);

/* peer.c */
uint64_t peer_start(pid_t pid);
bool peer_gone(pid_t pid, uint64_t start);
bool peer_alive(struct state *state, uint32_t slot, uint64_t number, pid_t pid,
    uint64_t start);
/* Reclaims what dead processes hold; looks only every min_ms. */
void peer_reap(struct state *state, unsigned min_ms);
/* Reclaims one process found dead. */
void peer_reclaim(struct state *state, uint32_t slot, uint64_t number);
void peer_done(struct state *state);

/* limit.c */
uint32_t client_slot_locked(struct table *t, uint64_t hash);
uint32_t
ticket_find_locked(const struct table *t, const struct limit_ticket *ticket);

/* queue.c */

/* A waiter whose process has not asked for so long is passed over: stopped, or
 * dying. Every waiting call asks every 250 ms. */
#define QUEUE_STALE_MS 1000

enum err queue_view_init(struct queue_view *view, uint32_t tickets) MUST_CHECK;
void queue_view_done(struct queue_view *view);
/* Brings this process' view of the queue up to date. */
void queue_view_locked(struct state *state, uint64_t now);

/* rundir.c */
enum err
rundir_choose(const char *setting, char *ret_dir, size_t size) MUST_CHECK;
/* The path of a process' inbox, its own one as it registered it. */
void state_inbox_path(
    struct state *state, uint64_t process, char *ret_path, size_t size);
uint64_t state_body_max(const struct state *state);

/* shm.c */
void
state_fault_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
