#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/jail.h"
#include "sandboxd/launch.h"
#include "sandboxd/userns.h"

#define PREPARE_MS 20000
#define TAIL_ARGS 8 /* what a slot appends to the plan's argv */
#define MESSAGE_MAX 1000
#define FILE_MARGIN (1u << 20)
/* bwrap, the first process of the jail and the init's wait are not the
 * program's */
#define OWN_PROCESSES 2

enum { LOCAL, REMOTE }; /* the two ends of a pair */

struct ends {
	int launch[2], in[2], out[2], err[2];
	int filter;
};

/* ---- the folder that a program may write to ---- */

static enum err
make_dir(int box, const char *name, mode_t mode, int *ret_fd)
{
	if (mkdirat(box, name, 0700) != 0 || fchmodat(box, name, mode, 0) != 0)
		return ERR_SYS;
	if (ret_fd == NULL)
		return ERR_OK;
	*ret_fd = openat(box, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? ERR_SYS : ERR_OK;
}

static enum err
fill_box(struct jail *jail, const char *path)
{
	CLEANUP_FD int box = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	enum err rc;

	if (box < 0)
		return ERR_SYS;
	if ((rc = make_dir(box, "home", 0777, &jail->home)) != ERR_OK ||
	    (rc = make_dir(box, "cache", 0755, &jail->cache)) != ERR_OK ||
	    (rc = make_dir(box, "tmp", 01777, NULL)) != ERR_OK)
		return rc;
	return make_dir(box, "shm", 01777, NULL);
}

/* One tmpfs for everything, so that one size and one number of inodes bound
 * it. It goes with this process's mount namespace. */
static enum err
mount_box(struct jail *jail, const struct plan *plan)
{
	const struct conf *conf = plan->conf;
	char box[PATH_MAX], options[128];

	snprintf(box, sizeof(box), "%s/" JAIL_BOX, plan->base);
	snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu,mode=0755",
	    (unsigned long long)conf->jail_disk,
	    (unsigned long long)conf->jail_inodes);
	if (mount("tmpfs", box, "tmpfs", MS_NOSUID | MS_NODEV, options) != 0)
		return ERR_SYS;
	return fill_box(jail, box);
}

/* ---- starting bubblewrap ---- */

static void
close_pair(int pair[2])
{
	for (int i = 0; i < 2; i++) {
		if (pair[i] >= 0)
			close(pair[i]);
		pair[i] = -1;
	}
}

static void
close_ends(struct ends *ends)
{
	close_pair(ends->launch);
	close_pair(ends->in);
	close_pair(ends->out);
	close_pair(ends->err);
	if (ends->filter >= 0)
		close(ends->filter);
}

static enum err
make_pipe(int pair[2], int local)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return ERR_SYS;
	pair[LOCAL] = fds[local];
	pair[REMOTE] = fds[!local];
	return fcntl(pair[LOCAL], F_SETFL, O_NONBLOCK) == 0 ? ERR_OK : ERR_SYS;
}

/* The filter goes in by a pipe, which holds it whole. */
static enum err
make_filter(struct ends *ends, const struct plan *plan)
{
	CLEANUP_FD int out = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return ERR_SYS;
	ends->filter = fds[0];
	out = fds[1];
	return write(out, plan->filter, plan->filter_len) ==
		(ssize_t)plan->filter_len
	    ? ERR_OK
	    : ERR_SYS;
}

static enum err
make_ends(struct ends *ends, const struct plan *plan)
{
	enum err rc;

	*ends =
	    (struct ends){ { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 }, -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->launch) !=
	    0)
		return ERR_SYS;
	if ((rc = make_pipe(ends->in, 1)) != ERR_OK ||
	    (rc = make_pipe(ends->out, 0)) != ERR_OK ||
	    (rc = make_pipe(ends->err, 0)) != ERR_OK)
		return rc;
	return make_filter(ends, plan);
}

