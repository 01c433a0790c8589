/* Files over HTTP: what is answered to whom, and with which head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "mcp/artifact.h"
#include "transport/route.h"

#define DATA "0123456789"

struct env {
	struct conf conf;
	struct transport transport;
	struct artifacts *store;
	char dir[64];
	char id[ARTIFACT_ID_LEN + 1];
	char uri[400];
};

/* ---- pure parts ---------------------------------------------------------- */

static void
ranges_are_read_as_the_standard_says(void **state)
{
	static const struct {
		const char *field;
		enum http_range range;
		uint64_t at, len;
	} rows[] = {
		{ NULL, HTTP_RANGE_NONE, 0, 0 },
		{ "", HTTP_RANGE_NONE, 0, 0 },
		{ "bytes=0-0", HTTP_RANGE_PART, 0, 1 },
		{ "bytes=0-9", HTTP_RANGE_PART, 0, 10 },
		{ "bytes=0-10", HTTP_RANGE_PART, 0, 10 },
		{ "bytes=3-", HTTP_RANGE_PART, 3, 7 },
		{ "bytes=9-", HTTP_RANGE_PART, 9, 1 },
		{ "bytes=10-", HTTP_RANGE_BEYOND, 0, 0 },
		{ "bytes=10-20", HTTP_RANGE_BEYOND, 0, 0 },
		{ "bytes=-3", HTTP_RANGE_PART, 7, 3 },
		{ "bytes=-30", HTTP_RANGE_PART, 0, 10 },
		{ "bytes=-0", HTTP_RANGE_BEYOND, 0, 0 },
		{ "Bytes = 2-4 ", HTTP_RANGE_PART, 2, 3 },
		{ "bytes=5-2", HTTP_RANGE_NONE, 0, 0 },
		{ "bytes=0-1,3-4", HTTP_RANGE_NONE, 0, 0 },
		{ "bytes=-", HTTP_RANGE_NONE, 0, 0 },
		{ "bytes=--1", HTTP_RANGE_NONE, 0, 0 },
		{ "bytes=a-b", HTTP_RANGE_NONE, 0, 0 },
		{ "bytes=1-2x", HTTP_RANGE_NONE, 0, 0 },
		{ "bytes", HTTP_RANGE_NONE, 0, 0 },
		{ "lines=1-2", HTTP_RANGE_NONE, 0, 0 },
		{ "bytes=0-99999999999999999999999", HTTP_RANGE_PART, 0, 10 },
		{ "bytes=99999999999999999999999-", HTTP_RANGE_BEYOND, 0, 0 },
		{ "bytes=-18446744073709551616", HTTP_RANGE_PART, 0, 10 },
		{ "bytes=0-18446744073709551615", HTTP_RANGE_PART, 0, 10 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t at = 0, len = 0;

		if (http_range(rows[i].field, 10, &at, &len) != rows[i].range ||
		    at != rows[i].at || len != rows[i].len)
			fail_msg("%s: %d-%d", rows[i].field, (int)at, (int)len);
	}
}

static void
nothing_can_be_a_part_of_an_empty_file(void **state)
{
	uint64_t at, len;

	(void)state;
	assert_int_equal(
	    http_range("bytes=0-", 0, &at, &len), HTTP_RANGE_BEYOND);
	assert_int_equal(
	    http_range("bytes=-5", 0, &at, &len), HTTP_RANGE_BEYOND);
	assert_int_equal(http_range(NULL, 0, &at, &len), HTTP_RANGE_NONE);
}

static void
tags_are_found_in_lists(void **state)
{
	static const char *const yes[] = { "\"a\"", "*", " W/\"a\"",
		"\"b\", \"a\"", "\"b\",W/\"a\" , \"c\"", "\"b\" ,\t\"a\"" };
	static const char *const no[] = { NULL, "", "a", "\"b\"", "\"a\"x",
		"\"aa\"", "\"A\"", "x\"a\"" };

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (!http_etag_listed(yes[i], "\"a\""))
			fail_msg("%s", yes[i]);
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		if (http_etag_listed(no[i], "\"a\""))
			fail_msg("%s", no[i]);
	}
}

