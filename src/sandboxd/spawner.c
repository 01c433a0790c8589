#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/channel.h"
#include "sandboxd/init_image.h"
#include "sandboxd/jail.h"
#include "sandboxd/slot.h"
#include "sandboxd/spawner.h"
#include "sandboxd/userns.h"

#define NO_PROC 1 /* status of a note: /proc can't be mounted */

/* ---- the namespace that all slots share ---- */

static enum err
make_folder(const char *base, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return mkdir(path, 0755) == 0 ? ERR_OK : ERR_SYS;
}

static enum err
write_init(const char *base)
{
	char path[PATH_MAX];
	CLEANUP_FD int fd = -1;

	snprintf(path, sizeof(path), "%s/" JAIL_INIT, base);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	if (fd < 0 ||
	    write(fd, init_image, init_image_len) != (ssize_t)init_image_len)
		return ERR_SYS;
	return ERR_OK;
}

static enum err
lay_out(const struct plan *plan, uid_t uid, gid_t gid)
{
	enum err rc;

	if ((rc = userns_settle(uid, gid)) != ERR_OK)
		return rc;
	/* bubblewrap looks its child up in /proc, by the pid that it has here */
	if (getpid() == 1 &&
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		NULL) != 0)
		return ERR_NOT_FOUND;
	if (mount("tmpfs", plan->base, "tmpfs", MS_NOSUID | MS_NODEV,
		"size=64m,nr_inodes=64,mode=0755") != 0)
		return ERR_SYS;
	if ((rc = make_folder(plan->base, JAIL_BOX)) != ERR_OK ||
	    (rc = make_folder(plan->base, JAIL_EMPTY)) != ERR_OK ||
	    (rc = make_folder(plan->base, JAIL_FONTS)) != ERR_OK)
		return rc;
	return write_init(plan->base);
}

/* ---- the process ---- */

__attribute__((noreturn)) static void
become_slot(const struct plan *plan, unsigned slot, int control, int socket,
    pid_t parent)
{
	close(socket);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	_exit(slot_main(plan, slot, control));
}

static void
fork_slot(const struct plan *plan, unsigned slot, int control, int socket)
{
	pid_t self = getpid();

	/* on failure the service sees the socket close, and tries again */
	if (fork() == 0)
		become_slot(plan, slot, control, socket, self);
	close(control);
}

static void
loop(const struct plan *plan, int socket)
{
	struct channel_spawn order;
	enum err rc;
	int fd;

	for (;;) {
		rc = channel_receive(socket, &order, sizeof(order), &fd);
		if (rc == ERR_CLOSED || rc == ERR_SYS)
			break;
		if (rc == ERR_OK && fd >= 0)
			fork_slot(plan, order.slot, fd, socket);
	}
	/* in a pid namespace our end is that of all others; else, with SIGCHLD
	 * ignored, this returns when the last child is gone */
	while (getpid() != 1 && (waitpid(-1, NULL, 0) > 0 || errno == EINTR))
		;
}

/* Nothing of the service stays open here but the socket. Signals go to the
 * service alone: a Ctrl-C reaches the whole group. */
static void
settle(int socket)
{
	syscall(SYS_close_range, 3u, (unsigned)socket - 1, 0u);
	syscall(SYS_close_range, (unsigned)socket + 1, ~0u, 0u);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	setsid();
}

__attribute__((noreturn)) static void
spawner_main(const struct plan *plan, int socket, uid_t uid, gid_t gid)
{
	struct channel_note note = { .kind = CHANNEL_READY };

	enum err rc;

	settle(socket);
	if ((rc = lay_out(plan, uid, gid)) != ERR_OK) {
		note.kind = CHANNEL_FAILED;
		note.status = rc == ERR_NOT_FOUND ? NO_PROC : 0;
		snprintf(note.text, sizeof(note.text), "user namespace: %s",
		    strerror(errno));
	}
	/* a service that died before this is seen by the socket's end */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (channel_send(socket, &note, sizeof(note), -1) == ERR_OK &&
	    note.kind == CHANNEL_READY)
		loop(plan, socket);
	_exit(0);
}

/* ---- seen from the service ---- */

void
spawner_explain(struct conf_fault *fault, const char *what)
{
	static const char cure[] =
	    "unprivileged user namespaces must be "
	    "allowed: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
	    "sysctl user.max_user_namespaces=10000, on Ubuntu also sysctl "
	    "kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor "
	    "profile for /usr/bin/bwrap, in Docker --security-opt "
	    "seccomp=unconfined, in a systemd unit no RestrictNamespaces";

	if (strstr(what, "amespace") != NULL)
		snprintf(
		    fault->text, sizeof(fault->text), "%.150s; %s", what, cure);
	else
		snprintf(fault->text, sizeof(fault->text),
		    "the jail does not start: %.400s", what);
}

static enum err
await_ready(struct spawner *spawner, struct conf_fault *fault)
{
	struct channel_note note = { .text = "" };
	int fd = -1;

	if (channel_receive(spawner->socket, &note, sizeof(note), &fd) ==
		ERR_OK &&
	    note.kind == CHANNEL_READY)
		return ERR_OK;
	spawner_explain(fault, note.text);
	return note.status == NO_PROC ? ERR_NOT_FOUND : ERR_SYS;
}

/* A fork into new namespaces. */
static pid_t
fork_into(unsigned long flags)
{
	return (pid_t)syscall(
	    SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
}

static enum err
try_open(struct spawner *spawner, const struct plan *plan, unsigned long flags,
    struct conf_fault *fault)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char text[128];
	int pair[2];
	enum err rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return ERR_SYS;
	spawner->pid = fork_into(flags);
	if (spawner->pid == 0)
		spawner_main(plan, pair[1], uid, gid);
	snprintf(text, sizeof(text), "user namespace: %s", strerror(errno));
	close(pair[1]);
	spawner->socket = pair[0];
	if (spawner->pid < 0) {
		close(pair[0]);
		spawner_explain(fault, text);
		return ERR_SYS;
	}
	if ((rc = await_ready(spawner, fault)) != ERR_OK)
		spawner_close(spawner);
	return rc;
}

enum err
spawner_open(
    struct spawner *spawner, const struct plan *plan, struct conf_fault *fault)
{
	unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS;
	enum err rc;

	rc = try_open(spawner, plan, flags | CLONE_NEWPID, fault);
	/* in a container that hides parts of /proc nobody may mount another;
	 * then jails are ended one by one */
	if (rc == ERR_NOT_FOUND)
		rc = try_open(spawner, plan, flags, fault);
	return rc;
}

enum err
spawner_spawn(struct spawner *spawner, unsigned slot, int *ret_fd)
{
	struct channel_spawn order = { .slot = slot };
	CLEANUP_FD int mine = -1;
	int pair[2];
	enum err rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return ERR_SYS;
	mine = pair[0];
	rc = channel_send(spawner->socket, &order, sizeof(order), pair[1]);
	close(pair[1]);
	if (rc != ERR_OK)
		return rc;
	if (fcntl(mine, F_SETFL, O_NONBLOCK) != 0)
		return ERR_SYS;
	*ret_fd = STEAL_FD(mine);
	return ERR_OK;
}

void
spawner_close(struct spawner *spawner)
{
	if (spawner->pid <= 0)
		return;
	close(spawner->socket);
	while (waitpid(spawner->pid, NULL, 0) < 0 && errno == EINTR)
		;
	spawner->pid = 0;
}
