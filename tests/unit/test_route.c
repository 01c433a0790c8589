#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "transport/route.h"

#define BODY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

struct env {
	struct conf conf;
	struct transport transport;
};

static int
setup(void **state)
{
	static struct env env;
	struct conf_fault fault;

	memset(&env, 0, sizeof(env));
	if (conf_init(&env.conf) != ERR_OK ||
	    transport_init(&env.transport, &env.conf, &fault) != ERR_OK)
		return -1;
	*state = &env;
	return 0;
}

static int
teardown(void **state)
{
	struct env *env = *state;

	transport_done(&env->transport);
	conf_done(&env->conf);
	return 0;
}

static void
add(struct exchange *exchange, const char *field)
{
	assert_int_equal(http_request_add(&exchange->request, field), ERR_OK);
}

/* Decides on a request; the fields, ended by NULL, are added to it. */
static struct exchange *
ask(struct env *env, const char *method, const char *uri, const char *body, ...)
{
	struct exchange *exchange = exchange_new(&env->transport);
	char field[2048];
	const char *more;
	va_list ap;

	assert_non_null(exchange);
	snprintf(field, sizeof(field), "REQUEST_METHOD=%s", method);
	add(exchange, field);
	snprintf(field, sizeof(field), "REQUEST_URI=%s", uri);
	add(exchange, field);
	va_start(ap, body);
	while ((more = va_arg(ap, const char *)) != NULL)
		add(exchange, more);
	va_end(ap);
	assert_int_equal(buf_puts(&exchange->request.body, body), ERR_OK);
	route_prepare(exchange);
	return exchange;
}

#define NO_MORE ((const char *)NULL)

static void
check_status(struct exchange *exchange, int status)
{
	if (exchange->run != NULL || exchange->response.status != status)
		fail_msg("%s %s: %d, not %d", exchange->request.method,
		    buf_str(&exchange->request.path),
		    exchange->run != NULL ? 0 : exchange->response.status,
		    status);
	exchange_free(exchange);
}

static void
check_runs(struct exchange *exchange, const char *prefix)
{
	CLEANUP_BUF struct buf out = { 0 };

	buf_init(&out, 4096);
	if (exchange->run == NULL)
		fail_msg("%s: %d", buf_str(&exchange->request.path),
		    exchange->response.status);
	assert_int_equal(route_prefix(exchange, &out), ERR_OK);
	assert_string_equal(buf_str(&out), prefix);
	exchange_free(exchange);
}

static void
routes_are_found_at_the_end_of_the_path(void **state)
{
	struct env *env = *state;

	check_runs(ask(env, "GET", "/sse", "", NO_MORE), "");
	check_runs(ask(env, "GET", "/tools/python/sse?a=/x", "", NO_MORE),
	    "/tools/python");
	check_runs(ask(env, "GET", "http://h/a/sse", "", NO_MORE), "/a");
	check_runs(ask(env, "GET", "//evil.example/sse", "", NO_MORE),
	    "/evil.example");
	check_runs(
	    ask(env, "POST", "/x/messages/?session_id=ab", BODY, NO_MORE),
	    "/x");
	check_runs(
	    ask(env, "POST", "/messages?session_id=ab", BODY, NO_MORE), "");
	check_status(ask(env, "GET", "/xsse", "", NO_MORE), 404);
	check_status(ask(env, "GET", "/sse/x", "", NO_MORE), 404);
	check_status(ask(env, "GET", "/.well-known/oauth-protected-resource",
			 "", NO_MORE),
	    404);
	check_status(ask(env, "GET", "/a%00/sse", "", NO_MORE), 400);
	check_status(ask(env, "", "/sse", "", NO_MORE), 405);
}

static void
the_path_may_come_in_parts(void **state)
{
	check_runs(ask(*state, "GET", "", "", "SCRIPT_NAME=/tools/python",
		       "PATH_INFO=/sse", "QUERY_STRING=x", NO_MORE),
	    "/tools/python");
}

static void
base_path_is_the_prefix(void **state)
{
	struct env *env = *state;
	struct conf_fault fault;

	assert_int_equal(
	    conf_set(&env->conf, "base_path", "/inner//py/", NULL), ERR_OK);
	assert_int_equal(
	    transport_init(&env->transport, &env->conf, &fault), ERR_OK);
	check_runs(ask(env, "GET", "/other/sse", "", NO_MORE), "/inner/py");
	check_status(ask(env, "GET", "/inner/py", "", NO_MORE), 200);
	check_status(ask(env, "GET", "/inner/py/", "", NO_MORE), 200);
	check_status(ask(env, "GET", "/inner/pyx", "", NO_MORE), 404);
	transport_done(&env->transport);
	assert_int_equal(conf_set(&env->conf, "base_path", "py", NULL), ERR_OK);
	assert_int_equal(
	    transport_init(&env->transport, &env->conf, &fault), ERR_CONF);
}

static void
check_allow(struct exchange *exchange, int status, const char *allow)
{
	if (strstr(buf_str(&exchange->response.head), allow) == NULL)
		fail_msg("%s", buf_str(&exchange->response.head));
	check_status(exchange, status);
}