/* The font cache that was made at the start, if it is there by now. */
static size_t
add_fonts(
    const char **argv, size_t n, const struct plan *plan, char *from, char *to)
{
	CLEANUP_DIR DIR *d = NULL;
	struct dirent *e;

	snprintf(from, PATH_MAX, "%s/" JAIL_FONTS, plan->base);
	if ((d = opendir(from)) == NULL)
		return n;
	while ((e = readdir(d)) != NULL && e->d_name[0] != 'f')
		;
	if (e == NULL)
		return n;
	snprintf(from, PATH_MAX, "%s/" JAIL_FONTS "/%s", plan->base, e->d_name);
	snprintf(to, PATH_MAX, LAUNCH_MPLCONFIGDIR "/%s", e->d_name);
	argv[n++] = "--ro-bind";
	argv[n++] = from;
	argv[n++] = to;
	return n;
}

/* Only the numbers that jail and init know stay open. */
static enum err
place_descriptors(const struct ends *ends)
{
	const int from[] = { ends->in[REMOTE], ends->out[REMOTE],
		ends->err[REMOTE], ends->launch[REMOTE], ends->filter };
	int high[5];

	/* out of the way first: a source may be another's target */
	for (int i = 0; i < 5; i++) {
		if ((high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16)) < 0)
			return ERR_SYS;
	}
	for (int i = 0; i < 5; i++) {
		if (dup2(high[i], i) < 0)
			return ERR_SYS;
	}
	if (syscall(SYS_close_range, 5u, ~0u, 0u) != 0)
		return ERR_SYS;
	return ERR_OK;
}

/* In the child: joins the slot's cgroup and becomes bwrap, with an empty
 * environment (bwrap's own is readable where /proc is). */
__attribute__((noreturn)) static void
become_bwrap(
    const struct jail *jail, const struct plan *plan, const struct ends *ends)
{
	static char *const nothing[] = { NULL };
	const char *argv[PLAN_ARGS_MAX + TAIL_ARGS];
	char from[PATH_MAX], to[PATH_MAX];
	size_t n = plan->n_bwrap;

	memcpy(argv, plan->bwrap, n * sizeof(*argv));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cgroup_join(&jail->cgroup) != ERR_OK) {
		dprintf(ends->err[REMOTE], "can't join the cgroup: %s",
		    strerror(errno));
		_exit(127);
	}
	argv[n++] = "/";
	n = add_fonts(argv, n, plan, from, to);
	argv[n++] = "--";
	argv[n++] = "/.init";
	argv[n] = NULL;
	if (place_descriptors(ends) == ERR_OK)
		execve(argv[0], (char *const *)argv, nothing);
	dprintf(
	    STDERR_FILENO, "can't execute %s: %s", argv[0], strerror(errno));
	_exit(127);
}

static enum err
start(struct jail *jail, const struct plan *plan, struct ends *ends)
{
	if ((jail->pid = fork()) < 0)
		return ERR_SYS;
	if (jail->pid == 0)
		become_bwrap(jail, plan, ends);
	jail->pidfd = (int)syscall(SYS_pidfd_open, jail->pid, 0);
	jail->launch = STEAL_FD(ends->launch[LOCAL]);
	jail->in = STEAL_FD(ends->in[LOCAL]);
	jail->out = STEAL_FD(ends->out[LOCAL]);
	jail->err = STEAL_FD(ends->err[LOCAL]);
	close_ends(ends);
	return jail->pidfd < 0 ? ERR_SYS : ERR_OK;
}

/* Waits for the init's byte. What bwrap has to say instead goes to text. */
static enum err
await_ready(struct jail *jail, struct buf *text)
{
	struct pollfd fds[] = { { jail->launch, POLLIN, 0 },
		{ jail->pidfd, POLLIN, 0 } };
	char message[MESSAGE_MAX], ready;
	ssize_t n;

	if (poll(fds, 2, PREPARE_MS) > 0 && fds[0].revents != 0 &&
	    read(jail->launch, &ready, 1) == 1)
		return ERR_OK;
	jail_reap(jail, true);
	n = read(jail->err, message, sizeof(message));
	while (n > 0 && (message[n - 1] == '\n' || message[n - 1] == '\0'))
		n--;
	if (n <= 0)
		return buf_puts(text, "the jail did not start") == ERR_OK
		    ? ERR_SYS
		    : ERR_NOMEM;
	return buf_append(text, message, (size_t)n) == ERR_OK ? ERR_SYS
							      : ERR_NOMEM;
}

