/*
 * What the commands have in common: event loop, workers, table, sandbox client
 * and, where no sandbox is named in the settings, one of our own.
 */
#ifndef CLI_ENGINE_H
#define CLI_ENGINE_H

#include "base/loop.h"
#include "base/workers.h"
#include "cli/keeper.h"
#include "sandbox/snekbox.h"
#include "state/shm.h"

#define ENGINE_SIGNALS 3

/* Caller's storage; zeros before engine_open. */
struct engine {
	struct conf *conf;    /* borrowed; what runs is filled in */
	struct keeper keeper; /* pid 0: the sandbox is somebody else's */
	struct loop *loop;    /* all owned */
	struct workers *workers;
	struct state *state;
	struct snekbox *snekbox;
	struct event *signals[ENGINE_SIGNALS], *child, *second;
	void (*tick)(void *arg); /* every second; may be NULL */
	void *tick_arg;
	int signal;         /* that ended engine_run, 0: none */
	bool sandbox_ended; /* our sandboxd ended by itself */
};

/* To be called first of all, before threads: holds signals until there is a
 * loop to take them. On failure *fault says why and what to do, and
 * engine_close is due all the same. */
enum err engine_open(struct engine *engine, struct conf *conf,
    struct conf_fault *fault) MUST_CHECK;

/* Runs the loop until engine_stop, a signal that ends the process, or the end
 * of our sandboxd. */
void engine_run(struct engine *engine);
void engine_stop(struct engine *engine);

/* Ends the workers; what they had done is delivered now. */
void engine_settle(struct engine *engine);

void engine_close(struct engine *engine);

#endif
