#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "server/process.h"

const int process_signals[PROCESS_SIGNALS] = { SIGTERM, SIGINT, SIGUSR1 };

/* From the start until the loop can take them: libfcgi's handlers, set in
 * between, would swallow them. */
static void
hold_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < PROCESS_SIGNALS; i++)
		sigaddset(&set, process_signals[i]);
	pthread_sigmask(how, &set, NULL);
}

void
process_prepare(void)
{
	struct rlimit limit;

	hold_signals(SIG_BLOCK);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	/* one heap for all threads and large blocks given back at once: what
	 * a request took must not stay with thousands of idle streams */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 128 * 1024);
	mallopt(M_TRIM_THRESHOLD, 256 * 1024);
}

/* What libraries opened without saying so (libcurl's wake-up pair): no
 * descriptor of ours is for a child. */
static void
close_on_exec(void)
{
	CLEANUP_DIR DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		int fd = (int)strtol(entry->d_name, NULL, 10);

		if (fd > STDERR_FILENO)
			(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
}

void
process_ready(void)
{
	close_on_exec();
	hold_signals(SIG_UNBLOCK);
}
