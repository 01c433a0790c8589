/*
 * The body of POST /eval, decoded and checked as Snekbox checks it, with its
 * words for what is wrong. Reads no files and runs nothing: see
 * tests/fuzz/fuzz_eval_request.c.
 */
#ifndef SANDBOXD_REQUEST_H
#define SANDBOXD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "sandboxd/value.h"

#define REQUEST_ARG_MAX 131071 /* longest argument that Linux executes */

struct request_file {
	char *path;        /* relative, normalised, "" for the folder
				 * itself; owned */
	const char *given; /* as it was sent; borrowed from the body */
	size_t given_len;
	const char *data; /* decoded; borrowed from the body */
	size_t len;
};

struct request_rules {
	unsigned json_depth;
	uint64_t time_limit_ms;
};

struct request {
	struct value_doc doc;
	char **args; /* owned array of borrowed strings; args[0] is
				 * left for the interpreter; NULL at the end */
	size_t n_args;
	struct request_file *files; /* owned */
	size_t n_files;
	const char *executable; /* "" for the default; borrowed */
	const char *input;      /* standard input; borrowed */
	size_t input_len;
	uint64_t timeout_ms;
	bool split_stderr;
	const char *refusal; /* not NULL: Snekbox can't run it and answers
				 * 200 with this text and no return code */
};

/* Why a body is refused. */
struct request_fault {
	int status;
	const char *title;      /* borrowed, static */
	struct buf description; /* may be empty: there is none */
};

/* Decodes n bytes of body (JSON, or a form), which has room for one more byte,
 * is changed, and must outlive the request. ERR_PARSE with *fault filled,
 * ERR_NOMEM. Release both with their done function in every case. */
enum err
request_decode(struct request *req, struct request_fault *fault, char *body,
    size_t n, bool form, const struct request_rules *rules) MUST_CHECK;

void request_done(struct request *req);
void request_fault_done(struct request_fault *fault);

/* Refuses with that status and title, and a description or NULL. Returns
 * ERR_PARSE. */
enum err request_refuse(struct request_fault *fault, int status,
    const char *title, const char *description) MUST_CHECK;

#endif
