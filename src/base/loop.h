/*
 * The event loop: one thread that owns all connections, sessions and calls of
 * the process. Other threads reach it by posting tasks.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <event2/event.h>

#include "base/err.h"

struct loop;

/* Something to be done in the loop: embedded in, or the start of, what it is
 * about. */
struct task {
	struct task *next;
	void (*run)(struct task *task);
};

enum err loop_open(struct loop **ret_loop) MUST_CHECK;

/* Drops tasks not yet run. NULL is accepted. */
void loop_close(struct loop *loop);

/* Borrowed until loop_close. */
struct event_base *loop_base(const struct loop *loop);

/* Runs task->run(task) in the loop, in the order of posting. task is borrowed
 * until then. Any thread; never fails, never blocks. */
void loop_post(struct loop *loop, struct task *task);

/* Runs what was posted and not yet run, without waiting for events; for the
 * end, when the other threads are gone. */
void loop_flush(struct loop *loop);

#endif
