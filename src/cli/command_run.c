/* python-sandbox run */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/execution.h"
#include "cli/save.h"

enum { EXIT_SANDBOX = 125 }; /* the program did not run */

struct order {
	const char *file;   /* "-": the program comes on standard input */
	const char *output; /* NULL: beside the file */
};

static enum err
read_order(int argc, char **argv, struct order *ret_order)
{
	*ret_order = (struct order){ NULL, NULL };
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--output") == 0 && i + 1 < argc)
			ret_order->output = argv[++i];
		else if (strncmp(argv[i], "--", 2) == 0 ||
		    ret_order->file != NULL)
			return ERR_CONF;
		else
			ret_order->file = argv[i];
	}
	return ret_order->file != NULL ? ERR_OK : ERR_CONF;
}

/* ---- what goes in ---- */

/* Reads a descriptor to its end. */
static enum err
read_whole(
    int fd, uint64_t max, const char *name, char **ret_text, size_t *ret_len)
{
	CLEANUP_BUF struct buf all = { .max = max };
	char chunk[16384];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || buf_append(&all, chunk, (size_t)n) != ERR_OK) {
			fprintf(stderr, "python-sandbox: %s: %s\n", name,
			    n < 0 ? strerror(errno)
				  : "is too large (setting code_max)");
			return ERR_SYS;
		}
	}
	*ret_text = buf_steal(&all, ret_len);
	return *ret_text != NULL ? ERR_OK : ERR_NOMEM;
}

/* Standard input goes with the program when it is a pipe or a file; a terminal
 * can't be passed on. */
static bool
has_input(void)
{
	struct stat st;

	return fstat(STDIN_FILENO, &st) == 0 && !isatty(STDIN_FILENO) &&
	    !S_ISCHR(st.st_mode);
}

static enum err
read_job(
    const struct order *order, const struct conf *conf, struct sandbox_job *job)
{
	bool piped = strcmp(order->file, "-") == 0;
	CLEANUP_FD int fd =
	    piped ? dup(STDIN_FILENO) : open(order->file, O_RDONLY | O_CLOEXEC);
	enum err rc;

	if (fd < 0) {
		fprintf(stderr, "python-sandbox: %s: %s\n", order->file,
		    strerror(errno));
		return ERR_SYS;
	}
	if ((rc = read_whole(fd, conf->code_max, order->file, &job->code,
		 &job->code_len)) != ERR_OK)
		return rc;
	if (memchr(job->code, '\0', job->code_len) != NULL) {
		fprintf(stderr,
		    "python-sandbox: %s: is no program, it holds "
		    "NUL\n",
		    order->file);
		return ERR_PARSE;
	}
	return piped || !has_input()
	    ? ERR_OK
	    : read_whole(STDIN_FILENO, conf->code_max, "standard input",
		  &job->input, &job->input_len);
}

/* ---- what comes out ---- */

static void
show_progress(void *arg, uint64_t ran_ms, uint64_t limit_ms)
{
	(void)arg;
	if (ran_ms == 0)
		fputs("\r\033[Kwaiting for the sandbox", stderr);
	else
		fprintf(stderr, "\r\033[Krunning for %.1f s of at most %g s",
		    (double)ran_ms / 1000, (double)limit_ms / 1000);
	fflush(stderr);
}

/* The folder in which the file lies. */
static char *
folder_of(const struct order *order)
{
	const char *slash = strrchr(order->file, '/');

	if (order->output != NULL)
		return strdup(order->output);
	if (slash == NULL || strcmp(order->file, "-") == 0)
		return strdup(".");
	return strndup(order->file,
	    slash == order->file ? 1 : (size_t)(slash - order->file));
}

static int
show(const struct outcome *outcome, const struct order *order)
{
	CLEANUP_FREE char *dir = folder_of(order);
	int code =
	    outcome->has_returncode ? outcome->returncode & 0xff : EXIT_SANDBOX;

	if (outcome->text != NULL)
		fputs(outcome->text, stdout);
	if (fflush(stdout) != 0 && code == 0)
		code = EXIT_FAILURE;
	/* what a program says of its own failure is part of its output */
	if (outcome->kind != OUTCOME_OK &&
	    outcome->kind != OUTCOME_EXECUTION_ERROR)
		fprintf(stderr, "python-sandbox: %s\n",
		    outcome->details != NULL ? outcome->details
			: outcome->error_message != NULL
			? outcome->error_message
			: outcome_kind_name(outcome->kind));
	if (dir == NULL || !save_files(outcome, dir) ||
	    outcome->kind != OUTCOME_OK)
		code = code != 0 ? code : EXIT_FAILURE;
	return code;
}

static int
run(struct engine *engine, const struct sandbox_job *job,
    const struct order *order)
{
	static const struct execution_view view = { show_progress, NULL };
	bool tty = isatty(STDERR_FILENO);
	struct outcome outcome;
	enum err rc;
	int code;

	rc = execution_run(engine, job, tty ? &view : NULL, &outcome);
	if (tty)
		fputs("\r\033[K", stderr);
	if (rc == ERR_OK) {
		code = show(&outcome, order);
		outcome_done(&outcome);
		return code;
	}
	if (engine->signal != 0)
		return 128 + engine->signal;
	fprintf(stderr, "python-sandbox: the program did not run: %s\n",
	    engine->sandbox_ended ? "the sandbox service ended; its reason "
				    "stands above"
				  : err_info(rc)->text);
	return EXIT_SANDBOX;
}

int
command_run(struct conf *conf, int argc, char **argv)
{
	struct engine engine = { .conf = conf };
	struct sandbox_job job = { .timeout_ms = 0 };
	struct conf_fault fault = { "" };
	struct order order;
	int code = EXIT_SANDBOX;

	if (read_order(argc, argv, &order) != ERR_OK) {
		fputs(
		    "usage: python-sandbox run [--output DIR] FILE\n", stderr);
		return EXIT_WRONG;
	}
	/* the text is for a terminal or a file, not for a model */
	if (conf_set(conf, "output_max", "16M", &fault) != ERR_OK ||
	    read_job(&order, conf, &job) != ERR_OK)
		code = EXIT_WRONG;
	else if (engine_open(&engine, conf, &fault) != ERR_OK)
		fprintf(stderr, "python-sandbox: %s\n", fault.text);
	else
		code = run(&engine, &job, &order);
	engine_close(&engine);
	sandbox_job_done(&job);
	return code;
}
