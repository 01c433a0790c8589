#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "transport/event_stream.h"
#include "transport/guard.h"
#include "transport/http.h"

static void
check_path(const char *uri, const char *wanted)
{
	CLEANUP_BUF struct buf out = { 0 };
	enum err rc;

	buf_init(&out, HTTP_PATH_MAX);
	rc = http_path_normal(uri, &out);
	if (wanted == NULL)
		assert_int_equal(rc, ERR_PARSE);
	else
		assert_int_equal(rc, ERR_OK);
	if (wanted != NULL)
		assert_string_equal(buf_str(&out), wanted);
}

static void
paths_have_one_safe_form(void **state)
{
	(void)state;
	check_path("/", "/");
	check_path("/sse", "/sse");
	check_path("/sse?x=/messages", "/sse");
	check_path("/tools/python/sse#f", "/tools/python/sse");
	check_path("//evil.example/sse", "/evil.example/sse");
	check_path("///a///b//", "/a/b/");
	check_path("/a/./b/../sse", "/a/sse");
	check_path("/../../sse", "/sse");
	check_path("/.//evil/sse", "/evil/sse");
	check_path("/a/%2e%2E/sse", "/sse");
	check_path("/%73%73e", "/sse");
	check_path("/a%2Fb/sse", "/a%2Fb/sse");
	check_path("/\\evil.example/sse", "/%5Cevil.example/sse");
	check_path("/<b>\"'&/sse", "/%3Cb%3E%22%27%26/sse");
	check_path("/\xc3\xbc/sse", "/%C3%BC/sse");
	check_path("/%c3%bc/sse", "/%C3%BC/sse");
	check_path("http://host:80/a/sse?b", "/a/sse");
	check_path("https://host", "/");
	check_path("http://host?x", "/");
	check_path("http:////evil/sse", "/evil/sse");
	check_path("/a://b/sse", "/a:/b/sse");
}

static void
bad_paths_are_refused(void **state)
{
	CLEANUP_BUF struct buf out = { 0 };
	char large[HTTP_PATH_MAX + 10];

	(void)state;
	check_path("", NULL);
	check_path("sse", NULL);
	check_path("*", NULL);
	check_path("/%00/sse", NULL);
	check_path("/%0d%0aX:%20y/sse", NULL);
	check_path("/a\r\nb/sse", NULL);
	check_path("/\x7f/sse", NULL);
	check_path("/%", NULL);
	check_path("/%4", NULL);
	check_path("/%4/sse", NULL);
	check_path("/%zz", NULL);
	memset(large, 'a', sizeof(large));
	large[0] = '/';
	large[sizeof(large) - 1] = '\0';
	buf_init(&out, HTTP_PATH_MAX);
	assert_int_equal(http_path_normal(large, &out), ERR_LIMIT);
}

static void
query_parameters_are_decoded(void **state)
{
	char value[8];

	(void)state;
	assert_int_equal(
	    http_query("a=1&bc=x%41+%2b&d", "bc", value, sizeof(value)),
	    ERR_OK);
	assert_string_equal(value, "xA +");
	assert_int_equal(
	    http_query("ab=1&b=", "b", value, sizeof(value)), ERR_OK);
	assert_string_equal(value, "");
	assert_int_equal(
	    http_query("", "a", value, sizeof(value)), ERR_NOT_FOUND);
	assert_int_equal(
	    http_query("xa=1&a", "a", value, sizeof(value)), ERR_NOT_FOUND);
	assert_int_equal(
	    http_query("a=1&a=2", "a", value, sizeof(value)), ERR_PARSE);
	assert_int_equal(
	    http_query("a=%0a", "a", value, sizeof(value)), ERR_PARSE);
	assert_int_equal(
	    http_query("a=%4", "a", value, sizeof(value)), ERR_PARSE);
	assert_int_equal(
	    http_query("a=1234567", "a", value, sizeof(value)), ERR_OK);
	assert_int_equal(
	    http_query("a=12345678", "a", value, sizeof(value)), ERR_LIMIT);
}

static void
json_content_types_pass(void **state)
{
	(void)state;
	assert_true(http_type_is_json(NULL));
	assert_true(http_type_is_json(""));
	assert_true(http_type_is_json("application/json"));
	assert_true(http_type_is_json(" Application/JSON ; charset=UTF-8"));
	assert_false(http_type_is_json("text/plain"));
	assert_false(http_type_is_json("application/jsonx"));
	assert_false(http_type_is_json("application/json, text/plain"));
}

