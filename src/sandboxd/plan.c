#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/seccomp.h"
#include "sandboxd/jail.h"
#include "sandboxd/launch.h"
#include "sandboxd/plan.h"

#define BWRAP "/usr/bin/bwrap"
#define NOBODY "65534"

/* Every namespace, no capability, one session, one life. */
static const char *const isolation[] = {
	BWRAP,
	"--unshare-user",
	"--unshare-all",
	"--disable-userns",
	"--die-with-parent",
	"--new-session",
	"--cap-drop",
	"ALL",
	"--uid",
	NOBODY,
	"--gid",
	NOBODY,
	"--hostname",
	"sandbox",
	"--clearenv",
	"--seccomp",
	"4",
};

/* What Python and its libraries need of the host, read-only. Neither
 * /usr/local nor all of /usr/share: a site keeps its own things there. */
static const char *const readable[] = {
	"/usr/lib",
	"/etc/ld.so.cache",
	"/etc/alternatives",
	"/etc/fonts",
	"/etc/matplotlibrc",
	"/etc/mime.types",
	"/usr/share/fonts",
	"/usr/share/fontconfig",
	"/usr/share/zoneinfo",
	"/usr/share/mime",
	"/usr/share/matplotlib",
	"/usr/share/tcltk",
};

/* Links on a merged /usr, folders elsewhere. */
static const char *const libraries[] = { "/lib", "/lib64", "/lib32", "/libx32",
	"/usr/lib64", "/usr/lib32", "/usr/libx32" };

static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full",
	"/dev/random", "/dev/urandom" };

/* Folders of the host over which the base may lie, in our own mount
 * namespace. */
static const char *const bases[] = { "/mnt", "/media", "/srv", "/boot",
	"/tmp" };

static enum err
add(struct plan *plan, const char *arg)
{
	char *copy;

	if (plan->n_bwrap + 1 >= PLAN_ARGS_MAX)
		return ERR_LIMIT;
	if ((copy = strdup(arg)) == NULL)
		return ERR_NOMEM;
	plan->bwrap[plan->n_bwrap++] = copy;
	return ERR_OK;
}

static enum err
add3(struct plan *plan, const char *option, const char *from, const char *to)
{
	enum err rc;

	if ((rc = add(plan, option)) != ERR_OK ||
	    (rc = add(plan, from)) != ERR_OK)
		return rc;
	return add(plan, to);
}

/* Binds a part of the base. */
static enum err
add_base(
    struct plan *plan, const char *option, const char *part, const char *to)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", plan->base, part);
	return add3(plan, option, path, to);
}

static enum err
add_readable(struct plan *plan)
{
	enum err rc = ERR_OK;

	for (size_t i = 0;
	     i < sizeof(readable) / sizeof(readable[0]) && rc == ERR_OK; i++) {
		if (access(readable[i], F_OK) == 0)
			rc = add3(plan, "--ro-bind", readable[i], readable[i]);
	}
	/* a web server's own programs, with their secrets, may lie in it */
	if (rc == ERR_OK && access("/usr/lib/cgi-bin", F_OK) == 0)
		rc =
		    add_base(plan, "--ro-bind", JAIL_EMPTY, "/usr/lib/cgi-bin");
	return rc;
}

static enum err
add_library(struct plan *plan, const char *path)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) != 0)
		return ERR_OK;
	if (!S_ISLNK(st.st_mode))
		return add3(plan, "--ro-bind", path, path);
	if ((n = readlink(path, target, sizeof(target) - 1)) < 0)
		return ERR_SYS;
	target[n] = '\0';
	return add3(plan, "--symlink", target, path);
}

static enum err
add_libraries(struct plan *plan)
{
	enum err rc = ERR_OK;

	for (size_t i = 0;
	     i < sizeof(libraries) / sizeof(libraries[0]) && rc == ERR_OK; i++)
		rc = add_library(plan, libraries[i]);
	return rc;
}

static enum err
add_devices(struct plan *plan)
{
	enum err rc = ERR_OK;

	for (size_t i = 0;
	     i < sizeof(devices) / sizeof(devices[0]) && rc == ERR_OK; i++)
		rc = add3(plan, "--dev-bind", devices[i], devices[i]);
	return rc;
}

static enum err
add_own(struct plan *plan)
{
	enum err rc;

	if ((rc = add_base(plan, "--bind", JAIL_BOX "/home", "/home")) !=
		ERR_OK ||
	    (rc = add_base(plan, "--bind", JAIL_BOX "/tmp", "/tmp")) !=
		ERR_OK ||
	    (rc = add_base(plan, "--bind", JAIL_BOX "/shm", "/dev/shm")) !=
		ERR_OK ||
	    (rc = add_base(plan, "--bind", JAIL_BOX "/cache",
		 LAUNCH_MPLCONFIGDIR)) != ERR_OK ||
	    (rc = add_base(plan, "--ro-bind", JAIL_INIT, "/.init")) != ERR_OK)
		return rc;
	return add3(plan, "--chdir", "/home", "--remount-ro");
}

