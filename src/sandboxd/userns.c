#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/userns.h"

static enum err
write_self(const char *path, const char *text)
{
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return ERR_SYS;
	return ERR_OK;
}

static enum err
map_self(uid_t uid, gid_t gid)
{
	char map[64];
	enum err rc;

	if ((rc = write_self("/proc/self/setgroups", "deny")) != ERR_OK)
		return rc;
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	if ((rc = write_self("/proc/self/uid_map", map)) != ERR_OK)
		return rc;
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	return write_self("/proc/self/gid_map", map);
}

enum err
userns_settle(uid_t uid, gid_t gid)
{
	enum err rc;

	/* a process that dropped its privileges can't write its own maps
	 * otherwise; /proc/self belongs to root then */
	if (prctl(PR_SET_DUMPABLE, 1) != 0)
		return ERR_SYS;
	if ((rc = map_self(uid, gid)) != ERR_OK)
		return rc;
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return ERR_SYS;
	return ERR_OK;
}

enum err
userns_enter(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return ERR_SYS;
	return userns_settle(uid, gid);
}
