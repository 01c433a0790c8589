#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/log.h"
#include "sandboxd/channel.h"
#include "sandboxd/pool.h"

#define RETRY_MS 500 /* between attempts to make a slot */

enum slot_state { SLOT_EMPTY, SLOT_PREPARING, SLOT_READY };

struct pool_job {
	TAILQ_ENTRY(pool_job) entry; /* while it waits */
	struct slot *slot;           /* where it runs, or NULL */
	struct evbuffer *body;       /* owned: head and body */
	unsigned tries;              /* slots that broke before it ran */
	void (*done)(const struct pool_answer *answer, void *arg);
	void *arg;
};

struct slot {
	struct pool *pool;
	unsigned index;
	enum slot_state state;
	int fd;
	struct event *readable, *writable, *retry; /* owned */
	struct pool_job *job;                      /* owned, or NULL */
};

struct pool {
	struct event_base *base;
	struct spawner *spawner;
	unsigned n_slots, queued, queue_max;
	uint64_t served;
	TAILQ_HEAD(, pool_job) queue;
	struct slot *slots; /* owned */
};

static void fill(struct slot *slot);
static void dispatch(struct pool *pool);

static void
job_free(struct pool_job *job)
{
	if (job == NULL)
		return;
	if (job->body != NULL)
		evbuffer_free(job->body);
	free(job);
}

static void
finish(struct pool_job *job, const struct pool_answer *answer)
{
	job->done(answer, job->arg);
	job_free(job);
}

static void
drop_events(struct slot *slot)
{
	if (slot->readable != NULL)
		event_free(slot->readable);
	if (slot->writable != NULL)
		event_free(slot->writable);
	slot->readable = slot->writable = NULL;
}

/* Closes the slot's socket, which ends whatever runs in it. */
static void
empty(struct slot *slot)
{
	drop_events(slot);
	if (slot->fd >= 0)
		close(slot->fd);
	slot->fd = -1;
	slot->state = SLOT_EMPTY;
}

static void
retry_later(struct slot *slot)
{
	struct timeval pause = { 0, RETRY_MS * 1000 };

	if (event_add(slot->retry, &pause) != 0)
		log_error("sandboxd.slot", "slot=%u timer failed", slot->index);
}

/* The slot is gone without an answer. A job that was not sent yet gets another
 * slot, once; what was sent may have run. */
static void
broken(struct slot *slot, const char *text)
{
	bool sent = slot->state == SLOT_READY;
	struct pool_job *job = slot->job;
	struct pool_answer answer = {
		.rc = ERR_INTERNAL, .fd = -1, .text = text
	};

	slot->job = NULL;
	empty(slot);
	log_warn("sandboxd.slot", "slot=%u broke: %s", slot->index, text);
	retry_later(slot);
	if (job == NULL)
		return;
	job->slot = NULL;
	if (sent || job->tries++ > 0) {
		finish(job, &answer);
		return;
	}
	TAILQ_INSERT_HEAD(&slot->pool->queue, job, entry);
	slot->pool->queued++;
	dispatch(slot->pool);
}

/* Passes the body on as the slot takes it. */
static void
on_writable(evutil_socket_t socket, short what, void *arg)
{
	struct slot *slot = arg;
	struct pool_job *job = slot->job;

	(void)what;
	if (job == NULL || job->body == NULL || slot->state != SLOT_READY)
		return;
	/* one that is gone is noticed by on_readable */
	if (evbuffer_write(job->body, socket) < 0 && errno != EAGAIN)
		return;
	if (evbuffer_get_length(job->body) > 0) {
		if (event_add(slot->writable, NULL) != 0)
			broken(slot, "out of memory");
		return;
	}
	evbuffer_free(job->body);
	job->body = NULL;
}

static void
on_reply(struct slot *slot, const struct channel_note *note, int fd)
{
	struct pool_job *job = slot->job;
	struct pool_answer answer = {
		.rc = ERR_OK, .status = (int)note->status, .fd = fd
	};

	slot->job = NULL;
	slot->pool->served++;
	empty(slot);
	finish(job, &answer);
	fill(slot);
	dispatch(slot->pool);
}

static void
on_note(struct slot *slot, struct channel_note *note, int fd)
{
	note->text[CHANNEL_TEXT - 1] = '\0';
	if (note->kind == CHANNEL_READY) {
		slot->state = SLOT_READY;
		on_writable(slot->fd, EV_WRITE, slot);
		dispatch(slot->pool);
	} else if (note->kind == CHANNEL_REPLY && slot->job != NULL &&
	    fd >= 0) {
		on_reply(slot, note, fd);
		return; /* fd has been handed on */
	} else {
		broken(slot, note->text);
	}
	if (fd >= 0)
		close(fd);
}

static void
on_readable(evutil_socket_t socket, short what, void *arg)
{
	struct slot *slot = arg;
	struct channel_note note;
	enum err rc;
	int fd = -1;

	(void)what;
	rc = channel_receive(socket, &note, sizeof(note), &fd);
	if (rc == ERR_OK)
		on_note(slot, &note, fd);
	else if (rc != ERR_TIMEOUT)
		broken(slot, "it ended without an answer");
}

static enum err
watch(struct slot *slot)
{
	slot->readable = event_new(slot->pool->base, slot->fd,
	    EV_READ | EV_PERSIST, on_readable, slot);
	slot->writable =
	    event_new(slot->pool->base, slot->fd, EV_WRITE, on_writable, slot);
	if (slot->readable == NULL || slot->writable == NULL ||
	    event_add(slot->readable, NULL) != 0)
		return ERR_NOMEM;
	return ERR_OK;
}

