/* JSON-RPC messages: what is accepted, what is refused and with which code,
 * and that ids come back digit for digit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/revision.h"
#include "mcp/rpc.h"

static struct conf conf;

static int
setup(void **state)
{
	(void)state;
	return conf_init(&conf) == ERR_OK ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	conf_done(&conf);
	return 0;
}

static struct rpc_message *
parse(const char *text)
{
	struct rpc_message *message = NULL;
	struct rpc_fault fault;

	if (rpc_parse(text, strlen(text), &conf, &message, &fault) != ERR_OK)
		fail_msg("refused: %s: %s", text, fault.text);
	return message;
}

/* Refused with this error, id and silence. */
static void
refused(const char *text, enum err err, const char *id, bool silent)
{
	CLEANUP_BUF struct buf out = { 0 };
	struct rpc_message *message = NULL;
	struct rpc_fault fault;

	buf_init(&out, 4096);
	if (rpc_parse(text, strlen(text), &conf, &message, &fault) == ERR_OK)
		fail_msg("accepted: %s", text);
	assert_null(message);
	if (fault.err != err || strcmp(fault.id, id) != 0 ||
	    fault.notification != silent)
		fail_msg("%s: %s, id %s, silent %d (%s)", text,
		    err_info(fault.err)->name, fault.id, fault.notification,
		    fault.text);
	assert_int_equal(
	    rpc_fault_answer(&out, &fault), silent ? ERR_NOT_FOUND : ERR_OK);
	if (!silent)
		assert_int_equal(
		    json_check(out.data, out.len, 10, NULL), ERR_OK);
}

static void
ids_come_back_digit_for_digit(void **state)
{
	static const char *const ids[] = { "0", "-1", "9007199254740991",
		"123456789012345678901234567890", "\"\"", "\"0\"", "\"1e3\"",
		"\"\xc3\xa9\\\"\\\\\"", "1.0", "\"\\u0000\"" };

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		CLEANUP_BUF struct buf in = { 0 }, out = { 0 };
		char want[200];
		struct rpc_message *m;

		buf_init(&in, 1000);
		buf_init(&out, 1000);
		assert_int_equal(buf_printf(&in,
				     "{\"jsonrpc\":\"2.0\",\"id\":"
				     " %s ,\"method\":\"ping\"}",
				     ids[i]),
		    ERR_OK);
		m = parse(buf_str(&in));
		assert_int_equal(m->kind, RPC_REQUEST);
		assert_int_equal(rpc_result(&out, m->id, "{}"), ERR_OK);
		snprintf(want, sizeof(want),
		    "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", ids[i]);
		assert_string_equal(buf_str(&out), want);
		rpc_message_free(m);
	}
}

static void
ids_of_other_types_are_refused(void **state)
{
	static const char *const ids[] = { "null", "true", "[]", "{}", "1.5",
		"1e999" };
	char text[100];

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		snprintf(text, sizeof(text),
		    "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}",
		    ids[i]);
		refused(text, ERR_RPC_REQUEST, "", false);
	}
}

static void
a_long_id_is_refused(void **state)
{
	char text[400], id[300];

	(void)state;
	memset(id, 'x', sizeof(id));
	id[RPC_ID_MAX - 2] = '\0';
	snprintf(text, sizeof(text),
	    "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"ping\"}", id);
	rpc_message_free(parse(text));
	id[RPC_ID_MAX - 2] = 'x';
	id[RPC_ID_MAX - 1] = '\0';
	snprintf(text, sizeof(text),
	    "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"ping\"}", id);
	refused(text, ERR_RPC_REQUEST, "", false);
}

static void
what_is_no_json_is_a_parse_error(void **state)
{
	CLEANUP_FREE char *deep = malloc(100001);

	(void)state;
	refused("", ERR_RPC_PARSE, "", false);
	refused("{", ERR_RPC_PARSE, "", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",}",
	    ERR_RPC_PARSE, "", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"ping\"}",
	    ERR_RPC_PARSE, "", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
	    ERR_RPC_PARSE, "", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}",
	    ERR_RPC_PARSE, "", false);
	assert_non_null(deep);
	memset(deep, '[', 100000);
	deep[100000] = '\0';
	refused(deep, ERR_RPC_PARSE, "", false);
}

static void
what_is_no_request_is_an_invalid_one(void **state)
{
	(void)state;
	refused("1", ERR_RPC_REQUEST, "", false);
	refused("\"x\"", ERR_RPC_REQUEST, "", false);
	refused("{}", ERR_RPC_REQUEST, "", false);
	refused("[]", ERR_RPC_REQUEST, "", false);
	refused("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
	    ERR_RPC_REQUEST, "", false);
	refused("{\"id\":1,\"method\":\"ping\"}", ERR_RPC_REQUEST, "1", false);
	refused("{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"ping\"}",
	    ERR_RPC_REQUEST, "\"a\"", false);
	refused("{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}",
	    ERR_RPC_REQUEST, "1", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1}", ERR_RPC_REQUEST, "1", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", ERR_RPC_REQUEST,
	    "1", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\","
		"\"result\":{}}",
	    ERR_RPC_REQUEST, "1", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\u0000x\"}",
	    ERR_RPC_REQUEST, "1", false);
	refused("{\"JSONRPC\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
	    ERR_RPC_REQUEST, "1", false);
}

