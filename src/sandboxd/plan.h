/*
 * What all jails have in common, worked out once at the start, before any
 * request: the spawner and its slots inherit it by fork and never change it.
 */
#ifndef SANDBOXD_PLAN_H
#define SANDBOXD_PLAN_H

#include <stddef.h>

#include "base/conf.h"
#include "base/err.h"
#include "sandboxd/cgroup.h"

#define PLAN_ARGS_MAX 512

struct plan {
	const struct conf *conf; /* borrowed */
	const char *base;        /* an existing folder of the host; in the
				 * spawner's own mount namespace a tmpfs of
				 * ours lies over it. Borrowed, static */
	char **bwrap;            /* owned argv of bubblewrap */
	size_t n_bwrap;
	unsigned char *filter; /* owned: the seccomp program */
	size_t filter_len;
	struct cgroup cgroup;
	char python[256]; /* the default interpreter */
};

/* Fills plan. ERR_CONF when an interpreter or bubblewrap is missing or a path
 * can't be used (*fault says which, and the cure), ERR_SYS, ERR_NOMEM. The
 * cgroup is prepared before and passed in; it is moved into the plan. */
enum err plan_make(struct plan *plan, const struct conf *conf,
    const struct cgroup *cgroup, struct conf_fault *fault) MUST_CHECK;
void plan_done(struct plan *plan);

#endif
