#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "sandbox/media.h"
#include "sandbox/outcome.h"
#include "sandbox/runner_text.h"

#define BEGIN "\\u001dB0123abcd\\n"
#define END "\\u001dE0123abcd\\n"
#define FIRST(members) "{\\\"v\\\":1," members "}\\n"

static struct conf conf;
static struct sandbox_limits limits = { 6000, 73400320, 1000000, 50331648, 15 };

static int
set_up(void **state)
{
	(void)state;
	return conf_init(&conf) == ERR_OK ? 0 : -1;
}

static int
tear_down(void **state)
{
	(void)state;
	conf_done(&conf);
	return 0;
}

/* The outcome of a reply that came with HTTP 200. */
static struct outcome
outcome_of(const char *body, uint64_t duration_ms)
{
	struct sandbox_reply reply = { .http_status = 200,
		.body = body,
		.body_len = strlen(body),
		.duration_ms = duration_ms };
	struct outcome outcome;

	assert_int_equal(
	    outcome_parse(&reply, &conf, &limits, &outcome), ERR_OK);
	return outcome;
}

/* The outcome of output (a JSON string's inside), code and files. */
static struct outcome
run_of(const char *output, const char *code, const char *files,
    uint64_t duration_ms)
{
	CLEANUP_BUF struct buf body = { .max = 1 << 20 };

	assert_int_equal(buf_printf(&body,
			     "{\"stdout\": \"%s\", "
			     "\"returncode\": %s, \"files\": [%s]}",
			     output, code, files),
	    ERR_OK);
	return outcome_of(body.data, duration_ms);
}