static void
accept_is_read_with_its_weights(void **state)
{
	static const char stream[] = "text/event-stream";

	(void)state;
	assert_true(http_accepts(NULL, stream));
	assert_true(http_accepts("", stream));
	assert_true(http_accepts("*/*", stream));
	assert_true(http_accepts("image/png, text/*;q=0.1", stream));
	assert_true(http_accepts("TEXT/Event-Stream; q=1", stream));
	assert_false(http_accepts("image/png", stream));
	assert_false(http_accepts("text/event-stream;q=0, */*", stream));
	assert_false(http_accepts("text/event-streams", stream));
	assert_false(http_accepts(";;;,,", stream));
	assert_true(http_accepts("a/b;x=y;q=0.5,\ttext/event-stream", stream));
}

static const char *const good_origins[] = { "http://localhost",
	"http://localhost:6274", "https://LocalHost:1", "http://127.0.0.1:80",
	"http://127.255.0.9", "http://[::1]:3000", "https://ok.example",
	"vscode-webview://x" };
static const char *const bad_origins[] = { "", "null", "http://evil.example",
	"http://localhost.evil.example", "http://evil.example/localhost",
	"http://localhost@evil.example", "http://localhost:80@evil.example",
	"http://localhost:80:80", "http://localhost:", "http://localhost:99999",
	"http://localhost:80/", "http://localhost http://localhost",
	"http://localhost, http://evil.example", "http://", "localhost",
	"ftp://localhost", "http://[::1", "http://::1", "http://[::1]x",
	"http://[::2]", "http://128.0.0.1", "http://127.1",
	"http://127.0.0.1.x", "https://ok.example:444",
	"https://ok.example.evil", "http://ok.example", "https://OK.example",
	"http://0177.0.0.1", "http://local\thost" };

static void
origins_are_matched_exactly(void **state)
{
	struct conf conf;

	(void)state;
	assert_int_equal(conf_init(&conf), ERR_OK);
	assert_int_equal(
	    conf_set(&conf, "allowed_origins",
		"https://ok.example, vscode-webview://x,null", NULL),
	    ERR_OK);
	assert_true(guard_origin(&conf, NULL));
	for (size_t i = 0; i < sizeof(good_origins) / sizeof(char *); i++) {
		if (!guard_origin(&conf, good_origins[i]))
			fail_msg("refused: %s", good_origins[i]);
	}
	for (size_t i = 0; i < sizeof(bad_origins) / sizeof(char *); i++) {
		if (guard_origin(&conf, bad_origins[i]))
			fail_msg("passed: %s", bad_origins[i]);
	}
	conf_done(&conf);
}

static bool
host_passes(const struct conf *conf, const char *host, const char *server,
    const char *remote)
{
	struct http_request request;
	char field[128];
	bool passes;

	http_request_init(&request, 4096, 0);
	snprintf(field, sizeof(field), "HTTP_HOST=%s", host);
	assert_int_equal(http_request_add(&request, field), ERR_OK);
	if (server != NULL) {
		snprintf(field, sizeof(field), "SERVER_ADDR=%s", server);
		assert_int_equal(http_request_add(&request, field), ERR_OK);
	}
	if (remote != NULL) {
		snprintf(field, sizeof(field), "REMOTE_ADDR=%s", remote);
		assert_int_equal(http_request_add(&request, field), ERR_OK);
	}
	passes = guard_host(conf, &request);
	http_request_done(&request);
	return passes;
}

static void
hosts_are_checked_on_loopback_only(void **state)
{
	struct conf conf;

	(void)state;
	assert_int_equal(conf_init(&conf), ERR_OK);
	assert_int_equal(
	    conf_set(&conf, "allowed_hosts", "py.example", NULL), ERR_OK);
	assert_true(host_passes(&conf, "localhost:8080", "127.0.0.1", NULL));
	assert_true(host_passes(&conf, "[::1]:8080", "::1", NULL));
	assert_true(host_passes(&conf, "PY.example:443", "127.0.0.1", NULL));
	assert_true(host_passes(&conf, "", "127.0.0.1", NULL));
	assert_false(host_passes(&conf, "evil.example", "127.0.0.1", NULL));
	assert_false(
	    host_passes(&conf, "evil.example", "::ffff:127.0.0.1", NULL));
	assert_false(host_passes(&conf, "evil.example", "[::1]", NULL));
	assert_false(host_passes(&conf, "evil.example", NULL, "127.0.0.1"));
	assert_false(host_passes(&conf, "evil.example", "", "127.0.0.1"));
	assert_false(host_passes(&conf, "localhost.evil", "127.0.0.1", NULL));
	assert_false(host_passes(&conf, "localhost:80:80", "127.0.0.1", NULL));
	assert_true(
	    host_passes(&conf, "any.example", "192.0.2.1", "127.0.0.1"));
	assert_true(host_passes(&conf, "any.example", NULL, "192.0.2.1"));
	conf_done(&conf);
}

