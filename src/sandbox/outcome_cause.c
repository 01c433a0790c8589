#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "sandbox/outcome_cause.h"
#include "sandbox/outcome_fault.h"

#define RC_KILL 137
#define RC_TERM 143
#define RC_NO_EXEC 255
#define SLACK_MS 400 /* a kill by time comes within this */

/* A limit in words: "70 MiB", "6 s", "1,000,000"; or what to say when it is
 * not known. */
struct words {
	char text[64];
};

static struct words
bytes_words(uint64_t n, const char *unknown)
{
	struct words w;

	if (n == 0)
		snprintf(w.text, sizeof(w.text), "%s", unknown);
	else if (n >= 10 << 20)
		snprintf(w.text, sizeof(w.text), "%" PRIu64 " MiB", n >> 20);
	else
		snprintf(w.text, sizeof(w.text), "%" PRIu64 " KiB", n >> 10);
	return w;
}

static struct words
time_words(uint64_t ms)
{
	struct words w;

	snprintf(w.text, sizeof(w.text), "%g s", (double)ms / 1000);
	return w;
}

/* With commas between thousands. */
static struct words
count_words(uint64_t n)
{
	struct words w;
	char digits[32];
	size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n);
	size_t to = 0;

	for (size_t i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			w.text[to++] = ',';
		w.text[to++] = digits[i];
	}
	w.text[to] = '\0';
	return w;
}

static enum err
time_limit(const struct sandbox_limits *limits, struct outcome *outcome)
{
	struct words limit = time_words(limits->time_ms);
	enum err rc;

	outcome->kind = OUTCOME_TIMEOUT;
	if ((rc = outcome_say(&outcome->error_message,
		 "the time limit of %s was reached", limit.text)) != ERR_OK)
		return rc;
	return outcome_say(&outcome->details,
	    "The program was ended at the "
	    "time limit of %s; its output, figures and files up to then are "
	    "kept. Do less work in one call, or ask the operator for a longer "
	    "limit (setting sandbox_time_limit).",
	    limit.text);
}

static enum err
memory_limit(
    const struct sandbox_limits *limits, bool sure, struct outcome *outcome)
{
	struct words limit =
	    bytes_words(limits->memory_bytes, "that the sandbox allows");
	const char *of = limits->memory_bytes > 0 ? "the limit of " : "";
	enum err rc;

	outcome->kind = OUTCOME_MEMORY_LIMIT;
	if ((rc = outcome_say(&outcome->error_message,
		 "killed, %sbecause it "
		 "used more memory than %s%s",
		 sure ? "" : "most likely ", of, limit.text)) != ERR_OK)
		return rc;
	return outcome_say(&outcome->details,
	    "The program was killed (signal "
	    "9)%s: it used more memory than %s%s. Process the data in smaller "
	    "pieces; files in the working folder count too.",
	    sure ? "" : ", most likely for its memory", of, limit.text);
}

static enum err
output_limit(const struct sandbox_limits *limits, struct outcome *outcome)
{
	struct words limit = count_words(
	    limits->output_bytes > 0 ? limits->output_bytes : 1000000);
	enum err rc;

	outcome->kind = OUTCOME_OUTPUT_LIMIT;
	outcome->truncated = true;
	if ((rc = outcome_say(&outcome->error_message,
		 "the output limit of %s characters was reached",
		 limit.text)) != ERR_OK)
		return rc;
	return outcome_say(&outcome->details,
	    "The program was ended because "
	    "it wrote more than the output limit of %s characters; the first "
	    "part is kept. Print less, or write to a file.",
	    limit.text);
}

static enum err
process_limit(const struct sandbox_limits *limits, struct outcome *outcome)
{
	struct words limit = count_words(limits->processes);
	bool known = limits->processes > 0;

	outcome->kind = OUTCOME_PROCESS_LIMIT;
	return outcome_say(&outcome->details,
	    "The program started more "
	    "processes or threads than the sandbox allows%s%s%s; use fewer at "
	    "once.",
	    known ? " (" : "", known ? limit.text : "", known ? ")" : "");
}

static const char *
signal_name(int number)
{
	const char *name = sigabbrev_np(number);

	return name != NULL ? name : "?";
}

