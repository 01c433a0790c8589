#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rnd.h"
#include "state/table.h"

static _Thread_local char fault[512];

void
state_fault_set(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(fault, sizeof(fault), fmt, ap);
	va_end(ap);
}

const char *
state_fault(void)
{
	return fault;
}

/* Places in the queue and leases share their slots; clients are remembered
 * for a while after their last ticket. */
static void
sizes_wanted(const struct conf *conf, struct table_sizes *ret_sizes)
{
	uint64_t tickets =
	    conf->queue_max + conf->sandbox_workers * LIMIT_ENDPOINTS_MAX + 64;

	ret_sizes->slots[POOL_PROCESS] = (uint32_t)conf->processes_max;
	ret_sizes->slots[POOL_SESSION] = (uint32_t)conf->sessions_max;
	ret_sizes->slots[POOL_CALL] = (uint32_t)conf->calls_max;
	ret_sizes->slots[POOL_TICKET] = (uint32_t)tickets;
	ret_sizes->slots[POOL_CLIENT] = (uint32_t)tickets + 64;
}

static enum err
name_segment(const char *instance, char *ret_name, size_t size)
{
	if (instance[0] == '\0')
		instance = "default";
	if (strchr(instance, '/') != NULL || strlen(instance) > 64) {
		state_fault_set("state_name: at most 64 characters, no /");
		return ERR_CONF;
	}
	snprintf(ret_name, size, "/python-sandbox.%u.%s.v%d",
	    (unsigned)geteuid(), instance, TABLE_VERSION);
	return ERR_OK;
}

static enum err
number_choose(uint64_t *ret_number)
{
	uint64_t number = 0;

	while (number == 0) {
		if (rnd_bytes(&number, sizeof(number)) != ERR_OK)
			return ERR_SYS;
	}
	*ret_number = number;
	return ERR_OK;
}

static void
fill_process_locked(struct state *state, struct process_slot *p)
{
	char inbox[TABLE_INBOX_MAX];

	snprintf(inbox, sizeof(inbox), "%s/%016" PRIx64 ".sock", state->run_dir,
	    state->number);
	STORE(p->pid, (int32_t)state->pid);
	STORE(p->start, state->start);
	STORE(p->number, state->number);
	STORE(p->heartbeat_ms, clock_ms());
	table_text_locked(p->inbox, sizeof(p->inbox), inbox);
	for (size_t i = 0; i < TABLE_METRICS; i++)
		STORE(p->counters[i], 0);
}

static enum err
process_register(struct state *state)
{
	struct table *t = state->table;
	struct process_slot *p;
	enum err rc;

	if ((rc = table_lock(t)) != ERR_OK)
		return rc;
	state->slot = table_take_locked(t, POOL_PROCESS);
	if (state->slot == TABLE_NONE) {
		table_unlock(t);
		return ERR_BUSY;
	}
	p = table_process(t, state->slot);
	fill_process_locked(state, p);
	STORE(p->slot.state, SLOT_USED);
	STORE(t->head->generation, t->head->generation + 1);
	table_unlock(t);
	atomic_store(&state->counters, p->counters);
	return ERR_OK;
}

/* What this process knows of a table that it just mapped. */
static enum err
views_make(struct state *state)
{
	struct table *t = state->table;

	peer_done(state);
	state->peer_count = t->sizes.slots[POOL_PROCESS];
	state->peers = calloc(state->peer_count, sizeof(*state->peers));
	if (state->peers == NULL)
		return ERR_NOMEM;
	state->peers_generation = 0;
	state->reaped_ms = 0;
	queue_view_done(&state->queue);
	return queue_view_init(&state->queue, t->sizes.slots[POOL_TICKET]);
}

/* Maps the segment and registers there; the mapping used before is kept. */
static enum err
join(struct state *state)
{
	struct table *before = state->table;
	enum err rc;

	rc = segment_open(state->name, &state->wanted, &state->table);
	if (rc != ERR_OK)
		return rc;
	if ((rc = views_make(state)) == ERR_OK) {
		peer_reap(state, 0);
		rc = process_register(state);
	}
	/* only now: whoever finds the table without a living process may
	 * replace it */
	segment_ready(state->table);
	if (rc == ERR_OK) {
		state->table->retired = before;
		if (before != NULL)
			segment_retire(before);
		return ERR_OK;
	}
	if (rc == ERR_BUSY)
		state_fault_set("all %u process slots are in use; raise "
				"processes_max",
		    state->table->sizes.slots[POOL_PROCESS]);
	segment_close(state->table);
	if ((state->table = before) != NULL && views_make(state) != ERR_OK)
		return ERR_NOMEM;
	return rc;
}

