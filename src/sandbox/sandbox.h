/*
 * The seam to whatever executes programs: a job goes in, an outcome comes
 * out. Backends are structs of function pointers (snekbox.c is the one there
 * is; it speaks to Snekbox and to sandboxd alike).
 */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"

/* A file given to a program. */
struct sandbox_file {
	char *path; /* relative to the working folder; owned */
	char *data; /* owned, may hold any bytes */
	size_t len;
};

/* What shall run. Caller's storage; released by sandbox_job_done. */
struct sandbox_job {
	char *code; /* owned; UTF-8, no NUL inside */
	size_t code_len;
	char *input; /* standard input, owned, or NULL for none */
	size_t input_len;
	struct sandbox_file *files; /* owned */
	size_t n_files;
	uint64_t timeout_ms; /* wanted; 0: the sandbox's own limit */
};

void sandbox_job_done(struct sandbox_job *job);

/* How a run ended; the names (outcome_kind_name) are the contract's
 * error_type, "" for OUTCOME_OK. */
enum outcome_kind {
	OUTCOME_OK,
	OUTCOME_EXECUTION_ERROR, /* the program failed by itself */
	OUTCOME_TIMEOUT,
	OUTCOME_MEMORY_LIMIT,
	OUTCOME_OUTPUT_LIMIT,
	OUTCOME_PROCESS_LIMIT,
	OUTCOME_CRASH,               /* a signal */
	OUTCOME_BUSY,                /* queue full, nothing ran */
	OUTCOME_SANDBOX_UNAVAILABLE, /* not reached, nothing ran */
	OUTCOME_SANDBOX_ERROR,       /* it answered, but not as it should */
	OUTCOME_CANCELLED,
	OUTCOME_KIND_COUNT
};

const char *outcome_kind_name(enum outcome_kind kind);

/* Something the program left behind. */
struct outcome_file {
	char *path;             /* as the program named it, cleaned; owned */
	char *data;             /* owned; NULL when it was not returned */
	size_t len;             /* bytes, also when data is NULL */
	char *reason;           /* why data is NULL; owned, or NULL */
	const char *media_type; /* from content; borrowed, static */
	bool figure;            /* to be shown as an image block */
	unsigned width, height; /* pixels of a figure, else 0 */
};

/* Everything known of an ended run. Strings are owned, clean UTF-8 without
 * NUL, or NULL when there is nothing to say. */
struct outcome {
	enum outcome_kind kind;
	bool has_returncode;
	int returncode;       /* as the sandbox gave it */
	char *text;           /* output, stderr merged, cleaned, bounded */
	size_t output_bytes;  /* all that the program wrote */
	bool truncated;       /* text is not all of it */
	char *whole;          /* all of it, cleaned, where text is cut */
	char *result;         /* repr of the last expression */
	char *error_message;  /* the exact error, one line */
	char *details;        /* one sentence for people: limit and cure */
	char *exception_type; /* "ValueError" */
	char *exception_message;
	long exception_line;        /* in the program, 0: unknown */
	char *traceback;            /* the user's frames only */
	struct outcome_file *files; /* owned; figures in order first */
	size_t n_files;
	uint64_t duration_ms; /* of the run itself */
};

/* Releases what the outcome owns; it is empty (OUTCOME_OK) afterwards. */
void outcome_done(struct outcome *outcome);

/* The sandbox's limits, for the texts and the "limits" of a result; 0 where
 * unknown. */
struct sandbox_limits {
	uint64_t time_ms;
	uint64_t memory_bytes;
	uint64_t output_bytes;
	uint64_t disk_bytes;
	uint64_t processes;
};

#endif
