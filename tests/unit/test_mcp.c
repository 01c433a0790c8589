/* The methods: life cycle, versions, tools/list, refusals. */
#include "mcp_rig.h"

static const char *const versions[] = { "2024-11-05", "2025-03-26",
	"2025-06-18", "2025-11-25" };

static void
ask(struct rig *rig, struct ear *ear, const char *method, const char *params)
{
	char text[1024];

	snprintf(text, sizeof(text),
	    "{\"jsonrpc\":\"2.0\",\"id\":\"q\","
	    "\"method\":\"%s\"%s%s}",
	    method, params != NULL ? ",\"params\":" : "",
	    params != NULL ? params : "");
	tell_core(rig, ear, text);
}

/* What initialize answers to a version; the result, owned. */
static cJSON *
negotiate(const char *version)
{
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };
	struct session_info info;
	char params[200];
	cJSON *json, *result;

	snprintf(params, sizeof(params),
	    "{\"protocolVersion\":\"%s\","
	    "\"capabilities\":{},\"clientInfo\":{\"name\":\"t\","
	    "\"version\":\"1\"}}",
	    version);
	ask(rig, &ear, "initialize", params);
	json = reply_json(&ear);
	result = cJSON_DetachItemFromObjectCaseSensitive(json, "result");
	assert_non_null(result);
	assert_int_equal(session_find(rig->state, rig->sid, &info), ERR_OK);
	assert_string_equal(json_get_string(result, "protocolVersion"),
	    revision_name((enum revision)info.revision));
	cJSON_Delete(json);
	ear_done(&ear);
	rig_close(rig, 0);
	return result;
}

static void
known_versions_are_echoed(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		cJSON *r = negotiate(versions[i]);
		const cJSON *info = json_get(r, "serverInfo");
		const cJSON *tools =
		    json_get(json_get(r, "capabilities"), "tools");

		assert_string_equal(
		    json_get_string(r, "protocolVersion"), versions[i]);
		assert_true(cJSON_IsObject(tools));
		assert_string_equal(
		    json_get_string(info, "name"), "python-sandbox-mcp");
		assert_non_null(json_get_string(info, "version"));
		assert_non_null(json_get_string(r, "instructions"));
		assert_int_equal(json_get(info, "title") != NULL, i >= 2);
		assert_int_equal(json_get(info, "description") != NULL, i >= 3);
		cJSON_Delete(r);
	}
}

static void
unknown_versions_get_our_newest(void **state)
{
	static const char *const asked[] = { "1999-01-01", "2199-12-31", "",
		"2026-07-28", "2025-11-25 " };

	(void)state;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		cJSON *r = negotiate(asked[i]);

		assert_string_equal(
		    json_get_string(r, "protocolVersion"), "2025-11-25");
		cJSON_Delete(r);
	}
}

