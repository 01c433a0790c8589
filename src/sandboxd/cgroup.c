#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/cgroup.h"

#define ROOT "/sys/fs/cgroup"
#define FOLDER "python-sandbox" /* holds one folder for each service */
#define NAME_BYTES 64           /* longest name of a control file */
#define REMOVE_TRIES 1000
#define REMOVE_PAUSE_NS 10000000L

static enum err
write_file(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX + NAME_BYTES];
	CLEANUP_FD int fd = -1;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if ((fd = open(path, O_WRONLY | O_CLOEXEC)) < 0)
		return ERR_SYS;
	if (write(fd, text, strlen(text)) < 0)
		return ERR_SYS;
	return ERR_OK;
}

static enum err
write_number(const char *dir, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return write_file(dir, name, text);
}

/* The path of this process in a v1 hierarchy (by its controller) or in v2
 * (controller ""). */
static enum err
own_path(const char *controller, char *ret_path, size_t size)
{
	CLEANUP_FILE FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX + 64];
	size_t n = strlen(controller);

	if (f == NULL)
		return ERR_SYS;
	while (fgets(line, sizeof(line), f) != NULL) {
		char *names = strchr(line, ':');
		char *path = names != NULL ? strchr(names + 1, ':') : NULL;

		if (path == NULL)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (strlen(names + 1) != n ||
		    memcmp(names + 1, controller, n) != 0)
			continue;
		if (strlen(path) >= size)
			return ERR_LIMIT;
		memcpy(ret_path, path, strlen(path) + 1);
		return ERR_OK;
	}
	return ERR_NOT_FOUND;
}

static enum err
make_dir(const char *path, uid_t uid, gid_t gid)
{
	if (mkdir(path, 0755) != 0 && errno != EEXIST)
		return ERR_SYS;
	if (geteuid() == 0 && chown(path, uid, gid) != 0)
		return ERR_SYS;
	return ERR_OK;
}

/* Removes a service's folder with its groups, if nothing lives in them. */
static bool
remove_service(const char *dir)
{
	CLEANUP_DIR DIR *d = opendir(dir);
	char path[PATH_MAX];
	struct dirent *e;

	if (d == NULL)
		return true;
	while ((e = readdir(d)) != NULL) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		rmdir(path);
	}
	return rmdir(dir) == 0;
}

/* Removes the folders of services that are gone. */
static void
sweep(const char *parent)
{
	CLEANUP_DIR DIR *d = opendir(parent);
	char path[PATH_MAX];
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		long pid = strtol(e->d_name, NULL, 10);

		if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), "%s/%s", parent, e->d_name);
		remove_service(path);
	}
}

/* A control file that a member of the slot must be able to write. */
static void
give(const char *dir, const char *name, uid_t uid, gid_t gid)
{
	char path[PATH_MAX + NAME_BYTES];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (geteuid() == 0 && chown(path, uid, gid) != 0)
		return; /* the first join will tell */
}

static enum err
set_memory(const struct cgroup *cg, const char *dir, uint64_t bytes)
{
	enum err rc;

	if (cg->kind == CGROUP_V2) {
		rc = write_number(dir, "memory.max", bytes);
		/* not there without swap accounting */
		if (rc == ERR_OK &&
		    write_file(dir, "memory.swap.max", "0") != ERR_OK)
			return ERR_OK;
		return rc;
	}
	rc = write_number(dir, "memory.limit_in_bytes", bytes);
	if (rc == ERR_OK &&
	    write_number(dir, "memory.memsw.limit_in_bytes", bytes) != ERR_OK)
		return ERR_OK;
	return rc;
}

static enum err
make_run(struct cgroup *cg, unsigned dir, unsigned slot,
    const struct cgroup_limits *limits, uid_t uid, gid_t gid)
{
	bool memory =
	    cg->kind == CGROUP_V2 ? cg->memory : cg->memory && dir == 0;
	bool processes = cg->kind == CGROUP_V2 ? cg->processes : !memory;
	char path[PATH_MAX];
	enum err rc;

	snprintf(path, sizeof(path), "%s/run-%u", cg->dirs[dir], slot);
	if ((rc = make_dir(path, uid, gid)) != ERR_OK)
		return rc;
	give(path, "cgroup.procs", uid, gid);
	if (memory && (rc = set_memory(cg, path, limits->memory)) != ERR_OK)
		return rc;
	if (processes)
		return write_number(path, "pids.max", limits->processes);
	return ERR_OK;
}