static void
params_must_be_an_object(void **state)
{
	(void)state;
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\","
		"\"params\":[]}",
	    ERR_RPC_PARAMS, "1", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\","
		"\"params\":null}",
	    ERR_RPC_PARAMS, "1", false);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\","
		"\"params\":{\"_meta\":[]}}",
	    ERR_RPC_PARAMS, "1", false);
}

static void
malformed_notifications_and_answers_stay_unanswered(void **state)
{
	(void)state;
	refused("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[]}",
	    ERR_RPC_PARAMS, "", true);
	refused("{\"method\":\"notifications/initialized\"}", ERR_RPC_REQUEST,
	    "", true);
	refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}",
	    ERR_RPC_REQUEST, "1", true);
	refused("{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}",
	    ERR_RPC_REQUEST, "", true);
}

static void
kinds_are_told_apart(void **state)
{
	struct rpc_message *m;

	(void)state;
	m = parse("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}");
	assert_int_equal(m->kind, RPC_NOTIFICATION);
	assert_null(m->id);
	assert_string_equal(m->method, "notifications/x");
	rpc_message_free(m);
	m = parse("{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}");
	assert_int_equal(m->kind, RPC_RESPONSE);
	assert_string_equal(m->id, "\"1\"");
	rpc_message_free(m);
	m = parse("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,"
		  "\"message\":\"x\"}}");
	assert_int_equal(m->kind, RPC_RESPONSE);
	rpc_message_free(m);
}

static void
progress_tokens_keep_their_type(void **state)
{
	static const char *const good[] = { "7", "\"7\"", "0", "\"\"" };
	static const char *const bad[] = { "{}", "[]", "true", "1.5" };
	const char *fmt = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\","
			  "\"params\":{\"_meta\":{\"progressToken\":";
	char text[200];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct rpc_message *m;

		snprintf(text, sizeof(text), "%s%s}}}", fmt, good[i]);
		m = parse(text);
		assert_string_equal(m->progress_token, good[i]);
		rpc_message_trim(m);
		assert_string_equal(m->progress_token, good[i]);
		assert_string_equal(m->id, "1");
		assert_null(m->params);
		rpc_message_free(m);
		snprintf(text, sizeof(text), "%s%s}}}", fmt, bad[i]);
		refused(text, ERR_RPC_PARAMS, "1", false);
	}
	snprintf(text, sizeof(text), "%snull}}}", fmt);
	rpc_message_free(parse(text));
}

static void
answers_are_written_whole_or_not_at_all(void **state)
{
	CLEANUP_BUF struct buf out = { 0 };

	(void)state;
	buf_init(&out, 300);
	assert_int_equal(
	    rpc_error(&out, "\"a\"", -32601, "no \"x\"\n", "{\"a\":1}"),
	    ERR_OK);
	assert_string_equal(buf_str(&out),
	    "{\"jsonrpc\":\"2.0\",\"id\":\"a\","
	    "\"error\":{\"code\":-32601,\"message\":\"no \\\"x\\\"\\n\","
	    "\"data\":{\"a\":1}}}");
	buf_done(&out);
	assert_int_equal(rpc_error(&out, "", -32700, "x", NULL), ERR_OK);
	assert_non_null(strstr(buf_str(&out), "\"id\":null"));
	buf_done(&out);
	assert_int_equal(
	    rpc_notification(&out, "notifications/progress", "{}"), ERR_OK);
	assert_string_equal(buf_str(&out),
	    "{\"jsonrpc\":\"2.0\",\"method\":"
	    "\"notifications/progress\",\"params\":{}}");
	buf_done(&out);
	buf_init(&out, 40);
	assert_int_equal(buf_puts(&out, "keep"), ERR_OK);
	assert_int_equal(rpc_result(&out, "1", "{\"a\":1}"), ERR_LIMIT);
	assert_string_equal(buf_str(&out), "keep");
}

static void
revisions_are_known_by_their_exact_names(void **state)
{
	enum revision revision = REVISION_NONE;

	(void)state;
	for (unsigned i = 1; i < REVISION_COUNT; i++) {
		assert_int_equal(
		    revision_parse(revision_name((enum revision)i), &revision),
		    ERR_OK);
		assert_int_equal(revision, i);
	}
	assert_int_equal(
	    revision_parse("2026-07-29", &revision), ERR_NOT_FOUND);
	assert_int_equal(revision_parse("", &revision), ERR_NOT_FOUND);
	assert_string_equal(revision_name(REVISION_NONE), "");
	assert_string_equal(revision_name((enum revision)99), "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_come_back_digit_for_digit),
		cmocka_unit_test(ids_of_other_types_are_refused),
		cmocka_unit_test(a_long_id_is_refused),
		cmocka_unit_test(what_is_no_json_is_a_parse_error),
		cmocka_unit_test(what_is_no_request_is_an_invalid_one),
		cmocka_unit_test(params_must_be_an_object),
		cmocka_unit_test(
		    malformed_notifications_and_answers_stay_unanswered),
		cmocka_unit_test(kinds_are_told_apart),
		cmocka_unit_test(progress_tokens_keep_their_type),
		cmocka_unit_test(answers_are_written_whole_or_not_at_all),
		cmocka_unit_test(revisions_are_known_by_their_exact_names),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