static void
initialize_needs_a_version_and_comes_once(void **state)
{
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	ask(rig, &ear, "initialize", NULL);
	assert_error(&ear, -32602, "protocolVersion");
	ask(rig, &ear, "initialize", "{\"protocolVersion\":5}");
	assert_error(&ear, -32602, "protocolVersion");
	initialize(rig, "2025-06-18");
	ask(rig, &ear, "initialize", "{\"protocolVersion\":\"2025-06-18\"}");
	assert_error(&ear, -32600, "initialized");
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
before_initialize_only_ping_is_served(void **state)
{
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	ask(rig, &ear, "ping", NULL);
	assert_string_equal(
	    ear.reply, "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{}}");
	ask(rig, &ear, "tools/list", NULL);
	assert_error(&ear, -32600, "initialize");
	ask(rig, &ear, "tools/call", "{\"name\":\"execute_python_code\"}");
	assert_error(&ear, -32600, "initialize");
	ask(rig, &ear, "no/such", NULL);
	assert_error(&ear, -32601, "no/such");
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
undeclared_methods_are_not_found(void **state)
{
	static const char *const names[] = { "resources/subscribe",
		"prompts/list", "completion/complete", "logging/setLevel",
		"tasks/get", "server/discover", "PING", "",
		"notifications/initialized" };
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	initialize(rig, "2025-11-25");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ask(rig, &ear, names[i], "{}");
		assert_error(&ear, -32601, names[i]);
	}
	/* a long name is cut between characters: the answer stays UTF-8 */
	ask(rig, &ear,
	    "x\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
	    "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
	    "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
	    "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
	    "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac",
	    NULL);
	assert_error(&ear, -32601, "x");
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
the_list_has_what_each_revision_knows(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct rig *rig = rig_open(1, true, NULL);
		struct ear ear = { .rig = rig };
		cJSON *json;
		const cJSON *tools, *tool, *input;

		initialize(rig, versions[i]);
		ask(rig, &ear, "tools/list", NULL);
		assert_null(strstr(ear.reply, "null,"));
		json = reply_json(&ear);
		tools = json_get(json_get(json, "result"), "tools");
		assert_int_equal(cJSON_GetArraySize(tools), 1);
		tool = cJSON_GetArrayItem(tools, 0);
		input = json_get(tool, "inputSchema");
		assert_string_equal(
		    json_get_string(tool, "name"), "execute_python_code");
		assert_non_null(json_get_string(tool, "description"));
		assert_string_equal(json_get_string(input, "type"), "object");
		assert_int_equal(
		    json_get(json_get(json_get(input, "properties"),
				 "timeout_seconds"),
			"maximum")
			->valueint,
		    6);
		assert_int_equal(json_get(tool, "annotations") != NULL, i >= 1);
		assert_int_equal(json_get(tool, "title") != NULL, i >= 2);
		assert_int_equal(
		    json_get(tool, "outputSchema") != NULL, i >= 2);
		assert_null(json_get(json_get(json, "result"), "nextCursor"));
		cJSON_Delete(json);
		ask(rig, &ear, "tools/list", "{\"cursor\":\"x\"}");
		assert_error(&ear, -32602, "cursor");
		ear_done(&ear);
		rig_close(rig, 0);
	}
}

static void
malformed_calls_are_protocol_errors(void **state)
{
	static const char *const params[] = { "{\"arguments\":{}}",
		"{\"name\":5,\"arguments\":{}}",
		"{\"name\":\"nope\",\"arguments\":{}}",
		"{\"name\":\"execute_python_code\\u0000\",\"arguments\":{}}",
		"{\"name\":\"EXECUTE_PYTHON_CODE\",\"arguments\":{}}",
		"{\"name\":\"execute_python_code\",\"arguments\":\"x\"}",
		"{\"name\":\"execute_python_code\",\"arguments\":[]}",
		"{\"name\":\"execute_python_code\",\"arguments\":5}" };
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	initialize(rig, "2025-11-25");
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
		ask(rig, &ear, "tools/call", params[i]);
		assert_error(&ear, -32602, "");
	}
	assert_error(&ear, -32602, "python_code");
	ask(rig, &ear, "tools/call", NULL);
	assert_error(&ear, -32602, "name");
	assert_int_equal(rig->fakes[0].requests, 0);
	ear_done(&ear);
	rig_close(rig, 0);
}

struct bad {
	const char *arguments, *word;
};

static const struct bad bad_arguments[] = {
	{ "null", "python_code" },
	{ "{}", "python_code" },
	{ "{\"python_code\":5}",
	    "python_code: must be a string, not a number" },
	{ "{\"python_code\":null}", "python_code" },
	{ "{\"Python_code\":\"1\"}", "Python_code" },
	{ "{\"python_code\":\"1\",\"extra\":1}", "extra: there is no such" },
	{ "{\"python_code\":\"print(1)\\u0000\\nprint(2)\"}",
	    "source contains NUL" },
	{ "{\"python_code\":\"12345678901234567890123456789012\"}",
	    "code_max" },
	{ "{\"python_code\":\"\",\"stdin\":1}", "stdin" },
	{ "{\"python_code\":\"\",\"timeout_seconds\":0}", "from 1 to 6" },
	{ "{\"python_code\":\"\",\"timeout_seconds\":6.01}", "from 1 to 6" },
	{ "{\"python_code\":\"\",\"timeout_seconds\":1e999}",
	    "timeout_seconds" },
	{ "{\"python_code\":\"\",\"timeout_seconds\":\"5\"}",
	    "timeout_seconds" },
	{ "{\"python_code\":\"\",\"files\":{}}", "files: must be an array" },
	{ "{\"python_code\":\"\",\"files\":[1]}", "files[0]" },
	{ "{\"python_code\":\"\",\"files\":[{\"text\":\"\"}]}",
	    "files[0].path" },
#define BAD_PATH(path, word) \
	{ \
		"{\"python_code\":\"\",\"files\":[{\"path\":\"" path \
		"\",\"text\":\"x\"}]}", \
		    word \
	}
	BAD_PATH("", "empty"),
	BAD_PATH("/etc/x", "relative"),
	BAD_PATH("../x", "\\\"..\\\""),
	BAD_PATH("a/../../x", "\\\"..\\\""),
	BAD_PATH("a/..", "\\\"..\\\""),
	BAD_PATH("a//b", "empty parts"),
	BAD_PATH("a/", "empty parts"),
	BAD_PATH("./a", "empty parts"),
	BAD_PATH("a\\nb", "control character"),
	BAD_PATH("a\\u0000b", "control character"),
	BAD_PATH("a\\\\0b", "backslash"),
	BAD_PATH("main.py", "reserved"),
	BAD_PATH(".sandbox/x", "reserved"),
	{ "{\"python_code\":\"\",\"files\":[{\"path\":\"a\"}]}",
	    "either text or base64" },
	{ "{\"python_code\":\"\",\"files\":[{\"path\":\"a\",\"text\":\"\","
	  "\"base64\":\"\"}]}",
	    "either text or base64" },
	{ "{\"python_code\":\"\",\"files\":[{\"path\":\"a\","
	  "\"base64\":\"a\"}]}",
	    "files[0].base64" },
	{ "{\"python_code\":\"\",\"files\":[{\"path\":\"a\",\"text\":\"\","
	  "\"mode\":1}]}",
	    "files[0].mode" },
	{ "{\"python_code\":\"\",\"files\":[{\"path\":\"a\",\"text\":\"\"},"
	  "{\"path\":\"a\",\"text\":\"\"}]}",
	    "twice" },
	{ "{\"python_code\":\"\",\"files\":[{\"path\":\"a\",\"text\":\"\"},"
	  "{\"path\":\"a.b\",\"text\":\"\"},{\"path\":\"a-/c\",\"text\":\"\"},"
	  "{\"path\":\"a/b\",\"text\":\"\"}]}",
	    "both a file and a folder" },
};

