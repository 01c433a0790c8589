/*
 * The slots as the event loop sees them, and the queue in front of them. As
 * many slots as programs may run at once; each serves one request and is then
 * replaced by a fresh one, which prepares its jail while others run.
 */
#ifndef SANDBOXD_POOL_H
#define SANDBOXD_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "base/err.h"
#include "sandboxd/spawner.h"

struct pool;
struct pool_job;

/* How a job ended. */
struct pool_answer {
	enum err rc; /* ERR_OK: status and fd are valid */
	int status;
	int fd;           /* the body, a memfd; owned by the callee */
	const char *text; /* why it failed; borrowed */
};

/* Makes a pool of that many slots. base and spawner are borrowed and must
 * outlive it. */
enum err pool_new(struct pool **ret_pool, struct event_base *base,
    struct spawner *spawner, unsigned slots, unsigned queue_max) MUST_CHECK;

/* Ends all runs; their callbacks are not called. */
void pool_free(struct pool *pool);

/* Queues a job: body is moved out of its buffer, done is called once, later,
 * unless the job is cancelled. ERR_BUSY when the queue is full. */
enum err pool_submit(struct pool *pool, struct evbuffer *body, unsigned flags,
    void (*done)(const struct pool_answer *answer, void *arg), void *arg,
    struct pool_job **ret_job) MUST_CHECK;

/* Takes a job out of the queue, or kills its run. done is not called. */
void pool_cancel(struct pool *pool, struct pool_job *job);

struct pool_counts {
	unsigned slots, ready, running, queued;
	uint64_t served;
};

void pool_count(const struct pool *pool, struct pool_counts *ret_counts);

/* Replaces the slots that wait, so that their successors find what has been
 * prepared since (the font cache). */
void pool_renew(struct pool *pool);

#endif
