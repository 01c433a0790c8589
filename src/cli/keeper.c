#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/keeper.h"

#define PREFIX "python-sandbox-"
#define SOCKET "/sandboxd.sock"
#define READY_MS 20000
#define LOOK_MS 10
#define END_MS 5000 /* sandboxd has so long after SIGTERM */
#define STALE_S 60

enum { FD_PIPE = 3, FD_SETTINGS = 4 };

/* ---- the folder ---- */

/* Folders that a killed machine or keeper left empty; only empty ones can be
 * removed so, and a fresh one is let be. */
static void
sweep(const char *top)
{
	CLEANUP_DIR DIR *dir = opendir(top);
	struct dirent *entry;
	struct stat st;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
		    fstatat(dirfd(dir), entry->d_name, &st,
			AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
		    st.st_mtime + STALE_S < time(NULL))
			(void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
}

static enum err
make_folder(struct keeper *keeper, struct conf_fault *fault)
{
	const char *top = getenv("TMPDIR");

	/* the path of a socket is short */
	if (top == NULL || top[0] != '/' ||
	    strlen(top) + sizeof("/" PREFIX "XXXXXX") > KEEPER_FOLDER_MAX)
		top = "/tmp";
	sweep(top);
	snprintf(
	    keeper->folder, sizeof(keeper->folder), "%s/" PREFIX "XXXXXX", top);
	if (mkdtemp(keeper->folder) != NULL)
		return ERR_OK;
	snprintf(fault->text, sizeof(fault->text),
	    "%s: %m (TMPDIR names the folder for it)", keeper->folder);
	keeper->folder[0] = '\0';
	return ERR_SYS;
}

/* ---- sandboxd, in the child's child ---- */

/* The settings as a file that nobody has to remove. */
static int
settings_file(const struct conf *conf)
{
	CLEANUP_FD int fd = memfd_create("settings", MFD_CLOEXEC);
	CLEANUP_FILE FILE *file = NULL;
	int copy;

	if (fd < 0 || (copy = dup(fd)) < 0)
		return -1;
	if ((file = fdopen(copy, "w")) == NULL) {
		close(copy);
		return -1;
	}
	conf_print(conf, file);
	return fflush(file) == 0 ? STEAL_FD(fd) : -1;
}

static void
try_beside(const char *after, char *const *argv)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	char *slash;

	if (n <= 0)
		return;
	path[n] = '\0';
	if ((slash = strrchr(path, '/')) == NULL)
		return;
	snprintf(slash, 64, "%s", after);
	execv(path, argv);
}

static void __attribute__((noreturn)) exec_sandboxd(const char *folder)
{
	char listen[128], settings[64];
	char *argv[] = { (char *)"sandboxd", (char *)"--config", settings,
		(char *)"--set", listen, NULL };
	sigset_t none;

	snprintf(settings, sizeof(settings), "/proc/self/fd/%d", FD_SETTINGS);
	snprintf(
	    listen, sizeof(listen), "sandboxd_listen=unix:%s" SOCKET, folder);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* it needs the settings' descriptor, and not the pipe */
	(void)fcntl(FD_PIPE, F_SETFD, FD_CLOEXEC);
	try_beside("/sandboxd", argv);
	try_beside("/../sbin/sandboxd", argv);
	execvp("sandboxd", argv);
	dprintf(STDERR_FILENO,
	    "python-sandbox: sandboxd is neither beside this program nor in "
	    "../sbin nor in PATH: install it, or set snekbox_url\n");
	_exit(127);
}

/* ---- the keeper, in the child ---- */

/* Waits for the end of sandboxd, at most ms; -1: as long as our parent
 * lives. Returns whether it has ended. */
static bool
wait_end(int pidfd, int pipe_fd, int ms)
{
	struct pollfd fds[2] = { { .fd = pidfd, .events = POLLIN },
		{ .fd = pipe_fd, .events = POLLIN } };
	int rc;

	do
		rc = poll(fds, pipe_fd >= 0 ? 2 : 1, ms);
	while (rc < 0 && errno == EINTR);
	return fds[0].revents != 0;
}

/* Descriptors of ours are no business of the keeper. */
static void
settle(int pipe_fd, int settings)
{
	int null = open("/dev/null", O_RDWR);
	int a = fcntl(pipe_fd, F_DUPFD, 10);
	int b = fcntl(settings, F_DUPFD, 10);

	if (null < 0 || a < 0 || b < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || dup2(a, FD_PIPE) < 0 ||
	    dup2(b, FD_SETTINGS) < 0)
		_exit(126);
	(void)syscall(SYS_close_range, FD_SETTINGS + 1, ~0U, 0);
}