/* Has a new process made for the slot. */
static void
fill(struct slot *slot)
{
	enum err rc;

	rc = spawner_spawn(slot->pool->spawner, slot->index, &slot->fd);
	if (rc == ERR_OK)
		rc = watch(slot);
	if (rc == ERR_OK) {
		slot->state = SLOT_PREPARING;
		return;
	}
	log_error("sandboxd.slot", "slot=%u can't be made: %s", slot->index,
	    err_info(rc)->text);
	empty(slot);
	retry_later(slot);
}

static void
on_retry(evutil_socket_t socket, short what, void *arg)
{
	struct slot *slot = arg;

	(void)socket;
	(void)what;
	fill(slot);
	dispatch(slot->pool);
}

static struct slot *
find_slot(struct pool *pool, enum slot_state state)
{
	for (unsigned i = 0; i < pool->n_slots; i++) {
		if (pool->slots[i].job == NULL && pool->slots[i].state == state)
			return &pool->slots[i];
	}
	return NULL;
}

static void
assign(struct slot *slot, struct pool_job *job)
{
	slot->job = job;
	job->slot = slot;
	on_writable(slot->fd, EV_WRITE, slot);
}

/* Gives what waits to slots that are free: the ready ones first, then those
 * that will be ready soon. */
static void
dispatch(struct pool *pool)
{
	struct pool_job *job;
	struct slot *slot;

	while ((job = TAILQ_FIRST(&pool->queue)) != NULL) {
		if ((slot = find_slot(pool, SLOT_READY)) == NULL &&
		    (slot = find_slot(pool, SLOT_PREPARING)) == NULL)
			return;
		TAILQ_REMOVE(&pool->queue, job, entry);
		pool->queued--;
		assign(slot, job);
	}
}

enum err
pool_new(struct pool **ret_pool, struct event_base *base,
    struct spawner *spawner, unsigned slots, unsigned queue_max)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (pool == NULL)
		return ERR_NOMEM;
	TAILQ_INIT(&pool->queue);
	pool->base = base;
	pool->spawner = spawner;
	pool->queue_max = queue_max;
	if ((pool->slots = calloc(slots, sizeof(*pool->slots))) == NULL) {
		free(pool);
		return ERR_NOMEM;
	}
	for (; pool->n_slots < slots; pool->n_slots++) {
		struct slot *slot = &pool->slots[pool->n_slots];

		*slot = (struct slot){
			.pool = pool, .index = pool->n_slots, .fd = -1
		};
		slot->retry = evtimer_new(base, on_retry, slot);
		if (slot->retry == NULL) {
			pool_free(pool);
			return ERR_NOMEM;
		}
		fill(slot);
	}
	*ret_pool = pool;
	return ERR_OK;
}

void
pool_free(struct pool *pool)
{
	struct pool_job *job;

	if (pool == NULL)
		return;
	for (unsigned i = 0; i < pool->n_slots; i++) {
		empty(&pool->slots[i]);
		event_free(pool->slots[i].retry);
		job_free(pool->slots[i].job);
	}
	while ((job = TAILQ_FIRST(&pool->queue)) != NULL) {
		TAILQ_REMOVE(&pool->queue, job, entry);
		job_free(job);
	}
	free(pool->slots);
	free(pool);
}

static struct pool_job *
job_new(struct evbuffer *body, unsigned flags)
{
	struct channel_job head = { .magic = CHANNEL_MAGIC,
		.flags = flags,
		.body_len = evbuffer_get_length(body) };
	struct pool_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return NULL;
	if ((job->body = evbuffer_new()) == NULL ||
	    evbuffer_add(job->body, &head, sizeof(head)) != 0 ||
	    evbuffer_add_buffer(job->body, body) != 0) {
		job_free(job);
		return NULL;
	}
	return job;
}

static bool
is_full(struct pool *pool)
{
	return pool->queued >= pool->queue_max &&
	    find_slot(pool, SLOT_READY) == NULL &&
	    find_slot(pool, SLOT_PREPARING) == NULL;
}

enum err
pool_submit(struct pool *pool, struct evbuffer *body, unsigned flags,
    void (*done)(const struct pool_answer *answer, void *arg), void *arg,
    struct pool_job **ret_job)
{
	struct pool_job *job;

	if (is_full(pool))
		return ERR_BUSY;
	if ((job = job_new(body, flags)) == NULL)
		return ERR_NOMEM;
	job->done = done;
	job->arg = arg;
	TAILQ_INSERT_TAIL(&pool->queue, job, entry);
	pool->queued++;
	*ret_job = job;
	dispatch(pool);
	return ERR_OK;
}

void
pool_cancel(struct pool *pool, struct pool_job *job)
{
	struct slot *slot = job->slot;

	if (slot == NULL) {
		TAILQ_REMOVE(&pool->queue, job, entry);
		pool->queued--;
		job_free(job);
		return;
	}
	slot->job = NULL;
	job_free(job);
	empty(slot);
	fill(slot);
	dispatch(pool);
}

void
pool_count(const struct pool *pool, struct pool_counts *ret_counts)
{
	*ret_counts = (struct pool_counts){ .slots = pool->n_slots,
		.queued = pool->queued,
		.served = pool->served };
	for (unsigned i = 0; i < pool->n_slots; i++) {
		if (pool->slots[i].job != NULL)
			ret_counts->running++;
		else if (pool->slots[i].state == SLOT_READY)
			ret_counts->ready++;
	}
}

void
pool_renew(struct pool *pool)
{
	for (unsigned i = 0; i < pool->n_slots; i++) {
		struct slot *slot = &pool->slots[i];

		if (slot->job != NULL || slot->state == SLOT_EMPTY)
			continue;
		empty(slot);
		fill(slot);
	}
}
