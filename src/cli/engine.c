#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/rnd.h"
#include "cli/engine.h"

static const int numbers[ENGINE_SIGNALS] = { SIGTERM, SIGINT, SIGHUP };

static void
mask_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < ENGINE_SIGNALS; i++)
		sigaddset(&set, numbers[i]);
	sigaddset(&set, SIGCHLD);
	pthread_sigmask(how, &set, NULL);
}

/* ---- the table ---- */

/* Programs that use the same sandbox share one table, and so its places; a
 * sandbox of our own has a table of our own. */
static enum err
name_table(struct engine *engine, struct conf_fault *fault)
{
	struct conf *conf = engine->conf;
	uint64_t hash = 14695981039346656037ULL;
	char name[64], random[17];
	enum err rc;

	if (engine->keeper.pid != 0) {
		if ((rc = rnd_hex(random, 8)) != ERR_OK)
			return rc;
		snprintf(name, sizeof(name), "own-%s", random);
		rc = conf_set(conf, "run_dir", engine->keeper.folder, fault);
		return rc == ERR_OK ? conf_set(conf, "state_name", name, fault)
				    : rc;
	}
	if (conf->state_name[0] != '\0')
		return ERR_OK;
	for (const char *c = conf->snekbox_url; *c != '\0'; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
	snprintf(name, sizeof(name), "cli-%016" PRIx64, hash);
	return conf_set(conf, "state_name", name, fault);
}

static enum err
open_table(struct engine *engine, struct conf_fault *fault)
{
	enum err rc;

	if ((rc = name_table(engine, fault)) != ERR_OK)
		return rc;
	if ((rc = state_open(engine->conf, &engine->state)) != ERR_OK)
		snprintf(fault->text, sizeof(fault->text), "shared table: %s",
		    state_fault());
	else if (engine->keeper.pid != 0)
		state_hide(engine->state);
	return rc;
}

/* ---- events ---- */

static void
on_signal(evutil_socket_t number, short what, void *arg)
{
	struct engine *engine = arg;

	(void)what;
	engine->signal = (int)number;
	engine_stop(engine);
}

static void
on_child(evutil_socket_t number, short what, void *arg)
{
	struct engine *engine = arg;

	(void)number;
	(void)what;
	if (engine->keeper.pid <= 0 ||
	    waitpid(engine->keeper.pid, NULL, WNOHANG) != engine->keeper.pid)
		return;
	engine->keeper.pid = 0;
	engine->sandbox_ended = true;
	engine_stop(engine);
}

static void
on_second(evutil_socket_t fd, short what, void *arg)
{
	struct engine *engine = arg;

	(void)fd;
	(void)what;
	/* a hidden table is nobody else's: there is nobody to watch */
	if (engine->keeper.folder[0] == '\0')
		(void)state_tick(engine->state);
	if (engine->tick != NULL)
		engine->tick(engine->tick_arg);
}

static enum err
watch(struct engine *engine)
{
	struct event_base *base = loop_base(engine->loop);
	struct timeval second = { .tv_sec = 1 };

	for (int i = 0; i < ENGINE_SIGNALS; i++) {
		engine->signals[i] =
		    evsignal_new(base, numbers[i], on_signal, engine);
		if (engine->signals[i] == NULL ||
		    event_add(engine->signals[i], NULL) != 0)
			return ERR_SYS;
	}
	engine->child = evsignal_new(base, SIGCHLD, on_child, engine);
	engine->second = event_new(base, -1, EV_PERSIST, on_second, engine);
	if (engine->child == NULL || engine->second == NULL ||
	    event_add(engine->child, NULL) != 0 ||
	    event_add(engine->second, &second) != 0)
		return ERR_SYS;
	return ERR_OK;
}

/* ---- life ---- */

static enum err
open_loop(struct engine *engine, struct conf_fault *fault)
{
	const struct conf *conf = engine->conf;
	enum err rc;

	if ((rc = loop_open(&engine->loop)) != ERR_OK ||
	    (rc = watch(engine)) != ERR_OK ||
	    (rc = workers_open(engine->loop, (unsigned)conf->worker_threads,
		 &engine->workers)) != ERR_OK) {
		snprintf(fault->text, sizeof(fault->text), "event loop: %s",
		    err_info(rc)->text);
		return rc;
	}
	fault->text[0] = '\0';
	rc = snekbox_open(
	    conf, loop_base(engine->loop), fault, &engine->snekbox);
	if (rc != ERR_OK && fault->text[0] == '\0')
		snprintf(fault->text, sizeof(fault->text), "sandbox client: %s",
		    err_info(rc)->text);
	return rc;
}

enum err
engine_open(struct engine *engine, struct conf *conf, struct conf_fault *fault)
{
	enum err rc;

	engine->conf = conf;
	mask_signals(SIG_BLOCK);
	signal(SIGPIPE, SIG_IGN);
	if ((conf->snekbox_url[0] == '\0' &&
		(rc = keeper_open(&engine->keeper, conf, fault)) != ERR_OK) ||
	    (rc = open_table(engine, fault)) != ERR_OK ||
	    (rc = open_loop(engine, fault)) != ERR_OK)
		return rc;
	mask_signals(SIG_UNBLOCK);
	/* the keeper may have ended before there was a loop */
	event_active(engine->child, EV_SIGNAL, 1);
	return ERR_OK;
}

void
engine_run(struct engine *engine)
{
	if (event_base_dispatch(loop_base(engine->loop)) < 0)
		log_error("loop.failed", "the event loop failed");
}

void
engine_stop(struct engine *engine)
{
	event_base_loopbreak(loop_base(engine->loop));
}

void
engine_settle(struct engine *engine)
{
	if (engine->workers == NULL)
		return;
	workers_close(engine->workers);
	engine->workers = NULL;
	loop_flush(engine->loop);
}

static void
free_event(struct event *event)
{
	if (event != NULL)
		event_free(event);
}

void
engine_close(struct engine *engine)
{
	engine_settle(engine);
	snekbox_close(engine->snekbox);
	state_close(engine->state);
	for (int i = 0; i < ENGINE_SIGNALS; i++)
		free_event(engine->signals[i]);
	free_event(engine->child);
	free_event(engine->second);
	loop_close(engine->loop);
	keeper_close(&engine->keeper);
}
