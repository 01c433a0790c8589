#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sandboxd/user.h"

#define DEFAULT_USER "nobody"

enum err
user_find(struct user *user, const char *name, struct conf_fault *fault)
{
	const char *wanted = name[0] != '\0' ? name : DEFAULT_USER;
	struct passwd *pw;

	*user = (struct user){ geteuid(), getegid(), "" };
	if (geteuid() != 0) {
		snprintf(user->name, sizeof(user->name), "uid %u", geteuid());
		return ERR_OK;
	}
	errno = 0;
	if ((pw = getpwnam(wanted)) == NULL) {
		snprintf(fault->text, sizeof(fault->text),
		    "sandboxd_user: "
		    "there is no user %s: adduser --system %s, or name "
		    "another",
		    wanted, wanted);
		return ERR_CONF;
	}
	if (pw->pw_uid == 0) {
		snprintf(fault->text, sizeof(fault->text),
		    "sandboxd_user: "
		    "programs are not run as root: name another user");
		return ERR_CONF;
	}
	user->uid = pw->pw_uid;
	user->gid = pw->pw_gid;
	snprintf(user->name, sizeof(user->name), "%s", wanted);
	return ERR_OK;
}

enum err
user_become(const struct user *user)
{
	if (geteuid() == 0) {
		if (setgroups(0, NULL) != 0 ||
		    setresgid(user->gid, user->gid, user->gid) != 0 ||
		    setresuid(user->uid, user->uid, user->uid) != 0)
			return ERR_SYS;
		if (setuid(0) == 0) {
			errno = EPERM; /* it did not hold */
			return ERR_SYS;
		}
	}
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? ERR_OK : ERR_SYS;
}
