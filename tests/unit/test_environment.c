/* What is known of the sandbox: asked once, told to many, never believed; and
 * resources in general. */
#include "mcp_rig.h"

#include "mcp/core.h"
#include "mcp/environment.h"

#define ENVIRONMENT \
	"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"resources/read\"," \
	"\"params\":{\"uri\":\"sandbox://environment\"}}"

#define GOOD \
	"{\"stdout\":\"python 3.11.2 cpython\\npackage numpy 1.24.2\\n" \
	"package zope.interface 5.5\\n\",\"returncode\":0,\"files\":[]}"

static struct rig *
rig_asking(const char *answer)
{
	static const char *const settings[] = { "environment_refresh", "10m",
		NULL };
	struct rig *rig = rig_open(1, true, NULL);

	place_set(rig->place, settings[0], settings[1]);
	if (answer != NULL)
		rig->fakes[0].answer = answer;
	initialize(rig, "2025-11-25");
	return rig;
}

/* The environment as a client reads it; owned. */
static cJSON *
read_environment(struct rig *rig)
{
	struct ear ear = { .rig = rig };
	CLEANUP_JSON cJSON *root = NULL;
	cJSON *told = NULL;
	const char *text;

	tell_core(rig, &ear, ENVIRONMENT);
	RIG_UNTIL(rig, ear.replies == 1);
	root = cJSON_Parse(ear.reply);
	text = json_get_string(
	    cJSON_GetArrayItem(
		json_get(json_get(root, "result"), "contents"), 0),
	    "text");
	assert_non_null(text);
	assert_int_equal(
	    json_parse(text, strlen(text), 20, &told, NULL), ERR_OK);
	ear_done(&ear);
	return told;
}

static void
it_is_asked_once_and_told_to_many(void **state)
{
	struct rig *rig = rig_asking(GOOD);
	cJSON *told;

	(void)state;
	for (int i = 0; i < 3; i++) {
		told = read_environment(rig);
		assert_string_equal(
		    json_get_string(json_get(told, "python"), "version"),
		    "3.11.2");
		assert_int_equal(
		    cJSON_GetArraySize(json_get(told, "packages")), 2);
		assert_int_equal(
		    json_get(json_get(told, "limits"), "time_seconds")
			->valueint,
		    6);
		cJSON_Delete(told);
	}
	assert_int_equal(rig->fakes[0].requests, 1);
	rig_close(rig, 0);
}

static void
the_instructions_say_it_briefly(void **state)
{
	struct rig *rig = rig_asking(GOOD);
	CLEANUP_BUF struct buf out = { .max = 4096 };

	(void)state;
	cJSON_Delete(read_environment(rig));
	assert_int_equal(
	    environment_brief(rig->mcp->environment, &out), ERR_OK);
	assert_non_null(strstr(out.data,
	    " Python 3.11.2 with numpy 1.24.2 and 1 more packages. Limits: "
	    "6 s, 512 MiB of memory, 64 processes."));
	rig_close(rig, 0);
}

static void
what_the_sandbox_says_is_checked(void **state)
{
	static const char *const answers[] = {
		"{\"stdout\":\"python 3.11.2\",\"returncode\":0,\"files\":[]}",
		"{\"stdout\":\"python \\\"x\\\" y\",\"returncode\":0,"
		"\"files\":[]}",
		"{\"stdout\":\"package numpy 1\\n\",\"returncode\":0,"
		"\"files\":[]}",
		"{\"stdout\":\"\",\"returncode\":1,\"files\":[]}",
		"{\"stdout\":5}",
		"<html>",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		struct rig *rig = rig_asking(answers[i]);
		cJSON *told = read_environment(rig);

		if (!cJSON_IsNull(json_get(told, "python")))
			fail_msg("row %zu", i);
		assert_non_null(json_get_string(told, "reason"));
		cJSON_Delete(told);
		rig_close(rig, 0);
	}
}

static void
odd_lines_are_passed_over(void **state)
{
	struct rig *rig = rig_asking(
	    "{\"stdout\":\"warning: x\\npython 3.13.0 cpython\\n"
	    "package <script> 1\\npackage a\\\"b 2\\npackage ok 1.0+local\\n"
	    "package noversion\\n\\u0000\\n\",\"returncode\":0,\"files\":[]}");
	cJSON *told = read_environment(rig);
	const cJSON *packages = json_get(told, "packages");

	(void)state;
	assert_int_equal(cJSON_GetArraySize(packages), 1);
	assert_string_equal(
	    json_get_string(cJSON_GetArrayItem(packages, 0), "version"),
	    "1.0+local");
	cJSON_Delete(told);
	rig_close(rig, 0);
}

static void
a_missing_module_is_explained(void **state)
{
	struct rig *rig = rig_asking(GOOD);
	struct outcome o = { .kind = OUTCOME_EXECUTION_ERROR,
		.exception_type = strdup("ModuleNotFoundError"),
		.details = strdup("Not there.") };

	(void)state;
	assert_int_equal(
	    environment_explain(rig->mcp->environment, &o), ERR_OK);
	assert_string_equal(o.details, "Not there.");
	cJSON_Delete(read_environment(rig));
	assert_int_equal(
	    environment_explain(rig->mcp->environment, &o), ERR_OK);
	assert_non_null(strstr(o.details,
	    "numpy, zope.interface; the operator "
	    "adds one as a Debian package"));
	outcome_done(&o);
	rig_close(rig, 0);
}

