/*
 * The protocol between the runner and us, through the sandbox's standard
 * output (GS is the character 0x1d):
 *
 *	GS B nonce LF
 *	what the program wrote, coded
 *	GS E nonce LF
 *	lines of JSON
 *
 * Coded means: every byte is one character below U+0100, because a Snekbox
 * reads UTF-8 and counts characters; carriage return, NUL and GS are GS r,
 * GS 0 and GS GS, because a Snekbox turns the first into a line feed. So the
 * program can't write a mark, and the nonce, new for each request, keeps it
 * from forging one by other ways. Output without the first mark is not the
 * runner's and is taken as it is; without the second, the runner was killed.
 *
 * The first line is the runner's own:
 *	{"v":1, "exit": code it ended with, "signal": that ended the program,
 *	 "killed": "time" or "output" if the runner killed it, "soft": how often
 *	 TimeLimitExceeded was raised, "bytes": written in all, "ms": run,
 *	 "rss": KiB, "input": 1 with standard input, "fds" and "disk": how many
 *	 descriptors and bytes on disk there may be}
 * The others are objects with "t": "exception" (type, message, line,
 * traceback), "result" (text, type), "figure" (path, seen, scaled: a figure
 * left open), "saved" (path, seen: one the program saved), "file" (path, size,
 * at, safe: the name it travels under), "lost" (path, size, why), "stack"
 * (text of faulthandler), "repaired" (how), "more" and "cut". Times are
 * microseconds since the runner's start.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "sandbox/outcome.h"
#include "sandbox/outcome_cause.h"
#include "sandbox/outcome_fault.h"
#include "sandbox/outcome_files.h"
#include "sandbox/report.h"
#include "sandbox/text.h"

#define ANSWER_DEPTH 16
#define RETURNCODE_MAX 0x7fffffff
#define TOLD_MAX 131072 /* bytes of one text of the report */
#define MESSAGE_MAX 32768
#define TYPE_MAX 1024

/* The members of an answer, as raw text. */
struct answer {
	struct json_span output, returncode, files;
	struct json_span killed_by, duration; /* sandboxd's; len 0: absent */
};

static bool
get(const char *body, size_t len, const char *key, const char *first,
    struct json_span *ret_span)
{
	const char *path[] = { key, NULL };

	if (json_find(body, len, path, ret_span) != ERR_OK) {
		*ret_span = (struct json_span){ "", 0 };
		return false;
	}
	return ret_span->len > 0 && strchr(first, ret_span->at[0]) != NULL;
}

/* Reads the members; *ret_why is set when one is not as it should be. */
static enum err
read_answer(const struct sandbox_reply *reply, struct answer *ret_answer,
    const char **ret_why)
{
	struct json_fault fault = { .reason = "too deep" };
	const char *body = reply->body;
	size_t len = reply->body_len;
	enum err rc;

	*ret_why = NULL;
	if ((rc = json_check(body, len, ANSWER_DEPTH, &fault)) != ERR_OK) {
		*ret_why = fault.reason;
		return rc == ERR_NOMEM ? rc : ERR_OK;
	}
	if (!get(body, len, "stdout", "\"", &ret_answer->output))
		*ret_why = "it has no text \"stdout\"";
	else if (!get(body, len, "returncode", "-0123456789n",
		     &ret_answer->returncode))
		*ret_why = "it has no number \"returncode\"";
	else if (!get(body, len, "files", "[", &ret_answer->files) &&
	    ret_answer->files.len > 0)
		*ret_why = "\"files\" is no list";
	if (!get(body, len, "killed_by", "\"", &ret_answer->killed_by))
		ret_answer->killed_by.len = 0;
	if (!get(body, len, "duration_ms", "0123456789", &ret_answer->duration))
		ret_answer->duration.len = 0;
	return ERR_OK;
}

/* The program's output, cleaned and bounded. */
static enum err
set_text(const struct report *report, const struct conf *conf,
    struct outcome *outcome)
{
	const struct buf *raw = &report->output;
	CLEANUP_BUF struct buf clean = { .max = raw->len * 6 + 64 };
	CLEANUP_BUF struct buf text = { .max = conf->output_max + 256 };
	enum err rc;

	outcome->output_bytes = report->ended ? report->bytes : raw->len;
	if (raw->len == 0)
		return ERR_OK;
	if ((rc = text_clean(&clean, raw->data, raw->len)) != ERR_OK ||
	    (rc = text_bound(&text, buf_str(&clean), clean.len,
		 conf->output_max, &outcome->truncated)) != ERR_OK)
		return rc;
	if (outcome->truncated &&
	    (outcome->whole = buf_steal(&clean, NULL)) == NULL)
		return ERR_NOMEM;
	if (outcome->output_bytes > raw->len)
		outcome->truncated = true;
	outcome->text = buf_steal(&text, NULL);
	return outcome->text != NULL ? ERR_OK : ERR_NOMEM;
}

/* Sets a text from a line of the report, cleaned and bounded (the runner keeps
 * to less), when it is there. */