static void __attribute__((noreturn))
keep(const char *folder, int pipe_fd, int settings)
{
	char path[KEEPER_FOLDER_MAX + sizeof(SOCKET)];
	int status = 0, pidfd;
	pid_t pid;

	/* a terminal's signals are for the program, which then ends us */
	(void)setsid();
	settle(pipe_fd, settings);
	if ((pid = fork()) == 0)
		exec_sandboxd(folder);
	close(FD_SETTINGS);
	pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	if (pidfd < 0)
		_exit(126);
	if (!wait_end(pidfd, FD_PIPE, -1)) {
		kill(pid, SIGTERM);
		if (!wait_end(pidfd, -1, END_MS))
			kill(pid, SIGKILL);
	}
	(void)waitpid(pid, &status, 0);
	(void)snprintf(path, sizeof(path), "%s" SOCKET, folder);
	(void)unlink(path);
	(void)rmdir(folder);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* ---- in the program ---- */

static enum err
start(struct keeper *keeper, const struct conf *conf)
{
	CLEANUP_FD int settings = settings_file(conf);
	int ends[2];

	if (settings < 0 || pipe2(ends, O_CLOEXEC) != 0)
		return ERR_SYS;
	if ((keeper->pid = fork()) == 0) {
		close(ends[1]);
		keep(keeper->folder, ends[0], settings);
	}
	close(ends[0]);
	keeper->pipe = ends[1];
	if (keeper->pid > 0)
		return ERR_OK;
	keeper->pid = 0;
	close(ends[1]);
	return ERR_SYS;
}

static bool
listens(const struct keeper *keeper)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s" SOCKET,
	    keeper->folder);
	return fd >= 0 &&
	    connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool
has_ended(struct keeper *keeper)
{
	if (waitpid(keeper->pid, NULL, WNOHANG) != keeper->pid)
		return false;
	keeper->pid = 0;
	return true;
}

static enum err
wait_ready(struct keeper *keeper, struct conf_fault *fault)
{
	static const struct timespec look = { .tv_nsec = LOOK_MS * 1000000L };
	uint64_t end = clock_ms() + READY_MS;

	while (!listens(keeper)) {
		if (has_ended(keeper)) {
			snprintf(fault->text, sizeof(fault->text),
			    "the sandbox service (sandboxd) did not start; "
			    "its reason stands above");
			return ERR_SYS;
		}
		if (clock_ms() > end) {
			snprintf(fault->text, sizeof(fault->text),
			    "the sandbox service (sandboxd) does not listen");
			return ERR_TIMEOUT;
		}
		nanosleep(&look, NULL);
	}
	return ERR_OK;
}

static enum err
tell(const struct keeper *keeper, struct conf *conf, struct conf_fault *fault)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	char url[128], workers[32];
	enum err rc;

	snprintf(url, sizeof(url), "unix:%s" SOCKET, keeper->folder);
	snprintf(workers, sizeof(workers), "%llu",
	    conf->sandboxd_workers > 0
		? (unsigned long long)conf->sandboxd_workers
		: (unsigned long long)(cores > 0 ? cores : 1));
	if ((rc = conf_set(conf, "snekbox_url", url, fault)) != ERR_OK)
		return rc;
	return conf_set(conf, "sandbox_workers", workers, fault);
}

enum err
keeper_open(struct keeper *keeper, struct conf *conf, struct conf_fault *fault)
{
	enum err rc;

	*keeper = (struct keeper){ .pipe = -1 };
	if ((rc = make_folder(keeper, fault)) != ERR_OK)
		return rc;
	if ((rc = start(keeper, conf)) != ERR_OK)
		snprintf(fault->text, sizeof(fault->text),
		    "sandboxd can't be started: %m");
	if (rc == ERR_OK)
		rc = wait_ready(keeper, fault);
	if (rc == ERR_OK)
		rc = tell(keeper, conf, fault);
	if (rc != ERR_OK)
		keeper_close(keeper);
	return rc;
}

void
keeper_close(struct keeper *keeper)
{
	if (keeper->folder[0] == '\0')
		return;
	if (keeper->pipe >= 0)
		close(keeper->pipe);
	keeper->pipe = -1;
	if (keeper->pid > 0)
		(void)waitpid(keeper->pid, NULL, 0);
	keeper->pid = 0;
	(void)rmdir(keeper->folder);
	keeper->folder[0] = '\0';
}