static enum err
state_prepare(struct state *state, const struct conf *conf)
{
	enum err rc;

	state->pid = getpid();
	state->start = peer_start(state->pid);
	state->queue_max = conf->queue_max;
	state->session_calls_max = conf->session_calls_max;
	state->body_max = conf->body_max;
	sizes_wanted(conf, &state->wanted);
	if ((rc = number_choose(&state->number)) != ERR_OK)
		return rc;
	rc = name_segment(conf->state_name, state->name, sizeof(state->name));
	if (rc != ERR_OK)
		return rc;
	return rundir_choose(
	    conf->run_dir, state->run_dir, sizeof(state->run_dir));
}

static void
tables_close(struct table *t)
{
	while (t != NULL) {
		struct table *next = t->retired;

		segment_close(t);
		t = next;
	}
}

void
state_hide(struct state *state)
{
	(void)shm_unlink(state->name);
}

static void
state_free(struct state *state)
{
	peer_done(state);
	queue_view_done(&state->queue);
	tables_close(state->table);
	free(state);
}

enum err
state_open(const struct conf *conf, struct state **ret_state)
{
	struct state *state;
	enum err rc;

	state_fault_set("out of memory or random bytes");
	if ((state = calloc(1, sizeof(*state))) == NULL)
		return ERR_NOMEM;
	if ((rc = state_prepare(state, conf)) == ERR_OK)
		rc = join(state);
	if (rc != ERR_OK) {
		state_free(state);
		return rc == ERR_CONF ? ERR_CONF : ERR_SYS;
	}
	*ret_state = state;
	return ERR_OK;
}

void
state_close(struct state *state)
{
	if (state == NULL)
		return;
	peer_reclaim(state, state->slot, state->number);
	state_free(state);
}

uint64_t
state_process(const struct state *state)
{
	return state->number;
}

const char *
state_run_dir(const struct state *state)
{
	return state->run_dir;
}

uint64_t
state_body_max(const struct state *state)
{
	return state->body_max;
}

/* A process of another version of the program has no slot here; its socket
 * is looked for in our own folder. */
void
state_inbox_path(
    struct state *state, uint64_t process, char *ret_path, size_t size)
{
	struct table *t = state->table;
	uint32_t i = TABLE_NONE;

	if (table_lock(t) == ERR_OK) {
		if ((i = table_process_find(t, process)) != TABLE_NONE)
			snprintf(ret_path, size, "%.*s", TABLE_INBOX_MAX - 1,
			    table_process(t, i)->inbox);
		table_unlock(t);
	}
	if (i == TABLE_NONE)
		snprintf(ret_path, size, "%s/%016" PRIx64 ".sock",
		    state->run_dir, process);
}

/* Whether our slot is still ours: a wrong repair or a wrong clock must not
 * leave us without one. */
static bool
registered(const struct state *state)
{
	const struct process_slot *p = table_process(state->table, state->slot);

	return p->slot.state == SLOT_USED && p->number == state->number;
}

bool
state_tick(struct state *state)
{
	struct table *old = state->table;

	peer_reap(state, 0);
	if (segment_unlinked(old)) {
		if (join(state) != ERR_OK)
			return false;
		table_move(state, old, state->table);
		return true;
	}
	if (!registered(state))
		return process_register(state) == ERR_OK;
	__atomic_store_n(&table_process(old, state->slot)->heartbeat_ms,
	    clock_ms(), __ATOMIC_RELAXED);
	return false;
}

enum err
state_check(struct state *state)
{
	struct table *t = state->table;
	enum err rc;

	if ((rc = table_lock(t)) != ERR_OK) {
		state_fault_set("the lock of the table is stuck");
		return rc;
	}
	rc = table_check_locked(t);
	table_unlock(t);
	return rc;
}
