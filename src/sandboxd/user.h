/* Whom the service becomes. */
#ifndef SANDBOXD_USER_H
#define SANDBOXD_USER_H

#include <sys/types.h>

#include "base/conf.h"
#include "base/err.h"

struct user {
	uid_t uid;
	gid_t gid;
	char name[65];
};

/* Started by root: the user of that name, "nobody" when it is empty; never
 * root. Else whoever we are. ERR_CONF, *fault says why. */
enum err user_find(
    struct user *user, const char *name, struct conf_fault *fault) MUST_CHECK;

/* Becomes that user for good, when we are root. ERR_SYS. */
enum err user_become(const struct user *user) MUST_CHECK;

#endif
