/*
 * The program that waits in a finished jail, and becomes the interpreter.
 *
 * A jail costs several times what starting python3 costs, so it is built
 * before anybody asks for it. Until then this waits in it, as the only
 * process; it holds nothing of anyone. Static and tiny, because every
 * sandboxed program can read it and its start is part of every jail's.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandboxd/launch.h"

#define EXIT_NO_EXEC 255 /* as NsJail has it */
#define STACK_BYTES (8u << 20)

/* The whole environment of a program. Few threads: a library that starts one
 * for each processor of a large machine would meet the process limit. */
static char *const environment[] = { "HOME=/home", "LANG=en_US.UTF-8",
	"MKL_NUM_THREADS=2", "MPLCONFIGDIR=" LAUNCH_MPLCONFIGDIR,
	"NUMEXPR_NUM_THREADS=2", "OMP_NUM_THREADS=2", "OPENBLAS_NUM_THREADS=2",
	"PYTHONDONTWRITEBYTECODE=true", "PYTHONIOENCODING=utf-8:strict",
	"PYTHONUNBUFFERED=true", "VECLIB_MAXIMUM_THREADS=2", NULL };

static int
read_all(void *data, size_t n)
{
	char *p = data;

	while (n > 0) {
		ssize_t got = read(LAUNCH_FD, p, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;
		p += got;
		n -= (size_t)got;
	}
	return 0;
}

static int
limit(__rlimit_resource_t what, uint64_t value)
{
	struct rlimit rl = { value, value };

	return setrlimit(what, &rl);
}

static int
set_limits(const struct launch_head *head)
{
	if (limit(RLIMIT_CORE, 0) != 0 ||
	    limit(RLIMIT_STACK, STACK_BYTES) != 0 ||
	    limit(RLIMIT_NOFILE, head->descriptors) != 0 ||
	    limit(RLIMIT_FSIZE, head->file_size) != 0 ||
	    limit(RLIMIT_NPROC, head->processes) != 0)
		return -1;
	/* last: it binds this program too */
	return limit(RLIMIT_AS, head->address_space);
}

/* Points argv at the strings; -1 unless they are as many as announced. */
static int
split(char **argv, const struct launch_head *head, char *text)
{
	char *end = text + head->bytes;
	uint32_t n = 0;

	if (head->bytes == 0 || end[-1] != '\0')
		return -1;
	for (char *p = text; p < end; p += strlen(p) + 1) {
		if (n == head->n_args)
			return -1;
		argv[n++] = p;
	}
	argv[n] = NULL;
	return n == head->n_args && n > 0 ? 0 : -1;
}

static void
default_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
}

/* Tells the slot why, and ends. */
__attribute__((noreturn)) static void
fail(int error)
{
	int32_t code = error;

	if (write(LAUNCH_FD, &code, sizeof(code)) < 0)
		_exit(EXIT_NO_EXEC);
	_exit(EXIT_NO_EXEC);
}

int
main(void)
{
	struct launch_head head;
	char ready = LAUNCH_READY, *text, **argv;

	if (write(LAUNCH_FD, &ready, 1) != 1)
		return EXIT_NO_EXEC;
	if (read_all(&head, sizeof(head)) != 0)
		return 0; /* not wanted any more */
	if (head.magic != LAUNCH_MAGIC || head.bytes > LAUNCH_ARGS_MAX ||
	    head.n_args > head.bytes)
		fail(EINVAL);
	text = malloc(head.bytes + 1u);
	argv = malloc((head.n_args + 1u) * sizeof(*argv));
	if (text == NULL || argv == NULL)
		fail(ENOMEM);
	if (read_all(text, head.bytes) != 0 || split(argv, &head, text) != 0)
		fail(EINVAL);
	if (head.merge_stderr && dup2(1, 2) < 0)
		fail(errno);
	/* nothing but 0, 1, 2 goes to the program; LAUNCH_FD stays until the
	 * exec has worked: close on exec (4: CLOSE_RANGE_CLOEXEC) */
	if (syscall(SYS_close_range, LAUNCH_FD, ~0u, 4u) != 0)
		fail(errno);
	default_signals();
	umask(022);
	if (set_limits(&head) != 0)
		fail(errno);
	execve(argv[0], argv, environment);
	fail(errno);
}