static enum err
crash(int number, struct outcome *outcome)
{
	enum err rc;

	outcome->kind = OUTCOME_CRASH;
	if ((rc = outcome_say(&outcome->error_message,
		 "the program was ended by signal %d (SIG%s)", number,
		 signal_name(number))) != ERR_OK)
		return rc;
	if (number == SIGKILL)
		return outcome_say(&outcome->details,
		    "The program was killed "
		    "(signal 9), by itself or for the memory it used; what it "
		    "wrote up to then is kept.");
	return outcome_say(&outcome->details,
	    "The program's process crashed "
	    "or was ended by signal %d (SIG%s), inside a library perhaps; "
	    "what it wrote up to then is kept.",
	    number, signal_name(number));
}

static bool
holds(const char *text, const char *part)
{
	return text != NULL && strstr(text, part) != NULL;
}

static bool
is_process_limit(const struct outcome *o)
{
	if (holds(o->exception_message, "can't start new thread"))
		return true;
	return o->exception_type != NULL &&
	    strcmp(o->exception_type, "BlockingIOError") == 0 &&
	    holds(o->exception_message, "[Errno 11]");
}

/* Exceptions whose cause is worth a sentence of its own. */
static enum err
explain(const struct report *report, const struct sandbox_limits *limits,
    struct outcome *o)
{
	struct words w;
	const char *type = o->exception_type;

	if (strcmp(type, "ModuleNotFoundError") == 0)
		return outcome_say(&o->details,
		    "The module is not installed "
		    "in the sandbox, and there is no network to install it "
		    "from; use what is there, or ask the operator to add it.");
	if (strcmp(type, "EOFError") == 0 && !report->had_input)
		return outcome_say(&o->details,
		    "There is no standard input: "
		    "give what the program shall read in the argument stdin.");
	if (strcmp(type, "MemoryError") == 0) {
		w = bytes_words(limits->memory_bytes, "unknown size");
		return outcome_say(&o->details,
		    "The program asked for more "
		    "memory than there is (memory limit: %s); process the data "
		    "in smaller pieces.",
		    w.text);
	}
	if (holds(o->exception_message, "[Errno 28]")) {
		w = bytes_words(limits->disk_bytes > 0 ? limits->disk_bytes
						       : report->disk_bytes,
		    "unknown size");
		return outcome_say(&o->details,
		    "The sandbox's disk is full "
		    "(limit: %s); write less, or delete what is not needed.",
		    w.text);
	}
	if (holds(o->exception_message, "[Errno 24]")) {
		w = count_words(report->descriptors);
		return outcome_say(&o->details,
		    "The program opened more files "
		    "than the sandbox allows at once (limit: %s descriptors); "
		    "close what is done.",
		    report->descriptors > 0 ? w.text : "few");
	}
	if (o->exception_line > 0)
		return outcome_say(&o->details,
		    "The program raised %s in line "
		    "%ld.",
		    type, o->exception_line);
	return outcome_say(&o->details, "The program raised %s.", type);
}

static enum err
exception(const struct report *report, const struct sandbox_limits *limits,
    struct outcome *o)
{
	const char *message = o->exception_message;
	size_t line = message != NULL ? strcspn(message, "\n") : 0;
	enum err rc;

	rc = outcome_say(&o->error_message, "%s%s%.*s", o->exception_type,
	    line > 0 ? ": " : "", (int)line, line > 0 ? message : "");
	if (rc != ERR_OK)
		return rc;
	if (is_process_limit(o))
		return process_limit(limits, o);
	return explain(report, limits, o);
}

/* The runner saw the program's end: what it says holds, whatever the code. */
static enum err
told(const struct report *report, const struct sandbox_limits *limits,
    const char *killed_by, struct outcome *o)
{
	bool in_time = o->exception_type == NULL ||
	    strcmp(o->exception_type, "TimeLimitExceeded") != 0;
	enum err rc;

	if (strcmp(report->killed, "output") == 0)
		return output_limit(limits, o);
	if (strcmp(report->killed, "time") == 0 || (report->warned && !in_time))
		return time_limit(limits, o);
	if (report->signal == SIGKILL && strcmp(killed_by, "memory") == 0)
		return memory_limit(limits, true, o);
	if (report->signal == SIGKILL &&
	    (limits->memory_bytes == 0 ||
		report->rss_kib >= limits->memory_bytes / 1024 / 2))
		return memory_limit(limits, false, o);
	if (report->signal != 0)
		return crash(report->signal, o);
	if (o->returncode == 0)
		return ERR_OK;
	o->kind = OUTCOME_EXECUTION_ERROR;
	if (o->exception_type != NULL)
		return exception(report, limits, o);
	if ((rc = outcome_say(
		 &o->error_message, "exit code %d", o->returncode)) != ERR_OK)
		return rc;
	return outcome_say(&o->details,
	    "The program ended by itself with exit code %d.", o->returncode);
}

