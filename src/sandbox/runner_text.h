/* The runner's Python files as they lie in src/sandbox/runner; the definitions
 * are generated from them by runner/embed.sh. */
#ifndef SANDBOX_RUNNER_TEXT_H
#define SANDBOX_RUNNER_TEXT_H

#include <stddef.h>

struct runner_file {
	const char *name; /* "runner.py" */
	const char *text; /* followed by a NUL that len does not count */
	size_t len;
};

extern const struct runner_file runner_files[];
extern const size_t runner_files_count;

#endif
