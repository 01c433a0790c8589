/*
 * What the runner sends back through the sandbox's standard output, decoded.
 * The protocol is described at the top of outcome.c. Pure functions;
 * everything that comes in is hostile.
 */
#ifndef SANDBOX_REPORT_H
#define SANDBOX_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/err.h"

/* Caller's storage; released by report_done. */
struct report {
	bool began;        /* the runner ran: output is the program's */
	bool ended;        /* the runner saw the program's end */
	struct buf output; /* what the program wrote, any bytes */
	cJSON *lines;      /* owned array of objects, the first is the
				 * runner's own; empty unless ended */
	/* from the first line, 0 where absent */
	int exit_code, signal;
	const char *killed; /* "", "time" or "output"; borrowed from lines */
	bool warned;        /* TimeLimitExceeded was raised */
	bool had_input;
	uint64_t bytes, run_ms, rss_kib;
	uint64_t descriptors; /* limits as the runner saw them, 0: unknown */
	uint64_t disk_bytes;
};

/* Decodes n bytes of output. ERR_NOMEM, nothing else. */
enum err
report_decode(const char *text, size_t n, struct report *ret_report) MUST_CHECK;

void report_done(struct report *report);

/* The first line of a kind ("t"), or the first whose member key is value;
 * NULL when there is none. Borrowed. */
const cJSON *report_find(const struct report *report, const char *kind,
    const char *key, const char *value);

/* A number member between 0 and max, else 0. */
uint64_t report_number(const cJSON *line, const char *key, uint64_t max);

#endif
