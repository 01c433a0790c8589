/* Answers as JSON in a memfd, in the form in which Snekbox writes them. */
#ifndef SANDBOXD_REPLY_H
#define SANDBOXD_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "sandboxd/tree.h"

/* How a run ended. */
struct result {
	const struct buf *text;       /* stdout; borrowed */
	const struct buf *error_text; /* stderr apart, or NULL */
	bool has_returncode;
	int returncode;
	const char *killed_by; /* or NULL */
	uint64_t duration_ms;
	const struct collection *files; /* or NULL */
	int dir;                        /* where they are */
};

/* Writes the answer of a run; *ret_fd is owned. */
enum err reply_result(const struct result *result, int *ret_fd) MUST_CHECK;

/* Writes {"title", "description"}; without description when it is NULL. */
enum err reply_fault(
    const char *title, const struct buf *description, int *ret_fd) MUST_CHECK;

#endif