static enum err
take_text(const cJSON *line, const char *key, size_t max, char **ret_text)
{
	const char *text = json_get_string(line, key);
	size_t n = text != NULL ? strlen(text) : 0;
	CLEANUP_BUF struct buf clean = { .max = n * 6 + 64 };
	CLEANUP_BUF struct buf bound = { .max = max + 256 };
	bool cut;
	enum err rc;

	if (text == NULL)
		return ERR_OK;
	if ((rc = text_clean(&clean, text, n)) != ERR_OK ||
	    (rc = text_bound(&bound, buf_str(&clean), clean.len, max, &cut)) !=
		ERR_OK)
		return rc;
	free(*ret_text);
	*ret_text = buf_steal(&bound, NULL);
	return *ret_text != NULL ? ERR_OK : ERR_NOMEM;
}

static enum err
set_told(const struct report *report, struct outcome *outcome)
{
	const cJSON *e = report_find(report, "exception", NULL, NULL);
	const cJSON *value = report_find(report, "result", NULL, NULL);
	const cJSON *stack = report_find(report, "stack", NULL, NULL);
	enum err rc;

	outcome->exception_line = (long)report_number(e, "line", 1 << 30);
	if ((rc = take_text(value, "text", TOLD_MAX, &outcome->result)) !=
		ERR_OK ||
	    (rc = take_text(e, "type", TYPE_MAX, &outcome->exception_type)) !=
		ERR_OK ||
	    (rc = take_text(e, "message", MESSAGE_MAX,
		 &outcome->exception_message)) != ERR_OK ||
	    (rc = take_text(stack, "text", TOLD_MAX, &outcome->traceback)) !=
		ERR_OK)
		return rc;
	return take_text(e, "traceback", TOLD_MAX, &outcome->traceback);
}

static uint64_t
number_of(struct json_span span)
{
	return span.len > 0 ? strtoull(span.at, NULL, 10) : 0;
}

static void
set_numbers(const struct sandbox_reply *reply, const struct answer *answer,
    const struct report *report, struct outcome *outcome)
{
	long code = strtol(answer->returncode.at, NULL, 10);

	if (code >= -RETURNCODE_MAX && code <= RETURNCODE_MAX) {
		outcome->has_returncode = true;
		outcome->returncode = (int)code;
	}
	outcome->duration_ms = reply->duration_ms;
	if (report->ended)
		outcome->duration_ms = report->run_ms;
	if (answer->duration.len > 0)
		outcome->duration_ms = number_of(answer->duration);
}

/* The run itself: a return code came. */
static enum err
read_run(const struct sandbox_reply *reply, const struct conf *conf,
    const struct sandbox_limits *limits, const struct answer *answer,
    const struct report *report, struct outcome *outcome)
{
	CLEANUP_BUF struct buf killed = { .max = 64 };
	enum err rc;

	set_numbers(reply, answer, report, outcome);
	if ((rc = set_text(report, conf, outcome)) != ERR_OK ||
	    (rc = set_told(report, outcome)) != ERR_OK ||
	    (rc = outcome_files(answer->files, report, outcome)) != ERR_OK)
		return rc;
	if (answer->killed_by.len > 0 && answer->killed_by.len < 32)
		rc = json_string(answer->killed_by, &killed);
	if (rc == ERR_NOMEM)
		return rc;
	return outcome_cause(report, conf, limits, buf_str(&killed), outcome);
}

static enum err
read_output(const struct sandbox_reply *reply, const struct conf *conf,
    const struct sandbox_limits *limits, const struct answer *answer,
    struct outcome *outcome)
{
	CLEANUP_BUF struct buf output = { .max = answer->output.len };
	struct report report;
	enum err rc;

	if ((rc = json_string(answer->output, &output)) != ERR_OK)
		return rc;
	if (answer->returncode.at[0] == 'n')
		return outcome_no_returncode(
		    buf_str(&output), output.len, outcome);
	if ((rc = report_decode(buf_str(&output), output.len, &report)) !=
	    ERR_OK)
		return rc;
	rc = read_run(reply, conf, limits, answer, &report, outcome);
	report_done(&report);
	return rc;
}

static enum err
parse(const struct sandbox_reply *reply, const struct conf *conf,
    const struct sandbox_limits *limits, struct outcome *outcome)
{
	struct answer answer;
	const char *why;
	bool fault;
	enum err rc;

	outcome->duration_ms = reply->duration_ms;
	if ((rc = outcome_no_answer(reply, outcome, &fault)) != ERR_OK || fault)
		return rc;
	if ((rc = read_answer(reply, &answer, &why)) != ERR_OK)
		return rc;
	if (why != NULL)
		return outcome_bad_answer(reply, why, outcome);
	return read_output(reply, conf, limits, &answer, outcome);
}

enum err
outcome_parse(const struct sandbox_reply *reply, const struct conf *conf,
    const struct sandbox_limits *limits, struct outcome *ret_outcome)
{
	struct outcome outcome = { .kind = OUTCOME_OK };
	enum err rc = parse(reply, conf, limits, &outcome);

	if (rc != ERR_OK) {
		outcome_done(&outcome);
		return ERR_NOMEM;
	}
	*ret_outcome = outcome;
	return ERR_OK;
}
