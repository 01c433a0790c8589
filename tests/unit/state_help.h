/* What the tests of state/ share: a table of their own, and children. */
#ifndef TESTS_STATE_HELP_H
#define TESTS_STATE_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "state/table.h"

#define UNUSED __attribute__((unused))

/* Settings with a name and a run folder that nobody else has. */
struct place {
	struct conf conf;
	char dir[64];
};

static inline void
place_set(struct place *p, const char *name, const char *value)
{
	struct conf_fault fault;

	if (conf_set(&p->conf, name, value, &fault) != ERR_OK)
		fail_msg("%s", fault.text);
}

/* The name of the segment, or of its n-th substitute. */
static UNUSED void
place_segment(const struct place *p, int n, char *ret_name, size_t size)
{
	int len = snprintf(ret_name, size, "/python-sandbox.%u.%s.v%d",
	    (unsigned)geteuid(), p->conf.state_name, TABLE_VERSION);

	if (n > 0)
		snprintf(ret_name + len, size - (size_t)len, ".%d", n);
}

static UNUSED int
place_setup(void **state)
{
	static int counter;
	struct place *p = calloc(1, sizeof(*p));
	char name[64];

	signal(SIGPIPE, SIG_IGN);
	if (p == NULL || conf_init(&p->conf) != ERR_OK)
		return -1;
	snprintf(p->dir, sizeof(p->dir), "/tmp/state-test-XXXXXX");
	if (mkdtemp(p->dir) == NULL)
		return -1;
	snprintf(name, sizeof(name), "test-%d-%d", (int)getpid(), ++counter);
	place_set(p, "state_name", name);
	place_set(p, "run_dir", p->dir);
	place_set(p, "sessions_max", "64");
	place_set(p, "calls_max", "16");
	place_set(p, "processes_max", "8");
	place_set(p, "queue_max", "8");
	*state = p;
	return 0;
}

static UNUSED void
folder_remove(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		char name[512];

		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		if (e->d_name[0] != '.')
			unlink(name);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(path);
}

static UNUSED int
place_teardown(void **state)
{
	struct place *p = *state;
	char name[160];

	for (int n = 0; n < 8; n++) {
		place_segment(p, n, name, sizeof(name));
		shm_unlink(name);
	}
	folder_remove(p->dir);
	conf_done(&p->conf);
	free(p);
	return 0;
}

static UNUSED struct state *
must_open(const struct place *p)
{
	struct state *s = NULL;

	if (state_open(&p->conf, &s) != ERR_OK)
		fail_msg("state_open: %s", state_fault());
	return s;
}

static UNUSED void
must_hold(struct state *s)
{
	if (state_check(s) != ERR_OK)
		fail_msg("state_check: %s", state_fault());
}

/* A child process that says one line when it is ready and ends when told. */
struct child {
	pid_t pid;
	int in, out; /* what it writes; what it waits for */
};

/* In a child: a failure ends it with its line number. */
#define CHILD_CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf( \
			    stderr, "child, line %d: %s\n", __LINE__, #what); \
			_exit(99); \
		} \
	} while (0)

static UNUSED struct child
child_start(const struct place *p,
    void (*run)(const struct place *p, int in, int out, void *arg), void *arg)
{
	int up[2], down[2];
	struct child c;

	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	fflush(stdout);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(up[0]);
		close(down[1]);
		run(p, down[0], up[1], arg);
		_exit(0);
	}
	close(up[1]);
	close(down[0]);
	c.in = up[0];
	c.out = down[1];
	return c;
}

/* Reads exactly n bytes that the child sends. */
static UNUSED void
child_read(const struct child *c, void *data, size_t n)
{
	char *at = data;

	while (n > 0) {
		ssize_t got = read(c->in, at, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			fail_msg("the child ended early");
		at += got;
		n -= (size_t)got;
	}
}

/* Kills it and waits until it is dead, but leaves it a zombie. */
static UNUSED void
child_kill(const struct child *c)
{
	siginfo_t info;

	kill(c->pid, SIGKILL);
	while (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT) != 0)
		assert_int_equal(errno, EINTR);
}

/* Lets it end, waits, and returns its exit code (128 + signal). A byte tells
 * it: children that were started later hold copies of the pipe's end. */
static UNUSED int
child_end(struct child *c)
{
	int status;

	if (write(c->out, "e", 1) != 1)
		assert_int_equal(errno, EPIPE);
	close(c->out);
	while (waitpid(c->pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	close(c->in);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* In a child: waits until the parent sends a byte or closes the pipe. */
static UNUSED bool
child_wait(int in)
{
	char c;

	return read(in, &c, 1) == 1;
}

#endif
