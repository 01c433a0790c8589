/* python-sandbox stdio */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/engine.h"
#include "mcp/mcp.h"
#include "transport/stdio.h"

struct session {
	struct engine engine;
	struct mcp_host host;
	struct mcp *mcp;
	struct stdio *stdio;
};

static void
host_offload(struct mcp_host *host, void (*work)(void *arg),
    void (*done)(void *arg), void *arg)
{
	struct session *session = (struct session *)(void *)((char *)host -
	    offsetof(struct session, host));

	workers_offload(session->engine.workers, work, done, arg);
}

/* Without an inbox nobody is rung: waiting calls look by themselves, every
 * 250 ms. */
static void
host_ring(struct mcp_host *host, uint64_t process)
{
	(void)host;
	(void)process;
}

static void
on_tick(void *arg)
{
	struct session *session = arg;

	mcp_tick(session->mcp);
}

static void
on_end(void *arg)
{
	struct session *session = arg;

	engine_stop(&session->engine);
}

/* The protocol's descriptors are ours alone: nothing that a library or a child
 * prints or reads can get between. */
static enum err
take_descriptors(int *ret_in, int *ret_out)
{
	CLEANUP_FD int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CLEANUP_FD int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	CLEANUP_FD int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

	if (null < 0 || in < 0 || out < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return ERR_SYS;
	*ret_in = STEAL_FD(in);
	*ret_out = STEAL_FD(out);
	return ERR_OK;
}

static enum err
open_above(struct session *session, int in, int out)
{
	struct engine *engine = &session->engine;
	struct stdio_plan plan = { .conf = engine->conf,
		.loop = engine->loop,
		.in = in,
		.out = out,
		.ended = on_end,
		.arg = session };
	enum err rc;

	session->host.base = loop_base(engine->loop);
	session->host.offload = host_offload;
	session->host.ring = host_ring;
	if ((rc = mcp_open(engine->conf, engine->state, engine->snekbox,
		 &session->host, &session->mcp)) != ERR_OK)
		return rc;
	plan.mcp = session->mcp;
	engine->tick = on_tick;
	engine->tick_arg = session;
	return stdio_open(&plan, &session->stdio);
}

static int
serve(struct session *session, int in, int out)
{
	enum err rc = open_above(session, in, out);

	if (rc != ERR_OK) {
		fprintf(
		    stderr, "python-sandbox: core: %s\n", err_info(rc)->text);
		return EXIT_FAILURE;
	}
	log_info("stdio.started", "sandbox=%s",
	    snekbox_name(session->engine.snekbox, 0));
	engine_run(&session->engine);
	if (session->engine.sandbox_ended)
		log_error("stdio.ended",
		    "the sandbox service ended; its reason stands above");
	else
		log_info("stdio.ended", "signal=%d calls=%u",
		    session->engine.signal, mcp_calls(session->mcp));
	return session->engine.sandbox_ended ? EXIT_FAILURE : EXIT_SUCCESS;
}

int
command_stdio(struct conf *conf)
{
	struct session session = { .stdio = NULL };
	struct conf_fault fault = { "" };
	CLEANUP_FD int in = -1;
	CLEANUP_FD int out = -1;
	int code = EXIT_FAILURE;

	if (take_descriptors(&in, &out) != ERR_OK)
		fprintf(stderr,
		    "python-sandbox: standard input and output "
		    "must be open\n");
	else if (engine_open(&session.engine, conf, &fault) != ERR_OK)
		fprintf(stderr, "python-sandbox: %s\n", fault.text);
	else
		code = serve(&session, in, out);
	stdio_close(session.stdio);
	engine_settle(&session.engine);
	mcp_close(session.mcp);
	engine_close(&session.engine);
	return code;
}