static void
bad_arguments_are_results_that_name_the_field(void **state)
{
	static const char *const settings[] = { "code_max", "1024", NULL };
	struct rig *rig = rig_open(1, true, settings);
	struct ear ear = { .rig = rig };

	(void)state;
	/* below the bound of the settings table, to keep the row short */
	rig->place->conf.code_max = 31;
	initialize(rig, "2025-11-25");
	for (size_t i = 0; i < sizeof(bad_arguments) / sizeof(bad_arguments[0]);
	     i++) {
		CLEANUP_JSON cJSON *json = NULL;
		const cJSON *result;

		call_tool(rig, &ear, "1", bad_arguments[i].arguments, NULL);
		RIG_UNTIL(rig, ear.replies == 1);
		json = reply_json(&ear);
		result = json_get(json, "result");
		assert_true(cJSON_IsTrue(json_get(result, "isError")));
		assert_null(json_get(result, "structuredContent"));
		if (strstr(ear.reply, bad_arguments[i].word) == NULL)
			fail_msg("row %zu: no %s in %s", i,
			    bad_arguments[i].word, ear.reply);
	}
	assert_int_equal(rig->fakes[0].requests, 0);
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
good_arguments_run(void **state)
{
	static const char *const good[] = { "{\"python_code\":\"\"}", CODE,
		"{\"python_code\":\"1\",\"stdin\":null,\"files\":null,"
		"\"timeout_seconds\":null}",
		"{\"python_code\":\"1\",\"stdin\":\"a\\u0000b\","
		"\"timeout_seconds\":1.5,\"files\":[{\"path\":\"a "
		"b/\xe5\x9b\xbe"
		"\",\"text\":\"\\u0000\"},{\"path\":\"a.b\","
		"\"base64\":\"AAEC\"}]}" };
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	initialize(rig, "2025-11-25");
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		call_tool(rig, &ear, "1", good[i], NULL);
		RIG_UNTIL(rig, ear.replies == 1);
		assert_ended(&ear, "", "hi\\n");
		ear_done(&ear);
	}
	rig_close(rig, 0);
}

static void
notifications_and_answers_are_never_answered(void **state)
{
	static const char *const quiet[] = { "{\"jsonrpc\":\"2.0\",\"method\":"
					     "\"notifications/initialized\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/no_such\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
		"\"params\":{\"requestId\":{}}}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}" };
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	initialize(rig, "2025-11-25");
	for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
		tell_core(rig, &ear, quiet[i]);
		assert_int_equal(ear.replies + ear.drops + ear.n_notes, 0);
	}
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
a_session_known_to_the_table_is_initialized(void **state)
{
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	initialize(rig, "2025-03-26");
	rig_end_session(rig);
	assert_int_equal(
	    mcp_session_new(rig->mcp, rig->sid, "client", &rig->session),
	    ERR_OK);
	ask(rig, &ear, "tools/list", NULL);
	assert_non_null(strstr(ear.reply, "annotations"));
	assert_null(strstr(ear.reply, "outputSchema"));
	ear_done(&ear);
	rig_close(rig, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_versions_are_echoed),
		cmocka_unit_test(unknown_versions_get_our_newest),
		cmocka_unit_test(initialize_needs_a_version_and_comes_once),
		cmocka_unit_test(before_initialize_only_ping_is_served),
		cmocka_unit_test(undeclared_methods_are_not_found),
		cmocka_unit_test(the_list_has_what_each_revision_knows),
		cmocka_unit_test(malformed_calls_are_protocol_errors),
		cmocka_unit_test(bad_arguments_are_results_that_name_the_field),
		cmocka_unit_test(good_arguments_run),
		cmocka_unit_test(notifications_and_answers_are_never_answered),
		cmocka_unit_test(a_session_known_to_the_table_is_initialized),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