static void
assert_holds(const char *text, const char *part)
{
	assert_non_null(text);
	if (strstr(text, part) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void
assert_ended(const struct outcome *o, enum outcome_kind kind,
    const char *message, const char *details)
{
	assert_string_equal(
	    outcome_kind_name(o->kind), outcome_kind_name(kind));
	assert_holds(o->error_message, message);
	assert_holds(o->details, details);
}

/* ---- requests ---- */

static enum err
request_of(struct buf *out, const struct sandbox_job *job, uint64_t time_ms)
{
	struct conf set = { .figures_pixels_max = 1234 };
	struct sandbox_limits apply = { .time_ms = time_ms,
		.output_bytes = 77000 };

	return outcome_request(out, job, &set, &apply);
}

static void
a_request_holds_runner_program_input_and_files(void **state)
{
	struct sandbox_file file = { (char *)"d/\"x\n.bin", (char *)"\0\xff",
		2 };
	struct sandbox_job job = { .code = (char *)"print(1)",
		.code_len = 8,
		.input = (char *)"in",
		.input_len = 2,
		.files = &file,
		.n_files = 1,
		.timeout_ms = 2500 };
	CLEANUP_BUF struct buf out = { .max = 1 << 20 };
	CLEANUP_JSON cJSON *json = NULL;
	const cJSON *files, *args;
	int n;

	(void)state;
	assert_int_equal(request_of(&out, &job, 2500), ERR_OK);
	assert_int_equal(json_parse(out.data, out.len, 8, &json, NULL), ERR_OK);
	args = json_get(json, "args");
	assert_string_equal(
	    cJSON_GetArrayItem(args, 1)->valuestring, ".sandbox/runner.py");
	assert_int_equal(strlen(cJSON_GetArrayItem(args, 2)->valuestring), 32);
	assert_string_equal(cJSON_GetArrayItem(args, 3)->valuestring, "2500");
	assert_string_equal(cJSON_GetArrayItem(args, 4)->valuestring, "77000");
	assert_string_equal(cJSON_GetArrayItem(args, 5)->valuestring, "if");
	assert_string_equal(cJSON_GetArrayItem(args, 6)->valuestring, "1234");
	assert_true(json_get(json, "timeout")->valuedouble == 2.5);
	files = json_get(json, "files");
	n = cJSON_GetArraySize(files);
	assert_int_equal(n, (int)runner_files_count + 3);
	assert_string_equal(
	    json_get_string(cJSON_GetArrayItem(files, n - 1), "path"),
	    "main.py");
	assert_string_equal(
	    json_get_string(cJSON_GetArrayItem(files, n - 1), "content"),
	    "cHJpbnQoMSk=");
	assert_string_equal(
	    json_get_string(cJSON_GetArrayItem(files, n - 3), "path"),
	    ".sandbox/files");
	/* "2 <hex of d/"x LF .bin>" LF LF, and the two bytes */
	assert_string_equal(
	    json_get_string(cJSON_GetArrayItem(files, n - 3), "content"),
	    "MiA2NDJmMjI3ODBhMmU2MjY5NmUKCgD/");
}

static void
no_two_requests_have_the_same_nonce(void **state)
{
	struct sandbox_job job = { .code = (char *)"", .code_len = 0 };
	CLEANUP_BUF struct buf one = { .max = 1 << 20 };
	CLEANUP_BUF struct buf two = { .max = 1 << 20 };

	(void)state;
	assert_int_equal(request_of(&one, &job, 6000), ERR_OK);
	assert_int_equal(request_of(&two, &job, 6000), ERR_OK);
	assert_int_equal(one.len, two.len);
	assert_memory_not_equal(one.data, two.data, one.len);
}

static void
a_request_larger_than_its_buffer_is_refused(void **state)
{
	struct sandbox_job job = { .code = (char *)"x", .code_len = 1 };
	CLEANUP_BUF struct buf out = { .max = 5000 };

	(void)state;
	assert_int_equal(request_of(&out, &job, 6000), ERR_LIMIT);
	buf_done(&out);
	assert_int_equal(outcome_request_plain(&out, &job), ERR_OK);
	assert_string_equal(out.data,
	    "{\"args\":[\"main.py\"],\"files\":["
	    "{\"path\":\"main.py\",\"content\":\"eA==\"}]}");
}

static void
the_runner_is_embedded_whole(void **state)
{
	size_t found = 0;

	(void)state;
	for (size_t i = 0; i < runner_files_count; i++) {
		assert_int_equal(
		    strlen(runner_files[i].text), runner_files[i].len);
		if (strcmp(runner_files[i].name, "runner.py") == 0 &&
		    strstr(runner_files[i].text, "def fork():") != NULL)
			found++;
	}
	assert_int_equal(found, 1);
}

/* ---- what the runner tells ---- */

static void
output_arrives_byte_for_byte(void **state)
{
	struct outcome o = run_of(BEGIN
	    "caf\u00c3\u00a9 \u00ff a\\u001d0b\\u001d\\u001dE\\u001drX" END
		FIRST("\\\"exit\\\":0,\\\"bytes\\\":15,\\\"ms\\\":12"),
	    "0", "", 40);

	(void)state;
	assert_int_equal(o.kind, OUTCOME_OK);
	/* the carriage return takes the line's beginning back */
	assert_string_equal(o.text, "Xafé � a␀b␝E");
	assert_int_equal(o.output_bytes, 15);
	assert_int_equal(o.duration_ms, 12);
	assert_false(o.truncated);
	assert_null(o.details);
	outcome_done(&o);
}

static void
a_mark_inside_of_output_ends_nothing(void **state)
{
	struct outcome o = run_of(BEGIN
	    "\\u001d\\u001dE0123abcd\\n{}\\u001dEother\\nreal" END FIRST(
		"\\\"exit\\\":0,\\\"bytes\\\":9"),
	    "0", "", 40);

	(void)state;
	assert_string_equal(o.text, "␝E0123abcd\n{}Eother\nreal");
	outcome_done(&o);
}

static void
an_exception_is_told_in_its_parts(void **state)
{
	struct outcome o = run_of(BEGIN
	    "out" END FIRST(
		"\\\"exit\\\":1,\\\"bytes\\\":3") "{\\\"t\\\":"
						  "\\\"exception\\\","
						  "\\\"type\\\":"
						  "\\\"KeyError\\\","
						  "\\\"message\\\":"
						  "\\\"a\\\\nb\\\","
						  "\\\"line\\\":3,"
						  "\\\"traceback\\\":"
						  "\\\"Traceback\\\\n\\\\u001b["
						  "1mx\\\"}\\n"
						  "{\\\"t\\\":\\\"result\\\","
						  "\\\"text\\\":\\\"42\\\"}\\n"
						  "not json\\n",
	    "1", "", 40);

	(void)state;
	assert_ended(&o, OUTCOME_EXECUTION_ERROR, "KeyError: a", "line 3");
	assert_string_equal(o.error_message, "KeyError: a");
	assert_string_equal(o.exception_type, "KeyError");
	assert_string_equal(o.exception_message, "a\nb");
	assert_string_equal(o.traceback, "Traceback\nx");
	assert_string_equal(o.result, "42");
	assert_int_equal(o.exception_line, 3);
	outcome_done(&o);
}

#define EXCEPTION(type, message) \
	"{\\\"t\\\":\\\"exception\\\",\\\"type\\\":" \
	"\\\"" type "\\\",\\\"message\\\":\\\"" message "\\\",\\\"line\\\":2," \
	"\\\"traceback\\\":\\\"T\\\"}\\n"

/* How a run ended, by report, code and time; and what is said. */
static const struct cause {
	const char *output, *code;
	uint64_t duration_ms;
	enum outcome_kind kind;
	const char *message, *details;
} causes[] = {
	/* the runner's word holds, whatever the code */
	{ BEGIN END FIRST("\\\"exit\\\":137"), "137", 100,
	    OUTCOME_EXECUTION_ERROR, "exit code 137", "by itself" },
	{ BEGIN END FIRST("\\\"exit\\\":143"), "143", 5990,
	    OUTCOME_EXECUTION_ERROR, "exit code 143", "by itself" },
	{ BEGIN END FIRST("\\\"exit\\\":255"), "255", 100,
	    OUTCOME_EXECUTION_ERROR, "exit code 255", "by itself" },
	{ BEGIN END FIRST("\\\"killed\\\":\\\"time\\\",\\\"signal\\\":9"),
	    "137", 5700, OUTCOME_TIMEOUT, "time limit of 6 s",
	    "sandbox_time_limit" },
	{ BEGIN END FIRST("\\\"soft\\\":1") EXCEPTION("TimeLimitExceeded", "x"),
	    "137", 5000, OUTCOME_TIMEOUT, "time limit of 6 s", "6 s" },
	{ BEGIN END FIRST("\\\"soft\\\":0")
		EXCEPTION("TimeLimitExceeded", "own"),
	    "1", 50, OUTCOME_EXECUTION_ERROR, "TimeLimitExceeded: own",
	    "line 2" },
	{ BEGIN END FIRST("\\\"killed\\\":\\\"output\\\",\\\"signal\\\":9"),
	    "143", 50, OUTCOME_OUTPUT_LIMIT, "1,000,000 characters",
	    "1,000,000 characters" },
	{ BEGIN END FIRST("\\\"signal\\\":9,\\\"rss\\\":60000"), "137", 100,
	    OUTCOME_MEMORY_LIMIT, "most likely", "70 MiB" },
	{ BEGIN END FIRST("\\\"signal\\\":9,\\\"rss\\\":9000"), "137", 100,
	    OUTCOME_CRASH, "signal 9 (SIGKILL)", "by itself or" },
	{ BEGIN END FIRST("\\\"signal\\\":11"), "139", 100, OUTCOME_CRASH,
	    "signal 11 (SIGSEGV)", "SIGSEGV" },
	{ BEGIN END FIRST("\\\"exit\\\":1") EXCEPTION("BlockingIOError",
	      "[Errno 11] Resource temporarily "
	      "unavailable"),
	    "1", 50, OUTCOME_PROCESS_LIMIT, "BlockingIOError",
	    "processes or threads than the sandbox allows (15)" },
	{ BEGIN END FIRST("\\\"exit\\\":1")
		EXCEPTION("RuntimeError", "can't start new thread"),
	    "1", 50, OUTCOME_PROCESS_LIMIT, "RuntimeError", "threads" },
	{ BEGIN END FIRST("\\\"exit\\\":1,\\\"input\\\":0")
		EXCEPTION("EOFError", "EOF"),
	    "1", 50, OUTCOME_EXECUTION_ERROR, "EOFError: EOF",
	    "argument stdin" },
	{ BEGIN END FIRST("\\\"exit\\\":1,\\\"input\\\":1")
		EXCEPTION("EOFError", "EOF"),
	    "1", 50, OUTCOME_EXECUTION_ERROR, "EOFError: EOF",
	    "raised EOFError in line 2" },
	{ BEGIN END FIRST("\\\"exit\\\":1") EXCEPTION("MemoryError", ""), "1",
	    50, OUTCOME_EXECUTION_ERROR, "MemoryError", "70 MiB" },
	{ BEGIN END FIRST("\\\"exit\\\":1")
		EXCEPTION("OSError", "[Errno 28] No space left on device"),
	    "1", 50, OUTCOME_EXECUTION_ERROR, "OSError", "48 MiB" },
	{ BEGIN END FIRST("\\\"exit\\\":1")
		EXCEPTION("OSError", "[Errno 24] Too many open files"),
	    "1", 50, OUTCOME_EXECUTION_ERROR, "OSError", "at once" },
	{ BEGIN END FIRST("\\\"exit\\\":1")
		EXCEPTION("ModuleNotFoundError", "No module named 'x'"),
	    "1", 50, OUTCOME_EXECUTION_ERROR, "No module named",
	    "not installed" },
	/* no end report: code and time tell what they can */
	{ BEGIN "x", "137", 6030, OUTCOME_TIMEOUT, "6 s", "6 s" },
	{ BEGIN "x", "137", 900, OUTCOME_MEMORY_LIMIT, "most likely",
	    "70 MiB" },
	{ BEGIN "x", "143", 900, OUTCOME_OUTPUT_LIMIT, "1,000,000", "limit" },
	{ BEGIN "x", "139", 900, OUTCOME_CRASH, "SIGSEGV", "SIGSEGV" },
	{ BEGIN "x", "1", 900, OUTCOME_EXECUTION_ERROR, "exit code 1", "lost" },
	/* a mark without a report behind it is none */
	{ BEGIN "x" END "{}", "137", 900, OUTCOME_MEMORY_LIMIT, "likely",
	    "70 MiB" },
	/* no runner at all */
	{ "", "255", 30, OUTCOME_SANDBOX_ERROR, "could not start Python",
	    "Nothing ran" },
	{ "python: can't open file", "2", 30, OUTCOME_EXECUTION_ERROR,
	    "exit code 2", "exit code 2" },
};

static void
every_cause_of_death_is_told_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		struct outcome o = run_of(causes[i].output, causes[i].code, "",
		    causes[i].duration_ms);

		assert_ended(
		    &o, causes[i].kind, causes[i].message, causes[i].details);
		assert_true(o.has_returncode);
		outcome_done(&o);
	}
}