/* No end report: the runner was killed with the program, or never ran. */
static enum err
guess(const struct report *report, const struct sandbox_limits *limits,
    struct outcome *o)
{
	bool late =
	    limits->time_ms > 0 && o->duration_ms + SLACK_MS >= limits->time_ms;
	int code = o->returncode;
	enum err rc;

	if (code == RC_KILL)
		return late ? time_limit(limits, o)
			    : memory_limit(limits, false, o);
	if (code == RC_TERM && report->began)
		return output_limit(limits, o);
	if (code == RC_NO_EXEC && o->text == NULL && !report->began) {
		o->kind = OUTCOME_SANDBOX_ERROR;
		if ((rc = outcome_say(&o->error_message,
			 "the sandbox could not start Python")) != ERR_OK)
			return rc;
		return outcome_say(&o->details,
		    "Nothing ran; the sandbox's "
		    "own log tells why its interpreter did not start.");
	}
	if (code > 128 && code < 128 + NSIG)
		return crash(code - 128, o);
	if (code == 0 && !report->began)
		return ERR_OK;
	if (code == 0) {
		o->truncated = true;
		return outcome_say(&o->details,
		    "The program succeeded, but "
		    "the sandbox lost the end of its output.");
	}
	o->kind = OUTCOME_EXECUTION_ERROR;
	if ((rc = outcome_say(&o->error_message, "exit code %d", code)) !=
	    ERR_OK)
		return rc;
	return outcome_say(&o->details, "Python ended with exit code %d%s.",
	    code, report->began ? ", and the end of its output is lost" : "");
}

/* Adds a sentence to the details. */
static enum err
also_say(struct outcome *o, const char *sentence)
{
	CLEANUP_FREE char *before = STEAL_PTR(o->details);

	return outcome_say(&o->details, "%s%s%s", before != NULL ? before : "",
	    before != NULL ? " " : "", sentence);
}

static enum err
add_repair(const struct report *report, struct outcome *o)
{
	const cJSON *line = report_find(report, "repaired", NULL, NULL);
	const char *how = json_get_string(line, "how");
	CLEANUP_FREE char *sentence = NULL;
	enum err rc;

	if (how == NULL)
		return ERR_OK;
	rc = outcome_say(&sentence,
	    "The program did not compile as "
	    "written; it ran without its %s.",
	    strcmp(how, "fence") == 0 ? "Markdown fence"
		: strcmp(how, "indent") == 0
		? "common indentation"
		: "Markdown fence and common indentation");
	return rc != ERR_OK ? rc : also_say(o, sentence);
}

/* Says that figures are smaller than the program made them. */
static enum err
add_scaled(
    const struct report *report, const struct conf *conf, struct outcome *o)
{
	struct words side = count_words(conf->figures_pixels_max);
	CLEANUP_FREE char *sentence = NULL;
	const cJSON *line;
	unsigned n = 0;
	enum err rc;

	cJSON_ArrayForEach(line, report->lines)
	{
		n += report_number(line, "scaled", 1) > 0;
	}
	if (n == 0)
		return ERR_OK;
	rc = outcome_say(&sentence,
	    "%u figure%s drawn at a lower resolution, because figures may have "
	    "%s pixels a side (setting figures_pixels_max).",
	    n, n == 1 ? " was" : "s were", side.text);
	return rc != ERR_OK ? rc : also_say(o, sentence);
}

enum err
outcome_cause(const struct report *report, const struct conf *conf,
    const struct sandbox_limits *limits, const char *killed_by,
    struct outcome *outcome)
{
	enum err rc;

	if (report->ended)
		rc = told(report, limits, killed_by, outcome);
	else if (strcmp(killed_by, "time") == 0)
		rc = time_limit(limits, outcome);
	else if (strcmp(killed_by, "memory") == 0)
		rc = memory_limit(limits, true, outcome);
	else if (strcmp(killed_by, "output") == 0)
		rc = output_limit(limits, outcome);
	else
		rc = guess(report, limits, outcome);
	if (rc != ERR_OK || (rc = add_repair(report, outcome)) != ERR_OK)
		return rc;
	return add_scaled(report, conf, outcome);
}
