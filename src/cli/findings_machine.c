/* What the sandbox needs of the machine, and the web servers that are there. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/findings.h"

#define NOBODY 65534
#define MORE_PATH "/usr/sbin:/sbin:/usr/local/sbin:/usr/bin"

/* ---- programs ---- */

/* Finds a program in the folders of a list with colons. */
static bool
find_in(const char *list, const char *name, char *ret_path, size_t size)
{
	CLEANUP_FREE char *copy = strdup(list);
	char *save = NULL;

	for (char *dir = copy != NULL ? strtok_r(copy, ":", &save) : NULL;
	     dir != NULL; dir = strtok_r(NULL, ":", &save)) {
		snprintf(ret_path, size, "%s/%s", dir, name);
		if (access(ret_path, X_OK) == 0)
			return true;
	}
	return false;
}

static bool
find_program(const char *name, char *ret_path, size_t size)
{
	const char *path = getenv("PATH");

	return (path != NULL && find_in(path, name, ret_path, size)) ||
	    find_in(MORE_PATH, name, ret_path, size);
}

static void
look_bubblewrap(struct findings *findings)
{
	char path[512];

	if (find_program("bwrap", path, sizeof(path)))
		findings_add(
		    findings, "bubblewrap", FINDING_OK, NULL, "%s", path);
	else
		findings_add(findings, "bubblewrap", FINDING_FAULT,
		    "apt-get install bubblewrap", "not found");
}

/* ---- user namespaces ---- */

/* A number below /proc/sys, or other when there is none. */
static long
kernel_setting(const char *name, long other)
{
	char path[128], text[32];
	CLEANUP_FILE FILE *file = NULL;

	snprintf(path, sizeof(path), "/proc/sys/%s", name);
	file = fopen(path, "re");
	if (file == NULL || fgets(text, sizeof(text), file) == NULL)
		return other;
	return strtol(text, NULL, 10);
}

static const char *
userns_cure(void)
{
	if (kernel_setting("kernel/unprivileged_userns_clone", 1) == 0)
		return "sysctl -w kernel.unprivileged_userns_clone=1";
	if (kernel_setting("user/max_user_namespaces", 1) == 0)
		return "sysctl -w user.max_user_namespaces=15000";
	if (kernel_setting("kernel/apparmor_restrict_unprivileged_userns", 0) ==
	    1)
		return "sysctl -w "
		       "kernel.apparmor_restrict_unprivileged_userns=0, or an "
		       "AppArmor profile with userns for sandboxd and bwrap";
	return "in a container: let it make user namespaces (Docker: "
	       "--security-opt seccomp=unconfined), or use a Snekbox "
	       "(snekbox_url)";
}

/* Tries it, as sandboxd does: without root's rights. */
static bool
can_make_userns(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) != 0)
			_exit(1);
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid &&
	    WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void
look_userns(struct findings *findings)
{
	if (can_make_userns())
		findings_add(findings, "user namespaces", FINDING_OK, NULL,
		    "can be made without privileges");
	else
		findings_add(findings, "user namespaces", FINDING_FAULT,
		    userns_cure(), "can't be made without privileges");
}

/* ---- cgroups ---- */

static void
look_cgroup(struct findings *findings)
{
	bool v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
	bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;
	const char *top = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";

	if (!v1 && !v2)
		findings_add(findings, "cgroups", FINDING_WARNING,
		    "mount /sys/fs/cgroup; without it memory is bounded for "
		    "each process of a program, not for their sum",
		    "none are mounted");
	else if (access(top, W_OK) != 0)
		findings_add(findings, "cgroups", FINDING_WARNING,
		    "start sandboxd as root or by systemd with Delegate=yes; "
		    "without it memory is bounded for each process of a "
		    "program, not for their sum",
		    "version %d, but the top one is not ours to write",
		    v2 ? 2 : 1);
	else
		findings_add(findings, "cgroups", FINDING_OK, NULL,
		    "version %d, writable", v2 ? 2 : 1);
}

void
findings_machine(struct findings *findings)
{
	look_bubblewrap(findings);
	look_userns(findings);
	look_cgroup(findings);
}

/* ---- web servers ---- */

static const struct {
	const char *program, *hint;
} servers[] = {
	{ "lighttpd", "lighttpd.conf.example starts the program itself" },
	{ "apache2", "apache.conf.example, with mod_proxy_fcgi" },
	{ "nginx", "fastcgi_pass with fastcgi_buffering off" },
};

void
findings_web(struct findings *findings)
{
	char path[512];
	bool any = false;

	for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
		if (!find_program(servers[i].program, path, sizeof(path)))
			continue;
		any = true;
		findings_add(findings, "web server", FINDING_OK, NULL, "%s: %s",
		    path, servers[i].hint);
	}
	if (!any)
		findings_add(findings, "web server", FINDING_WARNING,
		    "apt-get install lighttpd, for clients over HTTP; stdio "
		    "and run need none",
		    "none found");
}