static void
output_whose_end_was_lost_is_said(void **state)
{
	struct outcome o = run_of(BEGIN "part", "0", "", 30);

	(void)state;
	assert_int_equal(o.kind, OUTCOME_OK);
	assert_true(o.truncated);
	assert_holds(o.details, "lost the end");
	outcome_done(&o);
}

static void
output_without_the_runner_is_taken_as_it_is(void **state)
{
	struct outcome o = run_of("a\\u001d\\u0000b", "0", "", 30);

	(void)state;
	assert_int_equal(o.kind, OUTCOME_OK);
	assert_string_equal(o.text, "a␝␀b");
	assert_int_equal(o.duration_ms, 30);
	outcome_done(&o);
}

static void
sandboxds_word_is_used_when_the_runner_is_silent(void **state)
{
	struct outcome o = outcome_of(
	    "{\"stdout\":\"" BEGIN "\",\"returncode\""
	    ":137,\"files\":[],\"killed_by\":\"memory\",\"duration_ms\":77}",
	    5990);

	(void)state;
	assert_ended(&o, OUTCOME_MEMORY_LIMIT, "killed, because", "70 MiB");
	assert_int_equal(o.duration_ms, 77);
	outcome_done(&o);
}

static void
a_repaired_program_is_said_to_be_one(void **state)
{
	struct outcome o = run_of(
	    BEGIN END FIRST("\\\"exit\\\":0") "{\\\"t\\\":\\\"repaired\\\","
					      "\\\"how\\\":\\\"fence\\\"}",
	    "0", "", 30);

	(void)state;
	assert_int_equal(o.kind, OUTCOME_OK);
	assert_holds(o.details, "Markdown fence");
	outcome_done(&o);
}