static void
names_in_headers_are_safe_and_true(void **state)
{
	static const struct {
		const char *name, *value;
	} rows[] = {
		{ "a b.txt", "attachment; filename=\"a b.txt\"" },
		{ "\xe5\x9b\xbe.csv",
		    "attachment; filename=\"_.csv\"; "
		    "filename*=UTF-8''%E5%9B%BE.csv" },
		{ "a\"b\\c/d.x",
		    "attachment; filename=\"a_b_c_d.x\"; "
		    "filename*=UTF-8''a%22b_c_d.x" },
		{ "100%.png",
		    "attachment; filename=\"100_.png\"; "
		    "filename*=UTF-8''100%25.png" },
		{ "a\r\nSet-Cookie: x",
		    "attachment; filename=\"a__Set-Cookie: x\"" },
		{ "a;b='c'", "attachment; filename=\"a;b='c'\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_BUF struct buf out = { .max = 1024 };

		assert_int_equal(
		    http_disposition(&out, false, rows[i].name), ERR_OK);
		assert_string_equal(buf_str(&out), rows[i].value);
	}
}

/* ---- requests ------------------------------------------------------------ */

static void
keep(struct env *env, const char *name, const char *type, const char *data,
    size_t len)
{
	struct artifact_new new = { .name = name,
		.type = type,
		.owner = "",
		.data = data,
		.len = len };
	struct artifact_fault fault;
	CLEANUP_BUF struct buf ref = { .max = 400 };

	assert_int_equal(
	    artifact_put(env->store, &new, env->id, &fault), ERR_OK);
	assert_int_equal(artifact_ref(&ref, env->id, name), ERR_OK);
	snprintf(env->uri, sizeof(env->uri), "/tools/py/files/%s", ref.data);
}

static int
setup(void **state)
{
	struct env *env = calloc(1, sizeof(*env));
	struct conf_fault fault;
	const char *why;

	snprintf(env->dir, sizeof(env->dir), "/tmp/files-test-XXXXXX");
	if (mkdtemp(env->dir) == NULL || conf_init(&env->conf) != ERR_OK ||
	    conf_set(&env->conf, "artifact_dir", env->dir, &fault) != ERR_OK ||
	    artifacts_open(&env->conf, &env->store, &why) != ERR_OK ||
	    transport_init(&env->transport, &env->conf, &fault) != ERR_OK)
		return -1;
	env->transport.artifacts = env->store;
	keep(env, "a.png", "image/png", DATA, strlen(DATA));
	*state = env;
	return 0;
}

static int
teardown(void **state)
{
	struct env *env = *state;
	DIR *dir = opendir(env->dir);
	struct dirent *e;

	while ((e = readdir(dir)) != NULL)
		unlinkat(dirfd(dir), e->d_name, 0);
	closedir(dir);
	rmdir(env->dir);
	transport_done(&env->transport);
	artifacts_close(env->store);
	conf_done(&env->conf);
	free(env);
	return 0;
}

static struct exchange *
ask(struct env *env, const char *method, const char *uri, const char *field)
{
	struct exchange *exchange = exchange_new(&env->transport);
	char text[600];

	assert_non_null(exchange);
	snprintf(text, sizeof(text), "REQUEST_METHOD=%s", method);
	assert_int_equal(http_request_add(&exchange->request, text), ERR_OK);
	snprintf(text, sizeof(text), "REQUEST_URI=%s", uri);
	assert_int_equal(http_request_add(&exchange->request, text), ERR_OK);
	if (field != NULL)
		assert_int_equal(
		    http_request_add(&exchange->request, field), ERR_OK);
	route_prepare(exchange);
	assert_null(exchange->run);
	return exchange;
}

static bool
has(const struct exchange *exchange, const char *line)
{
	return strstr(buf_str(&exchange->response.head), line) != NULL;
}

/* The body as it would be sent. */
static const char *
body(const struct exchange *exchange)
{
	const struct http_response *response = &exchange->response;
	static char text[100];
	ssize_t n;

	if (response->file < 0)
		return buf_str(&response->body);
	n = pread(
	    response->file, text, response->file_len, (off_t)response->file_at);
	assert_int_equal(n, response->file_len);
	text[n] = '\0';
	return text;
}

static void
check(struct exchange *exchange, int status, const char *line,
    const char *content)
{
	CLEANUP_BUF struct buf head = { .max = 16384 };
	char length[64];

	assert_int_equal(exchange->response.status, status);
	if (line != NULL && !has(exchange, line))
		fail_msg("no %s in %s", line, exchange->response.head.data);
	if (content != NULL) {
		assert_string_equal(body(exchange), content);
		snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
		    strlen(content));
		assert_int_equal(
		    http_response_head(&exchange->response, false, &head),
		    ERR_OK);
		assert_non_null(strstr(head.data, length));
	}
	exchange_free(exchange);
}

