/* One program run to its end, through admission like every other. */
#ifndef CLI_EXECUTION_H
#define CLI_EXECUTION_H

#include "cli/engine.h"
#include "sandbox/outcome.h"

/* Told now and then: ran_ms is 0 while the program waits for its turn. */
struct execution_view {
	void (*progress)(void *arg, uint64_t ran_ms, uint64_t limit_ms);
	void *arg;
};

/* Runs job; view may be NULL. *ret_outcome is owned: outcome_done. ERR_CLOSED
 * when a signal, or the end of our sandboxd, came first; ERR_NOMEM and others
 * when it could not begin. */
enum err execution_run(struct engine *engine, const struct sandbox_job *job,
    const struct execution_view *view, struct outcome *ret_outcome) MUST_CHECK;

#endif