static void
long_output_is_bounded(void **state)
{
	CLEANUP_BUF struct buf output = { .max = 1 << 20 };
	struct outcome o;

	(void)state;
	assert_int_equal(buf_puts(&output, BEGIN), ERR_OK);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(buf_puts(&output, "0123456789"), ERR_OK);
	assert_int_equal(
	    buf_puts(&output, END FIRST("\\\"exit\\\":0,\\\"bytes\\\":200000")),
	    ERR_OK);
	o = run_of(output.data, "0", "", 30);
	assert_true(o.truncated);
	assert_true(strlen(o.text) <= conf.output_max);
	assert_int_equal(o.output_bytes, 200000);
	outcome_done(&o);
}

/* ---- files ---- */

/* 3 by 4 pixels */
#define PNG \
	"iVBORw0KGgoAAAANSUhEUgAAAAMAAAAECAIAAADETxJQAAAADElEQVR4nGNg" \
	"IA4AAAAoAAE1VHKEAAAAAElFTkSuQmCC"
#define FILE_(path, content) \
	"{\"path\":\"" path "\",\"size\":1," \
	"\"content\":\"" content "\"}"

static void
figures_come_first_in_the_order_of_their_creation(void **state)
{
	struct outcome o =
	    run_of(BEGIN END FIRST(
		       "\\\"exit\\\":0") "{\\\"t\\\":\\\"saved\\\","
					 "\\\"path\\\":\\\"b.png\\\","
					 "\\\"seen\\\":300}\\n"
					 "{\\\"t\\\":\\\"figure\\\","
					 "\\\"path\\\":\\\"__sandbox__/"
					 "figure-1.png\\\",\\\"seen\\\":200}\\n"
					 "{\\\"t\\\":\\\"file\\\",\\\"path\\\":"
					 "\\\"_c.png\\\",\\\"size\\\":3,"
					 "\\\"at\\\":100,\\\"safe\\\":\\\"__"
					 "sandbox__/file-1\\\"}\\n",
		"0",
		FILE_("a.txt", "eA==") "," FILE_("b.png", PNG) "," FILE_(
		    "main.py", "eA==") "," FILE_(".sandbox/runner.py",
		    "eA==") "," FILE_("x/__pycache__/m.pyc",
		    "eA==") "," FILE_("__sandbox__/unknown",
		    "eA==") "," FILE_("__sandbox__/figure-1.png",
		    PNG) "," FILE_("__sandbox__/file-1", PNG),
		30);
	static const char *const names[] = { "_c.png", "figure-1.png", "b.png",
		"a.txt" };

	(void)state;
	assert_int_equal(o.n_files, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(o.files[i].path, names[i]);
		assert_int_equal(o.files[i].figure, i < 3);
	}
	assert_int_equal(o.files[0].width, 3);
	assert_int_equal(o.files[0].height, 4);
	assert_string_equal(o.files[3].media_type, "text/plain");
	assert_memory_equal(o.files[3].data, "x", 1);
	outcome_done(&o);
}