static void
a_file_is_served_at_any_prefix(void **state)
{
	struct env *env = *state;
	struct exchange *exchange = ask(env, "GET", env->uri, NULL);
	char uri[400];

	assert_true(has(exchange, "Content-Type: image/png\r\n"));
	assert_true(has(exchange, "X-Content-Type-Options: nosniff\r\n"));
	assert_true(has(
	    exchange, "Content-Security-Policy: sandbox; default-src 'none'"));
	assert_true(has(exchange, "Cache-Control: private, max-age=3"));
	assert_true(has(exchange, "Accept-Ranges: bytes\r\n"));
	assert_true(has(exchange, "ETag: \""));
	assert_in_range(exchange->shown, 1, strlen(env->uri) - 20);
	check(exchange, 200,
	    "Content-Disposition: inline; filename=\"a.png\"\r\n", DATA);
	snprintf(uri, sizeof(uri), "/files/%s/x", env->id);
	check(ask(env, "GET", uri, NULL), 200, NULL, DATA);
	snprintf(uri, sizeof(uri), "/files/%s/sse", env->id);
	check(ask(env, "GET", uri, NULL), 200, NULL, DATA);
}

static void
head_has_the_length_and_no_body(void **state)
{
	struct env *env = *state;
	struct exchange *exchange = ask(env, "HEAD", env->uri, NULL);

	assert_true(exchange->response.head_only);
	check(exchange, 200, "Content-Type: image/png\r\n", DATA);
	exchange = ask(env, "HEAD", env->uri, "HTTP_RANGE=bytes=0-1");
	check(exchange, 200, NULL, DATA);
}

static void
what_is_not_there_is_404_in_json(void **state)
{
	static const char *const uris[] = {
		"/files/0123456789abcdef0123456789abcdef/a",
		"/files/0123456789ABCDEF0123456789abcdef/a",
		"/files/0123456789abcdef0123456789abcdef/",
		"/files/0123456789abcdef0123456789abcdef",
		"/files/0123456789abcdef0123456789abcdef0/a",
		"/files/usage/a",
		"/files/..%2f..%2fetc/passwd",
		"/files/",
	};
	struct env *env = *state;

	for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
		struct exchange *exchange = ask(env, "GET", uris[i], NULL);

		assert_int_equal(exchange->response.file, -1);
		assert_non_null(strstr(
		    buf_str(&exchange->response.body), "\"jsonrpc\":\"2.0\""));
		check(exchange, 404, "application/json\r\n", NULL);
	}
}

static void
an_expired_file_is_410(void **state)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - 7200 },
		{ .tv_sec = time(NULL) - 7200 } };
	struct env *env = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", env->dir, env->id);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	check(ask(env, "GET", env->uri, NULL), 410, "no-store", NULL);
}

static void
other_methods_are_told_which_there_are(void **state)
{
	struct env *env = *state;
	char uri[400];

	check(ask(env, "POST", env->uri, NULL), 405,
	    "Allow: GET, HEAD, OPTIONS\r\n", NULL);
	check(ask(env, "OPTIONS", env->uri, NULL), 204,
	    "Allow: GET, HEAD, OPTIONS\r\n", NULL);
	snprintf(uri, sizeof(uri), "/files/%s/messages", env->id);
	check(ask(env, "POST", uri, NULL), 405, NULL, NULL);
}

