#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandboxd/janitor.h"

__attribute__((noreturn)) static void
janitor_main(int end, const struct listen *ls, const struct cgroup *cgroup)
{
	struct cgroup cg = *cgroup;
	char nothing;

	setsid();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* whoever reads the service's output must not wait for us */
	dup2(end, 0);
	syscall(SYS_close_range, 1u, ~0u, 0u);
	while (read(0, &nothing, 1) < 0 && errno == EINTR)
		;
	listen_remove(ls);
	cgroup_close(&cg);
	_exit(0);
}

enum err
janitor_open(struct janitor *janitor, const struct listen *ls,
    const struct cgroup *cgroup)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return ERR_SYS;
	janitor->pid = fork();
	if (janitor->pid == 0)
		janitor_main(ends[0], ls, cgroup);
	close(ends[0]);
	janitor->pipe = ends[1];
	if (janitor->pid > 0)
		return ERR_OK;
	close(ends[1]);
	return ERR_SYS;
}

void
janitor_close(struct janitor *janitor)
{
	if (janitor->pid <= 0)
		return;
	close(janitor->pipe);
	while (waitpid(janitor->pid, NULL, 0) < 0 && errno == EINTR)
		;
	janitor->pid = 0;
}