static void
wrong_methods_are_told_the_right_ones(void **state)
{
	struct env *env = *state;

	check_allow(ask(env, "POST", "/sse", BODY, NO_MORE), 405,
	    "Allow: GET, OPTIONS\r\n");
	check_allow(ask(env, "HEAD", "/sse", "", NO_MORE), 405,
	    "Allow: GET, OPTIONS\r\n");
	check_allow(ask(env, "GET", "/messages/", "", NO_MORE), 405,
	    "Allow: POST, OPTIONS\r\n");
	check_allow(ask(env, "FOO", "/", "", NO_MORE), 405,
	    "Allow: GET, HEAD, OPTIONS\r\n");
	check_allow(ask(env, "OPTIONS", "/sse", "", NO_MORE), 204,
	    "Allow: GET, OPTIONS\r\n");
	check_status(ask(env, "OPTIONS", "/nope", "", NO_MORE), 404);
}

static void
preflights_are_answered_for_passed_origins(void **state)
{
	struct env *env = *state;

	check_allow(ask(env, "OPTIONS", "/messages/", "",
			"HTTP_ORIGIN=http://localhost:6274", NO_MORE),
	    204, "Access-Control-Allow-Origin: http://localhost:6274\r\n");
	check_allow(ask(env, "OPTIONS", "/messages/", "",
			"HTTP_ORIGIN=http://localhost:6274", NO_MORE),
	    204, "Access-Control-Allow-Methods: POST, OPTIONS\r\n");
	check_allow(ask(env, "GET", "/nope", "",
			"HTTP_ORIGIN=http://localhost:6274", NO_MORE),
	    404, "Access-Control-Allow-Origin: http://localhost:6274\r\n");
}

static void
origin_and_host_come_before_everything(void **state)
{
	static const char *const methods[] = { "GET", "POST", "OPTIONS",
		"DELETE", "HEAD" };
	static const char *const paths[] = { "/", "/sse",
		"/messages/?session_id=ab", "/nope", "/%00" };
	struct env *env = *state;

	for (size_t i = 0; i < 25; i++) {
		struct exchange *exchange = ask(env, methods[i / 5],
		    paths[i % 5], BODY, "HTTP_ORIGIN=null", NO_MORE);

		assert_null(strstr(
		    buf_str(&exchange->response.head), "Access-Control"));
		check_status(exchange, 403);
		check_status(ask(env, methods[i / 5], paths[i % 5], BODY,
				 "SERVER_ADDR=127.0.0.1",
				 "HTTP_HOST=evil.example", NO_MORE),
		    403);
	}
}

static void
bodies_are_checked_before_the_handler(void **state)
{
	struct env *env = *state;

	check_status(ask(env, "POST", "/messages/?session_id=ab", BODY,
			 "CONTENT_TYPE=text/plain", NO_MORE),
	    415);
	check_runs(ask(env, "POST", "/messages/?session_id=ab", BODY,
		       "CONTENT_TYPE=Application/JSON;charset=utf-8", NO_MORE),
	    "");
	check_status(ask(env, "POST", "/messages/?session_id=ab", BODY,
			 "CONTENT_LENGTH=5", NO_MORE),
	    400);
	check_status(
	    ask(env, "POST", "/messages/?session_id=ab", "{", NO_MORE), 400);
	check_status(
	    ask(env, "POST", "/messages/?session_id=ab", "", NO_MORE), 400);
	check_status(ask(env, "POST", "/messages/", BODY, NO_MORE), 400);
	check_status(
	    ask(env, "POST", "/messages/?session_id=", BODY, NO_MORE), 400);
	check_status(
	    ask(env, "POST", "/messages/?session_id=a%2Fb", BODY, NO_MORE),
	    400);
	check_status(ask(env, "POST", "/messages/?session_id=a&session_id=a",
			 BODY, NO_MORE),
	    400);
	check_runs(
	    ask(env, "POST", "/messages/?session_id=made-up", BODY, NO_MORE),
	    "");
}

static void
streams_ask_for_an_accept_that_takes_them(void **state)
{
	struct env *env = *state;

	check_status(
	    ask(env, "GET", "/sse", "", "HTTP_ACCEPT=image/png", NO_MORE), 406);
	check_runs(ask(env, "GET", "/sse", "",
		       "HTTP_ACCEPT=Application/JSON;q=0.5, text/*", NO_MORE),
	    "");
	check_runs(ask(env, "GET", "/sse", "", "HTTP_ACCEPT=application/json",
		       NO_MORE),
	    "");
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(routes_are_found_at_the_end_of_the_path),
		T(the_path_may_come_in_parts),
		T(base_path_is_the_prefix),
		T(wrong_methods_are_told_the_right_ones),
		T(preflights_are_answered_for_passed_origins),
		T(origin_and_host_come_before_everything),
		T(bodies_are_checked_before_the_handler),
		T(streams_ask_for_an_accept_that_takes_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