static void
content_length_must_be_true(void **state)
{
	static const struct {
		const char *field;
		enum err rc;
	} cases[] = {
		{ "CONTENT_LENGTH=3", ERR_OK },
		{ "CONTENT_LENGTH=", ERR_OK },
		{ "X=", ERR_OK },
		{ "CONTENT_LENGTH=4", ERR_TRUNCATED },
		{ "CONTENT_LENGTH=2", ERR_TRUNCATED },
		{ "CONTENT_LENGTH=-3", ERR_PARSE },
		{ "CONTENT_LENGTH=3x", ERR_PARSE },
		{ "CONTENT_LENGTH= 3", ERR_PARSE },
		{ "CONTENT_LENGTH=99999999999999999999999", ERR_PARSE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_request request;

		http_request_init(&request, 4096, 10);
		assert_int_equal(buf_puts(&request.body, "abc"), ERR_OK);
		assert_int_equal(
		    http_request_add(&request, cases[i].field), ERR_OK);
		assert_int_equal(http_check_length(&request), cases[i].rc);
		http_request_done(&request);
	}
}

static void
a_header_never_becomes_two(void **state)
{
	struct http_response response;
	CLEANUP_BUF struct buf out = { 0 };

	(void)state;
	http_response_init(&response);
	buf_init(&out, 4096);
	assert_int_equal(http_header(&response, "A", "b\r\nC: d"), ERR_PARSE);
	assert_int_equal(http_header(&response, "A", "b\nC: d"), ERR_PARSE);
	assert_int_equal(http_header(&response, "A", "b"), ERR_OK);
	response.status = 202;
	assert_int_equal(http_response_head(&response, false, &out), ERR_OK);
	assert_string_equal(buf_str(&out),
	    "Status: 202 Accepted\r\nA: b\r\n"
	    "Content-Length: 0\r\n\r\n");
	http_response_done(&response);
}

static void
every_error_has_a_reason_and_a_json_body(void **state)
{
	(void)state;
	for (int i = ERR_OK + 1; i < ERR_COUNT; i++) {
		struct http_response response;

		http_response_init(&response);
		http_error_of(&response, (enum err)i, NULL);
		assert_string_not_equal(
		    http_reason(response.status), "Unknown");
		assert_non_null(strstr(buf_str(&response.body),
		    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-"));
		if (response.status == 503)
			assert_non_null(
			    strstr(buf_str(&response.head), "Retry-After: "));
		http_response_done(&response);
	}
}

static void
check_event(const char *data, size_t n, const char *wanted)
{
	CLEANUP_BUF struct buf out = { 0 };

	buf_init(&out, 4096);
	assert_int_equal(event_stream_event(&out, "message", data, n), ERR_OK);
	assert_string_equal(buf_str(&out), wanted);
}

static void
events_keep_their_lines(void **state)
{
	(void)state;
	check_event("{}", 2, "event: message\ndata: {}\n\n");
	check_event("", 0, "event: message\ndata: \n\n");
	check_event("a\nevent: x\r\nb\rc\n", 16,
	    "event: message\ndata: a\n"
	    "data: event: x\ndata: b\ndata: c\ndata: \n\n");
	check_event("\xe2\x80\xa8\xc2\x85", 5,
	    "event: message\n"
	    "data: \xe2\x80\xa8\xc2\x85\n\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_have_one_safe_form),
		cmocka_unit_test(bad_paths_are_refused),
		cmocka_unit_test(query_parameters_are_decoded),
		cmocka_unit_test(json_content_types_pass),
		cmocka_unit_test(accept_is_read_with_its_weights),
		cmocka_unit_test(origins_are_matched_exactly),
		cmocka_unit_test(hosts_are_checked_on_loopback_only),
		cmocka_unit_test(content_length_must_be_true),
		cmocka_unit_test(a_header_never_becomes_two),
		cmocka_unit_test(every_error_has_a_reason_and_a_json_body),
		cmocka_unit_test(events_keep_their_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
