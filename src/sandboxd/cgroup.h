/*
 * Memory and process limits by cgroup (v1 or v2), where we may make groups:
 * as root, or where a folder is delegated to us. One group for each slot, made
 * before the first request: joining one on demand costs up to 16 ms.
 *
 * Without any, a program is bounded by rlimits alone; see jail.h.
 */
#ifndef SANDBOXD_CGROUP_H
#define SANDBOXD_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

#define CGROUP_PATH_MAX 512
#define CGROUP_DIRS 2 /* v1: memory and pids; v2: one for both */

struct cgroup {
	enum cgroup_kind kind;
	bool memory; /* memory is bounded in sum */
	bool processes;
	unsigned n_dirs;
	unsigned slots;
	char dirs[CGROUP_DIRS][CGROUP_PATH_MAX]; /* parents of run-N */
	char moved_from[CGROUP_PATH_MAX];        /* v2: where we came from */
};

struct cgroup_limits {
	uint64_t memory; /* bytes */
	uint64_t processes;
};

/* Makes the groups of that many slots and gives them to uid and gid. Finds out
 * what is possible; where nothing is, kind is CGROUP_NONE. Removes what dead
 * services left. */
void cgroup_open(struct cgroup *cg, unsigned slots,
    const struct cgroup_limits *limits, uid_t uid, gid_t gid);

/* Removes the groups; waits a little for the last processes to be gone. */
void cgroup_close(struct cgroup *cg);

/* Descriptors through which a process of a slot joins and is watched. */
struct cgroup_slot {
	int procs[CGROUP_DIRS]; /* cgroup.procs, or -1 */
	int events;             /* where oom_kill is counted, or -1 */
	uint64_t kills;         /* its count when the slot was made */
};

void cgroup_slot_open(
    struct cgroup_slot *slot, const struct cgroup *cg, unsigned index);
void cgroup_slot_close(struct cgroup_slot *slot);

/* Moves the calling process into the slot. ERR_SYS. */
enum err cgroup_join(const struct cgroup_slot *slot) MUST_CHECK;

/* Whether the kernel ended a process of the slot for want of memory since it
 * was opened. */
bool cgroup_out_of_memory(const struct cgroup_slot *slot);

#endif