static enum err
make_runs(struct cgroup *cg, unsigned slots, const struct cgroup_limits *limits,
    uid_t uid, gid_t gid)
{
	enum err rc = ERR_OK;

	cg->slots = slots;
	for (unsigned d = 0; d < cg->n_dirs; d++) {
		for (unsigned i = 0; i < slots && rc == ERR_OK; i++)
			rc = make_run(cg, d, i, limits, uid, gid);
	}
	return rc;
}

/* Makes PARENT/python-sandbox/PID, and gives only the latter away: services of
 * several users share the former. */
static enum err
make_service(struct cgroup *cg, const char *parent, uid_t uid, gid_t gid)
{
	char *dir = cg->dirs[cg->n_dirs];
	char folder[CGROUP_PATH_MAX];
	enum err rc;

	if (strlen(parent) + sizeof(FOLDER) + 32 > sizeof(folder))
		return ERR_LIMIT;
	snprintf(folder, sizeof(folder), "%s/" FOLDER,
	    strcmp(parent, "/") == 0 ? "" : parent);
	if ((rc = make_dir(folder, geteuid(), getegid())) != ERR_OK)
		return rc;
	sweep(folder);
	snprintf(dir, CGROUP_PATH_MAX, "%.*s/%ld", CGROUP_PATH_MAX - 32, folder,
	    (long)getpid());
	if ((rc = make_dir(dir, uid, gid)) != ERR_OK)
		return rc;
	cg->n_dirs++;
	return ERR_OK;
}

static enum err
open_v1(struct cgroup *cg, const char *controller, uid_t uid, gid_t gid)
{
	char own[CGROUP_PATH_MAX - 64], parent[CGROUP_PATH_MAX];
	enum err rc;

	if ((rc = own_path(controller, own, sizeof(own))) != ERR_OK)
		return rc;
	snprintf(parent, sizeof(parent), ROOT "/%s%s", controller,
	    strcmp(own, "/") == 0 ? "" : own);
	return make_service(cg, parent, uid, gid);
}

/* In v2 a group with controllers for its children may hold no process itself,
 * so we move into a leaf of our own first. */
static enum err
open_v2(struct cgroup *cg, uid_t uid, gid_t gid)
{
	char own[CGROUP_PATH_MAX - 64], leaf[PATH_MAX];
	enum err rc;

	if ((rc = own_path("", own, sizeof(own))) != ERR_OK)
		return rc;
	snprintf(cg->moved_from, sizeof(cg->moved_from), ROOT "%s",
	    strcmp(own, "/") == 0 ? "" : own);
	if (access(ROOT "/cgroup.controllers", R_OK) != 0)
		return ERR_NOT_FOUND;
	if ((rc = make_service(cg, cg->moved_from, uid, gid)) != ERR_OK)
		return rc;
	snprintf(leaf, sizeof(leaf), "%s/service", cg->dirs[0]);
	if ((rc = make_dir(leaf, uid, gid)) != ERR_OK ||
	    (rc = write_file(leaf, "cgroup.procs", "0")) != ERR_OK)
		return rc;
	give(cg->dirs[0], "cgroup.procs", uid, gid);
	give(leaf, "cgroup.procs", uid, gid);
	snprintf(leaf, sizeof(leaf), "%.*s",
	    (int)(strrchr(cg->dirs[0], '/') - cg->dirs[0]), cg->dirs[0]);
	/* each level hands its controllers on; the upper ones may have it
	 * already, and the last one tells whether it worked */
	if (write_file(cg->moved_from, "cgroup.subtree_control",
		"+memory +pids") != ERR_OK ||
	    write_file(leaf, "cgroup.subtree_control", "+memory +pids") !=
		ERR_OK)
		errno = 0;
	return write_file(
	    cg->dirs[0], "cgroup.subtree_control", "+memory +pids");
}

