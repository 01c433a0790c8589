#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sandboxd/run.h"

#define READ_BYTES 65536
#define RC_KILLED 137
#define RC_TERMINATED 143

enum { ON_CONTROL, ON_BWRAP, ON_OUT, ON_ERR, ON_IN, ON_COUNT };

/* Takes what is in the pipe, at most a few reads of it so that the deadline is
 * looked at in between. *fd becomes -1 at its end. */
static enum err
drain(int *fd, struct output *out, int reads)
{
	char data[READ_BYTES];
	enum err rc = ERR_OK;

	while (*fd >= 0 && rc == ERR_OK && reads-- > 0) {
		ssize_t n = read(*fd, data, sizeof(data));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return ERR_OK;
		if (n <= 0) {
			close(*fd);
			*fd = -1;
			return ERR_OK;
		}
		rc = output_feed(out, data, (size_t)n);
	}
	return rc;
}

/* Writes what the program takes of its standard input; closes it at the end,
 * or when the program has closed its own. */
static void
feed(struct jail *jail, const struct request *req, size_t *at)
{
	ssize_t n = 1;

	while (*at < req->input_len && n > 0) {
		n = write(jail->in, req->input + *at, req->input_len - *at);
		if (n > 0)
			*at += (size_t)n;
		else if (errno == EINTR)
			n = 1;
		else if (errno == EAGAIN)
			return;
	}
	close(jail->in);
	jail->in = -1;
}

static int
until(uint64_t deadline)
{
	uint64_t now = clock_ms();

	return now >= deadline ? 0 : (int)(deadline - now);
}

static enum err
pump_once(struct run *run, struct jail *jail, struct pollfd *fds)
{
	enum err rc = ERR_OK;

	if (fds[ON_OUT].revents != 0)
		rc = drain(&jail->out, &run->out, 4);
	if (rc == ERR_OK && fds[ON_ERR].revents != 0)
		rc = drain(&jail->err, &run->err, 4);
	return rc;
}

static bool
set_end(struct run *run, enum run_end end)
{
	run->end = end;
	return true;
}

/* Until the program ends or something ends it. True: it is to be killed. */
static bool
pump(struct run *run, struct jail *jail, const struct request *req, int control,
    uint64_t deadline)
{
	size_t fed = 0;

	for (;;) {
		struct pollfd fds[ON_COUNT] = {
			{ control, POLLIN | POLLRDHUP, 0 },
			{ jail->pidfd, POLLIN, 0 },
			{ jail->out, POLLIN, 0 },
			{ jail->err, POLLIN, 0 },
			{ jail->in, POLLOUT, 0 },
		};
		int n = poll(fds, ON_COUNT, until(deadline));

		if (n < 0 && errno != EINTR)
			return set_end(run, RUN_CANCELLED);
		if (n == 0 || until(deadline) == 0)
			return set_end(run, RUN_TIME);
		if (n < 0)
			continue;
		if (fds[ON_CONTROL].revents != 0)
			return set_end(run, RUN_CANCELLED);
		if (pump_once(run, jail, fds) != ERR_OK)
			return set_end(run, RUN_OUTPUT);
		if (fds[ON_IN].revents != 0)
			feed(jail, req, &fed);
		if (fds[ON_BWRAP].revents != 0)
			return false;
	}
}

static int
code_of(const struct run *run, int status)
{
	switch (run->end) {
	case RUN_TIME:
	case RUN_MEMORY:
	case RUN_CANCELLED:
		return RC_KILLED;
	case RUN_OUTPUT:
		return RC_TERMINATED;
	case RUN_ENDED:
		break;
	}
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

/* What the pipes still hold after the last process is gone: nothing is lost,
 * and nobody can write to them any more. */
static void
drain_rest(struct run *run, struct jail *jail)
{
	enum err rc = ERR_OK;

	while (jail->out >= 0 && rc == ERR_OK)
		rc = drain(&jail->out, &run->out, 1);
	while (jail->err >= 0 && rc == ERR_OK)
		rc = drain(&jail->err, &run->err, 1);
	if (rc == ERR_OK)
		rc = output_end(&run->out);
	if (rc == ERR_OK)
		rc = output_end(&run->err);
	if (rc != ERR_OK && run->end == RUN_ENDED)
		run->end = RUN_OUTPUT;
}

enum err
run_program(struct run *run, struct jail *jail, const struct plan *plan,
    const struct request *req, int control)
{
	uint64_t start = clock_ms();
	int status;
	bool kill_it;
	enum err rc;

	*run = (struct run){ .left = plan->conf->jail_output };
	output_init(&run->out, &run->left);
	output_init(&run->err, &run->left);
	signal(SIGPIPE, SIG_IGN);
	if ((rc = jail_launch(jail, plan, req)) != ERR_OK)
		return rc;
	kill_it = pump(run, jail, req, control, start + req->timeout_ms);
	status = jail_reap(jail, kill_it);
	run->duration_ms = clock_ms() - start;
	drain_rest(run, jail);
	if (run->end == RUN_ENDED && WIFEXITED(status) &&
	    WEXITSTATUS(status) == RC_KILLED &&
	    cgroup_out_of_memory(&jail->cgroup))
		run->end = RUN_MEMORY;
	run->returncode = code_of(run, status);
	run->exec_error = jail_exec_error(jail);
	return ERR_OK;
}

void
run_done(struct run *run)
{
	output_done(&run->out);
	output_done(&run->err);
}

const char *
run_killed_by(const struct run *run)
{
	switch (run->end) {
	case RUN_TIME:
		return "time";
	case RUN_MEMORY:
		return "memory";
	case RUN_OUTPUT:
		return "output";
	case RUN_ENDED:
	case RUN_CANCELLED:
		break;
	}
	return NULL;
}