static void
parts_are_served(void **state)
{
	struct env *env = *state;
	char field[100];

	check(ask(env, "GET", env->uri, "HTTP_RANGE=bytes=2-4"), 206,
	    "Content-Range: bytes 2-4/10\r\n", "234");
	check(ask(env, "GET", env->uri, "HTTP_RANGE=bytes=-2"), 206,
	    "Content-Range: bytes 8-9/10\r\n", "89");
	check(ask(env, "GET", env->uri, "HTTP_RANGE=bytes=10-"), 416,
	    "Content-Range: bytes */10\r\n", NULL);
	check(ask(env, "GET", env->uri, "HTTP_RANGE=bytes=0-1,2-3"), 200, NULL,
	    DATA);
	snprintf(field, sizeof(field), "HTTP_IF_NONE_MATCH=\"%s\"", env->id);
	check(ask(env, "GET", env->uri, field), 304, "ETag: ", NULL);
}

/* if_range is the tag that the client knows. */
static struct exchange *
ask_again(struct env *env, const char *if_range)
{
	struct exchange *exchange = exchange_new(&env->transport);
	char uri[500], condition[100];
	const char *fields[] = { "REQUEST_METHOD=GET", uri, condition,
		"HTTP_RANGE=bytes=2-4" };

	assert_non_null(exchange);
	snprintf(uri, sizeof(uri), "REQUEST_URI=%s", env->uri);
	snprintf(condition, sizeof(condition), "HTTP_IF_RANGE=%s", if_range);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(
		    http_request_add(&exchange->request, fields[i]), ERR_OK);
	route_prepare(exchange);
	return exchange;
}

static void
a_part_of_another_version_is_the_whole(void **state)
{
	struct env *env = *state;
	char tag[64];

	snprintf(tag, sizeof(tag), "\"%s\"", env->id);
	check(ask_again(env, tag), 206, NULL, "234");
	check(ask_again(env, "\"other\""), 200, NULL, DATA);
	snprintf(tag, sizeof(tag), "W/\"%s\"", env->id);
	check(ask_again(env, tag), 200, NULL, DATA);
	check(ask_again(env, "Tue, 01 Dec 2026 12:00:00 GMT"), 200, NULL, DATA);
}

static void
what_could_act_is_only_to_be_saved(void **state)
{
	static const struct {
		const char *type, *line;
	} rows[] = {
		{ "text/html", "Content-Disposition: attachment;" },
		{ "image/svg+xml", "Content-Disposition: attachment;" },
		{ "application/pdf", "Content-Disposition: attachment;" },
		{ "text/csv", "Content-Type: text/csv; charset=utf-8\r\n" },
		{ "text/plain", "Content-Disposition: inline;" },
	};
	struct env *env = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct exchange *exchange;

		keep(env, "a.png", rows[i].type, "x", 1);
		exchange = ask(env, "GET", env->uri, NULL);
		assert_true(has(exchange, "Content-Security-Policy: sandbox;"));
		check(exchange, 200, rows[i].line, "x");
	}
}

static void
an_empty_file_is_served(void **state)
{
	struct env *env = *state;

	keep(env, "empty", "text/plain", "", 0);
	check(ask(env, "GET", env->uri, NULL), 200, NULL, "");
}

static void
a_foreign_origin_gets_nothing(void **state)
{
	struct env *env = *state;
	struct exchange *exchange =
	    ask(env, "GET", env->uri, "HTTP_ORIGIN=https://evil.example");

	assert_int_equal(exchange->response.file, -1);
	check(exchange, 403, NULL, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_are_read_as_the_standard_says),
		cmocka_unit_test(nothing_can_be_a_part_of_an_empty_file),
		cmocka_unit_test(tags_are_found_in_lists),
		cmocka_unit_test(names_in_headers_are_safe_and_true),
		TEST(a_file_is_served_at_any_prefix),
		TEST(head_has_the_length_and_no_body),
		TEST(what_is_not_there_is_404_in_json),
		TEST(an_expired_file_is_410),
		TEST(other_methods_are_told_which_there_are),
		TEST(parts_are_served),
		TEST(a_part_of_another_version_is_the_whole),
		TEST(what_could_act_is_only_to_be_saved),
		TEST(an_empty_file_is_served),
		TEST(a_foreign_origin_gets_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