static enum err
try_v1(struct cgroup *cg, unsigned slots, const struct cgroup_limits *limits,
    uid_t uid, gid_t gid)
{
	enum err rc;

	cg->kind = CGROUP_V1;
	cg->memory = open_v1(cg, "memory", uid, gid) == ERR_OK;
	cg->processes = open_v1(cg, "pids", uid, gid) == ERR_OK;
	if (!cg->memory && !cg->processes)
		return ERR_NOT_FOUND;
	rc = make_runs(cg, slots, limits, uid, gid);
	if (rc != ERR_OK)
		cgroup_close(cg);
	return rc;
}

static enum err
try_v2(struct cgroup *cg, unsigned slots, const struct cgroup_limits *limits,
    uid_t uid, gid_t gid)
{
	enum err rc;

	cg->kind = CGROUP_V2;
	cg->memory = cg->processes = true;
	if ((rc = open_v2(cg, uid, gid)) == ERR_OK)
		rc = make_runs(cg, slots, limits, uid, gid);
	if (rc != ERR_OK)
		cgroup_close(cg);
	return rc;
}

void
cgroup_open(struct cgroup *cg, unsigned slots,
    const struct cgroup_limits *limits, uid_t uid, gid_t gid)
{
	*cg = (struct cgroup){ .kind = CGROUP_NONE };
	if (try_v2(cg, slots, limits, uid, gid) == ERR_OK)
		return;
	*cg = (struct cgroup){ .kind = CGROUP_NONE };
	if (try_v1(cg, slots, limits, uid, gid) == ERR_OK)
		return;
	*cg = (struct cgroup){ .kind = CGROUP_NONE };
}

void
cgroup_close(struct cgroup *cg)
{
	struct timespec pause = { 0, REMOVE_PAUSE_NS };

	if (cg->kind == CGROUP_V2 && cg->n_dirs > 0 &&
	    write_file(cg->moved_from, "cgroup.procs", "0") != ERR_OK)
		errno = 0; /* the folder then stays for the next sweep */
	for (unsigned d = 0; d < cg->n_dirs; d++) {
		for (int i = 0; i < REMOVE_TRIES; i++) {
			if (remove_service(cg->dirs[d]))
				break;
			nanosleep(&pause, NULL);
		}
		*strrchr(cg->dirs[d], '/') = '\0';
		rmdir(cg->dirs[d]); /* stays while others use it */
	}
	cg->n_dirs = 0;
	cg->kind = CGROUP_NONE;
}

static uint64_t
kills(int fd)
{
	char text[1024];
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;
	char *found;

	if (n < 0)
		return 0;
	text[n] = '\0';
	if ((found = strstr(text, "oom_kill ")) == NULL)
		return 0;
	return strtoull(found + sizeof("oom_kill ") - 1, NULL, 10);
}

static int
open_in(const struct cgroup *cg, unsigned dir, unsigned index, const char *name,
    int flags)
{
	char path[PATH_MAX];

	snprintf(
	    path, sizeof(path), "%s/run-%u/%s", cg->dirs[dir], index, name);
	return open(path, flags | O_CLOEXEC);
}

void
cgroup_slot_open(
    struct cgroup_slot *slot, const struct cgroup *cg, unsigned index)
{
	*slot = (struct cgroup_slot){ .procs = { -1, -1 }, .events = -1 };
	for (unsigned d = 0; d < cg->n_dirs; d++)
		slot->procs[d] =
		    open_in(cg, d, index, "cgroup.procs", O_WRONLY);
	if (cg->memory)
		slot->events = open_in(cg, 0, index,
		    cg->kind == CGROUP_V2 ? "memory.events"
					  : "memory.oom_control",
		    O_RDONLY);
	slot->kills = kills(slot->events);
}

void
cgroup_slot_close(struct cgroup_slot *slot)
{
	for (unsigned d = 0; d < CGROUP_DIRS; d++) {
		if (slot->procs[d] >= 0)
			close(slot->procs[d]);
	}
	if (slot->events >= 0)
		close(slot->events);
}

enum err
cgroup_join(const struct cgroup_slot *slot)
{
	for (unsigned d = 0; d < CGROUP_DIRS; d++) {
		if (slot->procs[d] >= 0 && write(slot->procs[d], "0", 1) != 1)
			return ERR_SYS;
	}
	return ERR_OK;
}

bool
cgroup_out_of_memory(const struct cgroup_slot *slot)
{
	return kills(slot->events) > slot->kills;
}