static void
files_that_did_not_come_are_listed_with_the_reason(void **state)
{
	struct outcome o =
	    run_of(BEGIN END FIRST(
		       "\\\"exit\\\":0") "{\\\"t\\\":\\\"lost\\\",\\\"path\\\":"
					 "\\\"link\\\",\\\"size\\\":9,"
					 "\\\"why\\\":\\\"it was a symbolic "
					 "link\\\"}\\n"
					 "{\\\"t\\\":\\\"file\\\",\\\"path\\\":"
					 "\\\"big\\\","
					 "\\\"size\\\":77}\\n"
					 "{\\\"t\\\":\\\"file\\\",\\\"path\\\":"
					 "\\\"here\\\","
					 "\\\"size\\\":1}\\n",
		"0",
		FILE_("here", "eA==") "," FILE_(
		    "broken", "%%") ","
				    "5"
				    ","
				    "{\"path\":7}"
				    "," FILE_("new\\nline", ""),
		30);
	const struct outcome_file *f = o.files;

	(void)state;
	assert_int_equal(o.n_files, 5);
	assert_string_equal(f[0].path, "big");
	assert_int_equal(f[0].len, 77);
	assert_null(f[0].data);
	assert_holds(f[0].reason, "did not return");
	assert_string_equal(f[1].path, "broken");
	assert_holds(f[1].reason, "malformed");
	assert_string_equal(f[2].path, "here");
	assert_null(f[2].reason);
	assert_holds(f[3].reason, "symbolic link");
	assert_string_equal(f[4].path, "new␊line");
	assert_int_equal(f[4].len, 0);
	assert_non_null(f[4].data);
	outcome_done(&o);
}