/* Steps before there is a bwrap that could speak. */
static enum err
prepare(struct jail *jail, const struct plan *plan, unsigned slot,
    struct ends *ends, const char **ret_step)
{
	enum err rc;

	*ret_step = "user namespace";
	cgroup_slot_open(&jail->cgroup, &plan->cgroup, slot);
	if ((rc = userns_enter()) != ERR_OK)
		return rc;
	/* again: the change of credentials has cleared it */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	*ret_step = "tmpfs";
	if ((rc = mount_box(jail, plan)) != ERR_OK)
		return rc;
	*ret_step = "pipes";
	if ((rc = make_ends(ends, plan)) != ERR_OK)
		return rc;
	*ret_step = "fork";
	return start(jail, plan, ends);
}

enum err
jail_prepare(
    struct jail *jail, const struct plan *plan, unsigned slot, struct buf *text)
{
	struct ends ends = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 },
		-1 };
	const char *step;

	*jail = (struct jail){ .pidfd = -1,
		.home = -1,
		.cache = -1,
		.launch = -1,
		.in = -1,
		.out = -1,
		.err = -1 };
	if (prepare(jail, plan, slot, &ends, &step) == ERR_OK)
		return await_ready(jail, text);
	if (buf_printf(text, "%s: %s", step, strerror(errno)) != ERR_OK)
		return ERR_NOMEM;
	return ERR_SYS;
}

/* ---- the program ---- */

static enum err
send_all(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return ERR_SYS;
		p += sent;
		n -= (size_t)sent;
	}
	return ERR_OK;
}

/* With a cgroup, memory is bounded by it, and the address space (which counts
 * much that is never used) may be twice as large; else it is the bound. */
static uint64_t
address_space(const struct plan *plan)
{
	uint64_t memory = plan->conf->jail_memory;

	return plan->cgroup.memory ? memory * 2 : memory;
}

enum err
jail_launch(
    struct jail *jail, const struct plan *plan, const struct request *req)
{
	struct launch_head head = { .magic = LAUNCH_MAGIC };
	struct buf args;
	enum err rc = ERR_OK;

	buf_init(&args, LAUNCH_ARGS_MAX);
	for (size_t i = 0; i < req->n_args && rc == ERR_OK; i++)
		rc = buf_append(&args, req->args[i], strlen(req->args[i]) + 1);
	head.merge_stderr = !req->split_stderr;
	head.n_args = (uint32_t)req->n_args;
	head.bytes = (uint32_t)args.len;
	head.address_space = address_space(plan);
	head.processes = plan->conf->jail_processes + OWN_PROCESSES;
	head.descriptors = plan->conf->jail_descriptors;
	/* so that a full disk is what a program meets, and not this */
	head.file_size = plan->conf->jail_disk + FILE_MARGIN;
	if (rc == ERR_OK)
		rc = send_all(jail->launch, &head, sizeof(head));
	if (rc == ERR_OK)
		rc = send_all(jail->launch, args.data, args.len);
	buf_done(&args);
	return rc;
}

/* Where a bwrap is killed while it builds, its second process can be left
 * waiting for it for ever; it is ours then. */
static void
kill_orphans(void)
{
	CLEANUP_FD int fd = open("/proc/thread-self/children", O_RDONLY);
	char text[4096], *at = text, *end;
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	long pid;

	text[n > 0 ? n : 0] = '\0';
	while ((pid = strtol(at, &end, 10)) > 1 && end != at) {
		kill((pid_t)pid, SIGKILL);
		at = end;
	}
}

int
jail_reap(struct jail *jail, bool kill_it)
{
	int status = 0, result = 0;
	pid_t pid;

	if (jail->pid <= 0)
		return 0;
	if (kill_it)
		kill(jail->pid, SIGKILL);
	/* bwrap may end before the first process of the jail does; that one is
	 * then handed to us, and its end is the end of all others */
	while ((pid = waitpid(-1, &status, 0)) > 0 || errno == EINTR) {
		if (pid != jail->pid)
			continue;
		result = status;
		kill_orphans();
	}
	jail->pid = 0;
	return result;
}

int
jail_exec_error(const struct jail *jail)
{
	int32_t code;

	if (recv(jail->launch, &code, sizeof(code), MSG_DONTWAIT) !=
	    (ssize_t)sizeof(code))
		return 0;
	return code;
}
