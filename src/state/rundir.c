/* The folder of the inboxes. Not taken from the environment: processes that a
 * web server starts must find the same one as all others of the user. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "state/table.h"

/* Whether a folder is ours and nobody else can put anything into it. The last
 * component is never followed. */
static bool
folder_ours(const char *dir, bool strict)
{
	CLEANUP_FD int fd =
	    open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    (st.st_mode & (strict ? 077 : 022)) == 0 &&
	    (st.st_mode & 0300) == 0300;
}

/* Makes a folder where it is missing. */
static bool
folder_make(const char *dir, bool strict)
{
	return (mkdir(dir, 0700) == 0 || errno == EEXIST) &&
	    folder_ours(dir, strict);
}

/* Where it may be, best first. */
static const struct place {
	const char *before;
	bool uid; /* the user's number follows */
	const char *after;
	bool make;
} places[] = {
	{ "/run/python-sandbox", false, "", false },
	{ "/run/user/", true, "/python-sandbox", true },
	{ "/dev/shm/python-sandbox-", true, "", true },
	{ "/tmp/python-sandbox-", true, "", true },
};

static bool
try_place(const struct place *place, char *ret_dir, size_t size)
{
	char uid[16] = "";

	if (place->uid)
		snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid());
	snprintf(ret_dir, size, "%s%s%s", place->before, uid, place->after);
	return place->make ? folder_make(ret_dir, true)
			   : folder_ours(ret_dir, false);
}

enum err
rundir_choose(const char *setting, char *ret_dir, size_t size)
{
	if (setting[0] != '\0') {
		snprintf(ret_dir, size, "%s", setting);
		if (folder_make(ret_dir, false))
			return ERR_OK;
		state_fault_set(
		    "run_dir %s: can't be made, belongs to "
		    "another user or others may write to it; give it to uid "
		    "%u and chmod 700 it, or set run_dir",
		    setting, (unsigned)geteuid());
		return ERR_CONF;
	}
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (try_place(&places[i], ret_dir, size))
			return ERR_OK;
	}
	state_fault_set(
	    "no folder for sockets: /dev/shm and /tmp are not "
	    "writable or hold a python-sandbox-%u of another user; set "
	    "run_dir",
	    (unsigned)geteuid());
	return ERR_CONF;
}