static void
media_types_come_from_content(void **state)
{
	static const struct {
		const char *name, *data;
		size_t n;
		const char *type;
		unsigned width, height;
	} rows[] = {
		{ "fake.png", "text", 4, "text/plain", 0, 0 },
		{ "x", "", 0, "text/plain", 0, 0 },
		{ "x.csv", "a,b\n", 4, "text/csv", 0, 0 },
		{ "x", "<?xml version=\"1.0\"?><svg/>", 27, "image/svg+xml", 0,
		    0 },
		{ "x.txt", "<!DOCTYPE HTML>", 15, "text/html", 0, 0 },
		{ "x", "%PDF-1.4\n%\xe2\xe3", 11, "application/pdf", 0, 0 },
		{ "x",
		    "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\0\0\0\0\1"
		    "\0\0\0\0\0\0\0\0\0",
		    33, "application/octet-stream", 0, 0 },
		{ "x",
		    "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\1"
		    "\0\0\0\0\0\0\0\0\0",
		    33, "image/png", 2, 1 },
		{ "x", "GIF89a\5\0\6\0\0\0\0", 13, "image/gif", 5, 6 },
		{ "x", "\xff\xd8\xff\xe0\0\4ab\xff\xc2\0\x11\x08\0\x10\0\x20\3",
		    18, "image/jpeg", 32, 16 },
		{ "x", "\xff\xd8\xff\xe0\0\4ab\xff\xd9\0\x11\x08\0\x10\0\x20\3",
		    18, "application/octet-stream", 0, 0 },
		{ "x", "RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x09\0\0\x13\0\0",
		    30, "image/webp", 10, 20 },
		{ "BMI", "BMI: 22.5\n", 10, "text/plain", 0, 0 },
		{ "x", "PK\3\4........xl/workbook.xml", 27,
		    "application/vnd.openxmlformats-officedocument."
		    "spreadsheetml.sheet",
		    0, 0 },
		{ "x", "\0\1\2", 3, "application/octet-stream", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct media m =
		    media_sniff(rows[i].name, rows[i].data, rows[i].n);

		assert_string_equal(m.type, rows[i].type);
		assert_int_equal(m.width, rows[i].width);
		assert_int_equal(m.height, rows[i].height);
	}
}

/* A sandbox that lies must not make us fail. */
static void
texts_of_the_report_are_bounded(void **state)
{
	static const char *const keys[] = { "type", "message", "traceback" };
	CLEANUP_BUF struct buf long_text = { .max = 1 << 22 };
	CLEANUP_BUF struct buf body = { .max = 1 << 24 };
	struct outcome o;

	(void)state;
	for (int i = 0; i < 200000; i++)
		assert_int_equal(buf_puts(&long_text, "\\\\u0001"), ERR_OK);
	assert_int_equal(
	    buf_puts(&body,
		"{\"stdout\": \"" BEGIN END FIRST(
		    "\\\"exit\\\":1") "{\\\"t\\\":\\\"exception\\\""),
	    ERR_OK);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(buf_printf(&body, ",\\\"%s\\\":\\\"%s\\\"",
				     keys[i], long_text.data),
		    ERR_OK);
	assert_int_equal(buf_puts(&body, "}\\n\", \"returncode\": 1}"), ERR_OK);
	o = outcome_of(body.data, 30);
	assert_int_equal(o.kind, OUTCOME_EXECUTION_ERROR);
	assert_true(strlen(o.exception_type) < 2000);
	assert_true(strlen(o.exception_message) < 40000);
	assert_true(strlen(o.traceback) < 200000);
	outcome_done(&o);
}

/* An image that breaks off would be refused with all that comes with it. */
static void
images_that_break_off_are_no_figures(void **state)
{
	static const unsigned char gif[] = "GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1"
					   "\0\1\0\0\2\2D\1\0;";
	static const unsigned char jpeg[] =
	    "\xff\xd8\xff\xc0\0\x11\x08\0\1\0\1\3\1\x11\0\2\x11\1\3"
	    "\x11\1\xff\xda\0\0\xff\xd9";
	static const unsigned char webp[] =
	    "RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x09\0\0\x13\0\0";
	CLEANUP_BUF struct buf png = { .max = 1024 };
	struct row {
		const void *data;
		size_t n;
	} rows[] = { { gif, sizeof(gif) - 1 }, { jpeg, sizeof(jpeg) - 1 },
		{ webp, sizeof(webp) - 1 }, { NULL, 0 } };

	(void)state;
	assert_int_equal(base64_decode(&png, PNG, strlen(PNG)), ERR_OK);
	rows[3] = (struct row){ png.data, png.len };
	for (size_t i = 0; i < 4; i++) {
		assert_true(media_sniff("x", rows[i].data, rows[i].n).raster);
		for (size_t n = 0; n < rows[i].n; n++) {
			CLEANUP_FREE void *part = malloc(n + 1);

			assert_non_null(part);
			memcpy(part, rows[i].data, n);
			assert_false(media_sniff("x", part, n).raster);
		}
	}
}

/* ---- answers that are none ---- */

static const struct {
	struct sandbox_reply reply;
	enum outcome_kind kind;
	const char *message, *details;
} faults[] = {
	{ { .transport = ERR_NOT_FOUND, .transport_text = "refused" },
	    OUTCOME_SANDBOX_UNAVAILABLE, "refused", "snekbox_url" },
	{ { .transport = ERR_TIMEOUT }, OUTCOME_SANDBOX_UNAVAILABLE,
	    "did not answer in time", "sandbox_reply_timeout" },
	{ { .transport = ERR_CLOSED, .transport_text = "empty reply" },
	    OUTCOME_SANDBOX_ERROR, "empty reply", "may have run" },
	{ { .transport = ERR_LIMIT }, OUTCOME_SANDBOX_ERROR, "too large",
	    "sandbox_reply_max" },
	{ { .transport = ERR_SYS }, OUTCOME_SANDBOX_ERROR, "failed",
	    "may have run" },
	{ { .http_status = 400,
	      .body = "{\"title\": \"Request data failed "
		      "validation\", \"description\": \"1 is not\"}" },
	    OUTCOME_SANDBOX_ERROR, "failed validation: 1 is not",
	    "Nothing ran" },
	{ { .http_status = 404, .body = "{\"title\":\"404 Not Found\"}" },
	    OUTCOME_SANDBOX_ERROR, "404 Not Found", "/eval" },
	{ { .http_status = 415, .body = "{\"title\":\"415\"}" },
	    OUTCOME_SANDBOX_ERROR, "HTTP 415", "no Snekbox" },
	{ { .http_status = 500, .body = "" }, OUTCOME_SANDBOX_ERROR,
	    "HTTP 500, an empty body", "may have run" },
	{ { .http_status = 502, .body = "<html>\n<h1>Bad\x1b[1m Gateway" },
	    OUTCOME_SANDBOX_ERROR, "<html> <h1>Bad Gateway", "may have run" },
	{ { .http_status = 503, .body = "{}" }, OUTCOME_BUSY, "busy",
	    "try again" },
	{ { .http_status = 200, .body = "" }, OUTCOME_SANDBOX_ERROR,
	    "not as it should be", "an empty body" },
	{ { .http_status = 200, .body = "<html>" }, OUTCOME_SANDBOX_ERROR,
	    "not as it should be", "<html>" },
	{ { .http_status = 200, .body = "[]" }, OUTCOME_SANDBOX_ERROR, "stdout",
	    "no Snekbox" },
	{ { .http_status = 200, .body = "{\"stdout\":5,\"returncode\":0}" },
	    OUTCOME_SANDBOX_ERROR, "stdout", "no Snekbox" },
	{ { .http_status = 200,
	      .body = "{\"stdout\":\"\",\"returncode\":"
		      "\"x\"}" },
	    OUTCOME_SANDBOX_ERROR, "returncode", "no Snekbox" },
	{ { .http_status = 200,
	      .body = "{\"stdout\":\"\",\"returncode\":0,"
		      "\"files\":{}}" },
	    OUTCOME_SANDBOX_ERROR, "files", "no Snekbox" },
	{ { .http_status = 200, .body = "{\"stdout\": \"a\", \"retu" },
	    OUTCOME_SANDBOX_ERROR, "not as it should be", "no Snekbox" },
	{ { .http_status = 200,
	      .body = "{\"stdout\":\"UnicodeDecodeError: "
		      "invalid Unicode in output pipe\",\"returncode\":null,"
		      "\"files\":[]}" },
	    OUTCOME_SANDBOX_ERROR, "no return code", "not UTF-8" },
	{ { .http_status = 200,
	      .body = "{\"stdout\":\"FileParsingError: "
		      "invalid bytes in filename while parsing attachments\","
		      "\"returncode\":null,\"files\":[]}" },
	    OUTCOME_SANDBOX_ERROR, "invalid bytes", "name is not UTF-8" },
};

static void
every_fault_of_a_sandbox_has_its_own_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct sandbox_reply reply = faults[i].reply;
		struct outcome o;

		reply.body_len = reply.body != NULL ? strlen(reply.body) : 0;
		assert_int_equal(
		    outcome_parse(&reply, &conf, &limits, &o), ERR_OK);
		assert_ended(
		    &o, faults[i].kind, faults[i].message, faults[i].details);
		assert_false(o.has_returncode);
		outcome_done(&o);
	}
}