static void
a_hanging_sandbox_holds_nothing_up(void **state)
{
	struct rig *rig = rig_asking(NULL);
	struct ear ear = { .rig = rig }, ping = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	tell_core(rig, &ear, ENVIRONMENT);
	tell_core(
	    rig, &ping, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}");
	assert_int_equal(ping.replies, 1);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	assert_int_equal(ear.replies, 0);
	/* the session ends: the reader hears no more */
	rig_end_session(rig);
	assert_int_equal(ear.drops, 1);
	mcp_drain(rig->mcp);
	RIG_UNTIL(rig, rig->fakes[0].gone == 1);
	ear_done(&ear);
	ear_done(&ping);
	rig_close(rig, 0);
}

static void
draining_answers_who_waits(void **state)
{
	struct rig *rig = rig_asking(NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	tell_core(rig, &ear, ENVIRONMENT);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	mcp_drain(rig->mcp);
	assert_int_equal(ear.replies, 1);
	assert_non_null(strstr(ear.reply, "shutting down"));
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
the_core_closes_while_it_is_asked(void **state)
{
	struct rig *rig = rig_asking(NULL);

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	environment_need(rig->mcp->environment);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	environment_drain(rig->mcp->environment);
	RIG_UNTIL(rig, rig->fakes[0].gone == 1);
	rig_close(rig, 0);
}

static void
turned_off_it_asks_nobody(void **state)
{
	struct rig *rig = rig_open(1, true, NULL);
	cJSON *told;

	(void)state;
	initialize(rig, "2025-11-25");
	told = read_environment(rig);
	assert_true(cJSON_IsNull(json_get(told, "python")));
	assert_int_equal(rig->fakes[0].requests, 0);
	cJSON_Delete(told);
	rig_close(rig, 0);
}

/* ---- files --------------------------------------------------------------- */

static void
keep(struct rig *rig, const char *owner, char *ret_text, size_t size)
{
	struct artifact_new new = { .name = "a.txt",
		.type = "text/plain",
		.owner = owner,
		.data = "data",
		.len = 4 };
	char id[ARTIFACT_ID_LEN + 1];
	struct artifact_fault fault;

	assert_int_equal(
	    artifact_put(mcp_artifacts(rig->mcp), &new, id, &fault), ERR_OK);
	snprintf(ret_text, size,
	    "{\"jsonrpc\":\"2.0\",\"id\":\"r\",\"method\":\"resources/read\","
	    "\"params\":{\"uri\":\"sandbox://files/%s/a.txt\"}}",
	    id);
}

static void
a_file_is_read_by_whom_it_belongs_to(void **state)
{
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };
	char text[300];

	(void)state;
	initialize(rig, "2025-11-25");
	keep(rig, "", text, sizeof(text));
	tell_core(rig, &ear, text);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_non_null(strstr(ear.reply, "\"text\":\"data\""));
	keep(rig, "somebody else", text, sizeof(text));
	tell_core(rig, &ear, text);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_non_null(strstr(ear.reply, "-32002"));
	assert_null(strstr(ear.reply, "\"text\":\"data\""));
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
a_session_may_end_while_a_worker_reads(void **state)
{
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ears[3] = { { .rig = rig }, { .rig = rig }, { .rig = rig } };
	char text[300];

	(void)state;
	initialize(rig, "2025-11-25");
	keep(rig, "", text, sizeof(text));
	rig->hold = true;
	for (int i = 0; i < 3; i++)
		tell_core(rig, &ears[i], text);
	RIG_UNTIL(rig, rig->n_held == 3);
	rig_end_session(rig);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ears[i].drops, 1);
		assert_int_equal(ears[i].replies, 0);
	}
	rig_close(rig, 0);
}

static void
a_session_that_ends_on_an_answer_takes_the_others_along(void **state)
{
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ears[2] = { { .rig = rig }, { .rig = rig } };
	char text[300];

	(void)state;
	initialize(rig, "2025-11-25");
	keep(rig, "", text, sizeof(text));
	rig->hold = true;
	ears[0].end_on_reply = true;
	ears[1].end_on_reply = true;
	for (int i = 0; i < 2; i++)
		tell_core(rig, &ears[i], text);
	RIG_UNTIL(rig, rig->n_held == 2);
	rig_release(rig);
	assert_int_equal(ears[0].replies + ears[1].replies, 1);
	assert_int_equal(ears[0].drops + ears[1].drops, 1);
	ear_done(&ears[0]);
	ear_done(&ears[1]);
	rig_close(rig, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_asked_once_and_told_to_many),
		cmocka_unit_test(the_instructions_say_it_briefly),
		cmocka_unit_test(what_the_sandbox_says_is_checked),
		cmocka_unit_test(odd_lines_are_passed_over),
		cmocka_unit_test(a_missing_module_is_explained),
		cmocka_unit_test(a_hanging_sandbox_holds_nothing_up),
		cmocka_unit_test(draining_answers_who_waits),
		cmocka_unit_test(the_core_closes_while_it_is_asked),
		cmocka_unit_test(turned_off_it_asks_nobody),
		cmocka_unit_test(a_file_is_read_by_whom_it_belongs_to),
		cmocka_unit_test(a_session_may_end_while_a_worker_reads),
		cmocka_unit_test(
		    a_session_that_ends_on_an_answer_takes_the_others_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
