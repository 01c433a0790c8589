/*
 * From a job to the JSON of a Snekbox request, and from a Snekbox answer to
 * an outcome. Pure functions: any thread, no I/O. Everything in an answer is
 * hostile.
 *
 * The protocol between the runner and us is described at the top of
 * outcome.c.
 */
#ifndef SANDBOX_OUTCOME_H
#define SANDBOX_OUTCOME_H

#include "sandbox/sandbox.h"

/* Characters of output after which a Snekbox ends a program. */
#define OUTCOME_OUTPUT_SNEKBOX 1000000

/* Appends the body of POST /eval for a job: args, the runner, the program as
 * main.py, its input files and options; sandboxd's optional fields too
 * ("timeout" in seconds when timeout_ms is set). The runner is told of limits
 * the time and the output, which must not be more than what will apply to the
 * run (output_bytes 0: a Snekbox's). ERR_LIMIT, ERR_NOMEM. */
enum err outcome_request(struct buf *out, const struct sandbox_job *job,
    const struct conf *conf, const struct sandbox_limits *limits) MUST_CHECK;

/* The same without the runner, for benchmarks and probes. */
enum err outcome_request_plain(struct buf *out, const struct sandbox_job *job)
    MUST_CHECK;

/* What came back over HTTP from the sandbox. */
struct sandbox_reply {
	enum err transport; /* ERR_OK: an answer came; ERR_CLOSED: reset or
				 * ended early; ERR_TIMEOUT; ERR_NOT_FOUND:
				 * no connection, so nothing ran; ERR_LIMIT: the
				 * answer was larger than sandbox_reply_max */
	const char *transport_text; /* in libcurl's words, borrowed */
	long http_status;           /* 0 when there was none */
	const char *content_type;   /* borrowed, may be NULL */
	const char *body;           /* borrowed */
	size_t body_len;
	uint64_t duration_ms; /* measured around the request */
};

/* Turns a reply into an outcome; never fails but for ERR_NOMEM: whatever is
 * wrong with the reply becomes OUTCOME_SANDBOX_ERROR or
 * OUTCOME_SANDBOX_UNAVAILABLE with its own clear text. *ret_outcome is then
 * owned: outcome_done. */
enum err outcome_parse(const struct sandbox_reply *reply,
    const struct conf *conf, const struct sandbox_limits *limits,
    struct outcome *ret_outcome) MUST_CHECK;

#endif
