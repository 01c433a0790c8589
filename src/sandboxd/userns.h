/* A user and mount namespace of one's own, without any privilege. */
#ifndef SANDBOXD_USERNS_H
#define SANDBOXD_USERNS_H

#include <sys/types.h>

#include "base/err.h"

/* Moves the calling process, which must have one thread, into new user and
 * mount namespaces: its own user and group stay what they are, nobody else is
 * mapped, and mounts no longer reach anyone else. ERR_SYS; errno ENOSPC or
 * EPERM mean that the machine does not allow it. */
enum err userns_enter(void) MUST_CHECK;

/* The second half of it, for a process that was cloned into such namespaces by
 * a parent of that user and group. */
enum err userns_settle(uid_t uid, gid_t gid) MUST_CHECK;

#endif
