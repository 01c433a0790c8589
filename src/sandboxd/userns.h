/* A user and mount namespace of one's own, without any privilege. */
#ifndef SANDBOXD_USERNS_H
#define SANDBOXD_USERNS_H

#include "base/err.h"

/* Moves the calling process, which must have one thread, into new user and
 * mount namespaces: its own user and group stay what they are, nobody else is
 * mapped, and mounts no longer reach anyone else. ERR_SYS; errno ENOSPC or
 * EPERM mean that the machine does not allow it. */
enum err userns_enter(void) MUST_CHECK;

#endif