static void
unknown_limits_are_not_invented(void **state)
{
	struct sandbox_limits none = { 0, 0, 0, 0, 0 };
	const char *body = "{\"stdout\":\"" BEGIN "\",\"returncode\":137,"
			   "\"files\":[]}";
	struct sandbox_reply reply = { .http_status = 200,
		.body = body,
		.body_len = strlen(body),
		.duration_ms = 9000 };
	struct outcome o;

	(void)state;
	assert_int_equal(outcome_parse(&reply, &conf, &none, &o), ERR_OK);
	assert_ended(
	    &o, OUTCOME_MEMORY_LIMIT, "most likely", "that the sandbox allows");
	outcome_done(&o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
		    a_request_holds_runner_program_input_and_files),
		cmocka_unit_test(no_two_requests_have_the_same_nonce),
		cmocka_unit_test(a_request_larger_than_its_buffer_is_refused),
		cmocka_unit_test(the_runner_is_embedded_whole),
		cmocka_unit_test(output_arrives_byte_for_byte),
		cmocka_unit_test(a_mark_inside_of_output_ends_nothing),
		cmocka_unit_test(an_exception_is_told_in_its_parts),
		cmocka_unit_test(every_cause_of_death_is_told_apart),
		cmocka_unit_test(output_whose_end_was_lost_is_said),
		cmocka_unit_test(output_without_the_runner_is_taken_as_it_is),
		cmocka_unit_test(
		    sandboxds_word_is_used_when_the_runner_is_silent),
		cmocka_unit_test(a_repaired_program_is_said_to_be_one),
		cmocka_unit_test(long_output_is_bounded),
		cmocka_unit_test(
		    figures_come_first_in_the_order_of_their_creation),
		cmocka_unit_test(
		    files_that_did_not_come_are_listed_with_the_reason),
		cmocka_unit_test(media_types_come_from_content),
		cmocka_unit_test(texts_of_the_report_are_bounded),
		cmocka_unit_test(images_that_break_off_are_no_figures),
		cmocka_unit_test(every_fault_of_a_sandbox_has_its_own_text),
		cmocka_unit_test(unknown_limits_are_not_invented),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