struct list_arg {
	struct plan *plan;
	struct conf_fault *fault;
};

/* The folder that an interpreter outside /usr/bin lives in: PREFIX/bin. */
static enum err
add_prefix(struct plan *plan, const char *real)
{
	char prefix[PATH_MAX];
	char *slash;

	snprintf(prefix, sizeof(prefix), "%s", real);
	for (int i = 0; i < 2; i++) {
		if ((slash = strrchr(prefix, '/')) == NULL || slash == prefix)
			return ERR_OK;
		*slash = '\0';
	}
	if (strcmp(prefix, "/usr") == 0)
		return ERR_OK;
	return add3(plan, "--ro-bind", prefix, prefix);
}

static enum err
add_python(const char *item, void *arg)
{
	struct list_arg *list = arg;
	struct plan *plan = list->plan;
	char real[PATH_MAX];
	enum err rc;

	if (item[0] != '/' || access(item, X_OK) != 0 ||
	    realpath(item, real) == NULL) {
		snprintf(list->fault->text, sizeof(list->fault->text),
		    "sandboxd_python: %s can't be executed: install it "
		    "(apt-get install python3) or name another",
		    item);
		return ERR_CONF;
	}
	if (plan->python[0] == '\0')
		snprintf(plan->python, sizeof(plan->python), "%s", item);
	if ((rc = add_prefix(plan, real)) != ERR_OK ||
	    (rc = add3(plan, "--ro-bind", real, real)) != ERR_OK)
		return rc;
	return strcmp(real, item) == 0 ? ERR_OK
				       : add3(plan, "--ro-bind", real, item);
}

static enum err
add_path(const char *item, void *arg)
{
	struct list_arg *list = arg;

	if (item[0] != '/' || access(item, F_OK) != 0) {
		snprintf(list->fault->text, sizeof(list->fault->text),
		    "jail_paths: %s does not exist", item);
		return ERR_CONF;
	}
	return add3(list->plan, "--ro-bind", item, item);
}

/* Whether a list of paths has one in or above dir. */
static bool
overlaps(const char *list, const char *dir)
{
	return strstr(list, dir) != NULL;
}

static enum err
choose_base(struct plan *plan, struct conf_fault *fault)
{
	const struct conf *conf = plan->conf;

	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		if (access(bases[i], F_OK) != 0 ||
		    overlaps(conf->jail_paths, bases[i]) ||
		    overlaps(conf->sandboxd_python, bases[i]))
			continue;
		plan->base = bases[i];
		return ERR_OK;
	}
	snprintf(fault->text, sizeof(fault->text),
	    "no folder to work over: "
	    "make an empty /mnt");
	return ERR_CONF;
}

static enum err
add_all(struct plan *plan, struct conf_fault *fault)
{
	struct list_arg list = { plan, fault };
	enum err rc = ERR_OK;

	for (size_t i = 0;
	     i < sizeof(isolation) / sizeof(isolation[0]) && rc == ERR_OK; i++)
		rc = add(plan, isolation[i]);
	if (rc != ERR_OK || (rc = add_readable(plan)) != ERR_OK ||
	    (rc = add_libraries(plan)) != ERR_OK ||
	    (rc = conf_each(plan->conf->sandboxd_python, add_python, &list)) !=
		ERR_OK ||
	    (rc = conf_each(plan->conf->jail_paths, add_path, &list)) !=
		ERR_OK ||
	    (rc = add_devices(plan)) != ERR_OK)
		return rc;
	/* ends with the option whose value, "/", each slot appends */
	return add_own(plan);
}

enum err
plan_make(struct plan *plan, const struct conf *conf,
    const struct cgroup *cgroup, struct conf_fault *fault)
{
	enum err rc;

	*plan = (struct plan){ .conf = conf, .cgroup = *cgroup };
	snprintf(fault->text, sizeof(fault->text), "out of memory");
	if (access(BWRAP, X_OK) != 0) {
		snprintf(fault->text, sizeof(fault->text),
		    BWRAP " is "
			  "missing: apt-get install bubblewrap");
		return ERR_CONF;
	}
	plan->bwrap = calloc(PLAN_ARGS_MAX, sizeof(*plan->bwrap));
	if (plan->bwrap == NULL)
		return ERR_NOMEM;
	if ((rc = choose_base(plan, fault)) != ERR_OK ||
	    (rc = add_all(plan, fault)) != ERR_OK)
		return rc;
	rc = filter_make(cgroup->memory, &plan->filter, &plan->filter_len);
	if (rc != ERR_OK)
		snprintf(fault->text, sizeof(fault->text),
		    "libseccomp can't "
		    "make the filter: %s",
		    strerror(errno));
	return rc;
}

void
plan_done(struct plan *plan)
{
	for (size_t i = 0; i < plan->n_bwrap; i++)
		free(plan->bwrap[i]);
	free(plan->bwrap);
	free(plan->filter);
}
