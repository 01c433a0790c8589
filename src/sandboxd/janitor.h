/*
 * A process that only waits for the service to end, however it ends, and then
 * removes what would stay: the socket file and the cgroups. Started by root it
 * keeps root's rights for that, since it listens to nobody and reads nothing.
 */
#ifndef SANDBOXD_JANITOR_H
#define SANDBOXD_JANITOR_H

#include <sys/types.h>

#include "base/err.h"
#include "sandboxd/cgroup.h"
#include "sandboxd/listen.h"

struct janitor {
	pid_t pid;
	int pipe; /* closes when the service ends */
};

/* Starts it; both arguments are copied. ERR_SYS. */
enum err janitor_open(struct janitor *janitor, const struct listen *ls,
    const struct cgroup *cgroup) MUST_CHECK;

/* Lets it do its work and waits for it. All slots must have ended. */
void janitor_close(struct janitor *janitor);

#endif
