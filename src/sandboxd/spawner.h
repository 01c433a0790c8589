/*
 * A process with one thread, made before the service has any state: it forks
 * the slots. It is the first process of a pid namespace, so that with it, and
 * it dies with the service, the kernel ends every slot and jail at whatever
 * stage (bubblewrap's --die-with-parent alone leaves its second process behind
 * when the first is killed early). In its mount namespace a tmpfs of ours lies
 * over plan->base, so nothing stays on the host's disk either.
 */
#ifndef SANDBOXD_SPAWNER_H
#define SANDBOXD_SPAWNER_H

#include <sys/types.h>

#include "base/err.h"
#include "sandboxd/plan.h"

struct spawner {
	pid_t pid;
	int socket;
};

/* Starts it. ERR_SYS when it can't work here: *fault says why, and the
 * cure. */
enum err spawner_open(struct spawner *spawner, const struct plan *plan,
    struct conf_fault *fault) MUST_CHECK;

/* Asks for a slot; *ret_fd is its control socket (owned, non-blocking). */
enum err
spawner_spawn(struct spawner *spawner, unsigned slot, int *ret_fd) MUST_CHECK;

/* Ends it and waits until all slots are gone, whose control sockets must be
 * closed by then. */
void spawner_close(struct spawner *spawner);

/* Turns what went wrong with a jail into a sentence that names the cure. */
void spawner_explain(struct conf_fault *fault, const char *what);

#endif
