/*
 * One jail: bubblewrap around the waiting init, used for one program and
 * thrown away. jail.c and plan.c are the only files that know bubblewrap.
 *
 * Bounds: the cgroup where there is one, for memory and processes in sum; and
 * rlimits always. Without a cgroup the address space of each process is
 * bounded, not their sum, and the filter refuses memory that no rlimit counts
 * (memfd_create, System V shared memory and queues; multiprocessing uses
 * /dev/shm, which is part of the bounded tmpfs).
 */
#ifndef SANDBOXD_JAIL_H
#define SANDBOXD_JAIL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "sandboxd/cgroup.h"
#include "sandboxd/plan.h"
#include "sandboxd/request.h"

/* Folders of the base that the spawner lays out (PLAN_BASE/…). */
#define JAIL_BOX "box" /* where each slot mounts its tmpfs */
#define JAIL_EMPTY "empty"
#define JAIL_FONTS "fonts" /* the font cache, when it has been made */
#define JAIL_INIT "init"

struct jail {
	pid_t pid;        /* bwrap, or 0 */
	int pidfd;        /* of it */
	int home;         /* the program's /home */
	int cache;        /* its matplotlib folder */
	int launch;       /* socket to the init */
	int in, out, err; /* our ends of the program's 0, 1 and 2 */
	struct cgroup_slot cgroup;
};

/* Builds a jail and waits until its init stands. On failure ERR_SYS and why,
 * in bubblewrap's words, is appended to text. The calling process must have
 * one thread and be a subreaper. */
enum err jail_prepare(struct jail *jail, const struct plan *plan, unsigned slot,
    struct buf *text) MUST_CHECK;

/* Starts the program. ERR_SYS when the jail is gone. */
enum err jail_launch(struct jail *jail, const struct plan *plan,
    const struct request *req) MUST_CHECK;

/* Ends everything in the jail, if it has not ended by itself, and waits until
 * no process of it exists any more. Returns bwrap's wait status. */
int jail_reap(struct jail *jail, bool kill_it);

/* The errno with which the interpreter could not be executed, or 0. To be
 * asked after jail_reap. */
int jail_exec_error(const struct jail *jail);

#endif
