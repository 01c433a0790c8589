/* One program in a prepared jail: input in, output and end out. */
#ifndef SANDBOXD_RUN_H
#define SANDBOXD_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandboxd/jail.h"
#include "sandboxd/output.h"
#include "sandboxd/plan.h"
#include "sandboxd/request.h"

enum run_end { RUN_ENDED, RUN_TIME, RUN_OUTPUT, RUN_MEMORY, RUN_CANCELLED };

struct run {
	enum run_end end;
	int returncode; /* as a shell has it: 128 + signal */
	int exec_error; /* errno when nothing was executed, or 0 */
	uint64_t duration_ms;
	uint64_t left; /* characters of output still allowed */
	struct output out, err;
};

/* Runs the program to its end, or to that of its time, output or caller (when
 * the other end of control closes). Afterwards no process of the jail exists
 * any more. Release with run_done in every case. */
enum err run_program(struct run *run, struct jail *jail,
    const struct plan *plan, const struct request *req, int control) MUST_CHECK;
void run_done(struct run *run);

/* "time", "memory", "output", or NULL for a program that ended by itself. */
const char *run_killed_by(const struct run *run);

#endif
