/*
 * The worker pool: a fixed number of threads for what takes processor time.
 * What runs there never waits for a peer.
 */
#ifndef BASE_WORKERS_H
#define BASE_WORKERS_H

#include "base/err.h"
#include "base/loop.h"

struct workers;

/* A piece of work: embedded in what it is about. */
struct work {
	struct task task;
	struct work *next;
	void (*work)(struct work *work); /* in a worker */
	void (*done)(struct work *work); /* then in the loop */
};

/* Starts the threads; all signals are blocked in them. loop is borrowed. */
enum err workers_open(struct loop *loop, unsigned threads,
    struct workers **ret_workers) MUST_CHECK;

/* Finishes all work (the done functions are posted to the loop) and ends the
 * threads. NULL is accepted. */
void workers_close(struct workers *workers);

/* Queues work, whose functions are set. Any thread; never fails. */
void workers_submit(struct workers *workers, struct work *work);

/* The same for who has no struct work: work(arg), then done(arg). Waits for
 * memory where there is none. */
void workers_offload(struct workers *workers, void (*work)(void *arg),
    void (*done)(void *arg), void *arg);

#endif
