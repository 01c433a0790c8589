/* From outcomes to results: the contract, the schema, the budgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/content.h"
#include "mcp/tool.h"

static struct conf conf;
static const struct sandbox_limits limits = { .time_ms = 6000,
	.memory_bytes = 73400320 };

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

static void
set(const char *name, const char *value)
{
	assert_int_equal(conf_set(&conf, name, value, NULL), ERR_OK);
}

/* ---- a small validator: what our schema uses ----------------------------- */

static bool
has_type(const cJSON *value, const char *type)
{
	if (strcmp(type, "object") == 0)
		return cJSON_IsObject(value);
	if (strcmp(type, "array") == 0)
		return cJSON_IsArray(value);
	if (strcmp(type, "string") == 0)
		return cJSON_IsString(value);
	if (strcmp(type, "boolean") == 0)
		return cJSON_IsBool(value);
	if (strcmp(type, "null") == 0)
		return cJSON_IsNull(value);
	if (strcmp(type, "number") == 0)
		return cJSON_IsNumber(value);
	assert_string_equal(type, "integer");
	return cJSON_IsNumber(value) &&
	    value->valuedouble == (double)(long long)value->valuedouble;
}

static void
validate_type(const cJSON *schema, const cJSON *value)
{
	const cJSON *type = json_get(schema, "type"), *one;
	bool good = false;

	if (cJSON_IsString(type)) {
		good = has_type(value, type->valuestring);
	} else {
		cJSON_ArrayForEach(one, type) good =
		    good || has_type(value, one->valuestring);
	}
	if (!good)
		fail_msg("%s has the wrong type", value->string);
}

static void
validate(const cJSON *schema, const cJSON *value)
{
	const cJSON *one, *member;
	bool listed = json_get(schema, "enum") == NULL;

	validate_type(schema, value);
	cJSON_ArrayForEach(one, json_get(schema, "enum")) listed =
	    listed || cJSON_Compare(one, value, true);
	if (!listed)
		fail_msg("%s is not in the enum", value->string);
	if ((one = json_get(schema, "minimum")) != NULL)
		assert_true(value->valuedouble >= one->valuedouble);
	cJSON_ArrayForEach(one, json_get(schema, "required"))
	{
		if (json_get(value, one->valuestring) == NULL)
			fail_msg("%s is missing", one->valuestring);
	}
	if (cJSON_IsObject(value)) {
		cJSON_ArrayForEach(member, value)
		{
			one = json_get(
			    json_get(schema, "properties"), member->string);
			if (one == NULL)
				fail_msg("%s is unknown", member->string);
			validate(one, member);
		}
	} else if (cJSON_IsArray(value)) {
		cJSON_ArrayForEach(member, value)
		    validate(json_get(schema, "items"), member);
	}
}

static void
validate_output(const cJSON *structured)
{
	CLEANUP_BUF struct buf out = { .max = 0 };
	CLEANUP_JSON cJSON *list = NULL;

	buf_init(&out, 1 << 20);
	assert_int_equal(tool_list(&out, &conf, REVISION_2025_11_25), ERR_OK);
	assert_int_equal(
	    json_parse(out.data, out.len, 20, &list, NULL), ERR_OK);
	validate(json_get(cJSON_GetArrayItem(json_get(list, "tools"), 0),
		     "outputSchema"),
	    structured);
}

/* ---- results ------------------------------------------------------------- */

/* Where the files of the next results are kept; NULL: nowhere. */
static const struct content_link *links;
static const char *base;

/* Builds a result, checks what is true of all, and parses it. */
static cJSON *
result_of(const struct outcome *outcome, enum revision revision)
{
	struct content_view view = { .conf = &conf,
		.revision = revision,
		.outcome = outcome,
		.limits = &limits,
		.queued_ms = 12,
		.reserved = 100,
		.links = links,
		.base = base };
	CLEANUP_BUF struct buf out = { .max = 0 };
	cJSON *json = NULL;
	const cJSON *structured;

	buf_init(&out, 100 << 20);
	assert_int_equal(content_result(&out, &view), ERR_OK);
	assert_true(out.len + view.reserved <= conf.result_max);
	assert_int_equal(
	    json_parse(out.data, out.len, 20, &json, NULL), ERR_OK);
	structured = json_get(json, "structuredContent");
	assert_int_equal(structured != NULL, revision >= REVISION_2025_06_18);
	if (structured != NULL)
		validate_output(structured);
	assert_int_equal(cJSON_IsTrue(json_get(json, "isError")),
	    outcome->kind != OUTCOME_OK);
	return json;
}

static const cJSON *
block(const cJSON *result, int i)
{
	return cJSON_GetArrayItem(json_get(result, "content"), i);
}

static int
blocks(const cJSON *result)
{
	return cJSON_GetArraySize(json_get(result, "content"));
}

static const char *
text_of(const cJSON *result)
{
	assert_string_equal(json_get_string(block(result, 0), "type"), "text");
	return json_get_string(block(result, 0), "text");
}

/* The structured content as the text block repeats it. */
static cJSON *
repeated(const cJSON *result)
{
	const char *text = text_of(result);
	cJSON *json = NULL;

	assert_int_equal(
	    json_parse(text, strlen(text), 20, &json, NULL), ERR_OK);
	return json;
}

static struct outcome_file
make_file(const char *path, size_t len, bool figure)
{
	struct outcome_file f = { .path = strdup(path),
		.data = malloc(len + 1),
		.len = len,
		.figure = figure,
		.media_type = figure ? "image/png" : "text/csv",
		.width = figure ? 640 : 0,
		.height = figure ? 480 : 0 };

	assert_non_null(f.path);
	assert_non_null(f.data);
	memset(f.data, 'P', len);
	return f;
}

static void
give_files(struct outcome *o, size_t n)
{
	o->files = calloc(n, sizeof(*o->files));
	assert_non_null(o->files);
	o->n_files = n;
}

static void
a_success_has_the_contracts_members(void **state)
{
	struct outcome o = { .kind = OUTCOME_OK,
		.has_returncode = true,
		.text = strdup("a \"b\"\n\xc3\xa9"),
		.output_bytes = 8,
		.result = strdup("42"),
		.duration_ms = 35 };
	cJSON *result = result_of(&o, REVISION_2025_11_25), *text;
	const cJSON *s = json_get(result, "structuredContent");

	(void)state;
	assert_string_equal(json_get_string(s, "status"), "success");
	assert_string_equal(json_get_string(s, "output_type"), "text");
	assert_string_equal(json_get_string(s, "stdout"), o.text);
	assert_string_equal(json_get_string(s, "result"), "42");
	assert_int_equal(json_get(s, "returncode")->valueint, 0);
	assert_int_equal(json_get(s, "stdout_bytes")->valueint, 8);
	assert_int_equal(json_get(s, "duration_ms")->valueint, 35);
	assert_int_equal(json_get(s, "queued_ms")->valueint, 12);
	assert_true(cJSON_IsFalse(json_get(s, "truncated")));
	assert_int_equal(
	    json_get(json_get(s, "limits"), "time_seconds")->valueint, 6);
	assert_null(json_get(s, "error_type"));
	assert_null(json_get(s, "plot_path"));
	assert_int_equal(blocks(result), 1);
	text = repeated(result);
	assert_true(cJSON_Compare(text, s, true));
	cJSON_Delete(text);
	cJSON_Delete(result);
	outcome_done(&o);
}

static void
every_failure_conforms_to_the_schema(void **state)
{
	(void)state;
	for (unsigned k = OUTCOME_OK + 1; k < OUTCOME_KIND_COUNT; k++) {
		struct outcome o = { .kind = (enum outcome_kind)k,
			.error_message = strdup("m"),
			.details = strdup("d") };
		cJSON *result = result_of(&o, REVISION_2025_06_18);
		const cJSON *s = json_get(result, "structuredContent");

		assert_string_equal(json_get_string(s, "status"), "error");
		assert_string_equal(json_get_string(s, "error_type"),
		    outcome_kind_name((enum outcome_kind)k));
		assert_true(cJSON_IsNull(json_get(s, "returncode")));
		assert_string_equal(json_get_string(s, "output_type"), "none");
		cJSON_Delete(result);
		outcome_done(&o);
	}
}

static void
an_exception_is_taken_apart(void **state)
{
	struct outcome o = { .kind = OUTCOME_EXECUTION_ERROR,
		.has_returncode = true,
		.returncode = 3,
		.text = strdup("partial\n"),
		.output_bytes = 8,
		.exception_type = strdup("KeyError"),
		.exception_message = strdup("'k'"),
		.exception_line = 3,
		.traceback = strdup("Traceback…") };
	cJSON *result = result_of(&o, REVISION_2025_11_25);
	const cJSON *s = json_get(result, "structuredContent");
	const cJSON *e = json_get(s, "exception");

	(void)state;
	assert_string_equal(json_get_string(s, "stdout"), "partial\n");
	assert_int_equal(json_get(s, "returncode")->valueint, 3);
	assert_string_equal(json_get_string(e, "type"), "KeyError");
	assert_int_equal(json_get(e, "line")->valueint, 3);
	cJSON_Delete(result);
	outcome_done(&o);
}

static void
a_silent_success_says_so(void **state)
{
	struct outcome o = { .kind = OUTCOME_OK, .has_returncode = true };
	cJSON *result = result_of(&o, REVISION_2025_11_25);

	(void)state;
	assert_non_null(strstr(
	    json_get_string(json_get(result, "structuredContent"), "details"),
	    "without output"));
	cJSON_Delete(result);
}

static void
figures_become_images_in_order(void **state)
{
	struct outcome o = { .kind = OUTCOME_OK, .has_returncode = true };
	CLEANUP_BUF struct buf data = { .max = 0 };
	cJSON *result, *text;
	const cJSON *s, *plots, *files;

	(void)state;
	buf_init(&data, 1000);
	give_files(&o, 4);
	o.files[0] = make_file("p1.png", 10, true);
	o.files[1] = make_file("p10.png", 11, true);
	o.files[2] = make_file("t.csv", 12, false);
	o.files[3] = make_file("p2.png", 13, true);
	result = result_of(&o, REVISION_2024_11_05);
	assert_int_equal(blocks(result), 4);
	assert_string_equal(json_get_string(block(result, 2), "type"), "image");
	assert_string_equal(
	    json_get_string(block(result, 2), "mimeType"), "image/png");
	assert_int_equal(base64_encode(&data, o.files[1].data, 11), ERR_OK);
	assert_string_equal(
	    json_get_string(block(result, 2), "data"), buf_str(&data));
	assert_null(strstr(text_of(result), "UFBQ"));
	text = repeated(result);
	s = text;
	plots = json_get(s, "plots");
	files = json_get(s, "files");
	assert_string_equal(json_get_string(s, "output_type"), "plot");
	assert_string_equal(json_get_string(s, "plot_path"), "p2.png");
	assert_int_equal(cJSON_GetArraySize(plots), 3);
	assert_string_equal(
	    json_get_string(cJSON_GetArrayItem(plots, 1), "name"), "p10.png");
	assert_null(json_get(cJSON_GetArrayItem(plots, 1), "reason"));
	assert_int_equal(
	    json_get(cJSON_GetArrayItem(plots, 0), "width")->valueint, 640);
	assert_int_equal(cJSON_GetArraySize(files), 1);
	assert_string_equal(
	    json_get_string(cJSON_GetArrayItem(files, 0), "path"), "t.csv");
	assert_non_null(
	    json_get_string(cJSON_GetArrayItem(files, 0), "reason"));
	cJSON_Delete(text);
	cJSON_Delete(result);
	outcome_done(&o);
}

static const char *
reason_of(const cJSON *result, const char *list, int i)
{
	return json_get_string(
	    cJSON_GetArrayItem(
		json_get(json_get(result, "structuredContent"), list), i),
	    "reason");
}

static void
figures_over_the_budget_are_listed_with_the_reason(void **state)
{
	struct outcome o = { .kind = OUTCOME_OK, .has_returncode = true };
	cJSON *result;

	(void)state;
	give_files(&o, 4);
	o.files[0] = make_file("a.png", 300000, true);
	o.files[1] = make_file("b.png", 600000, true);
	o.files[2] = make_file("c.png", 300000, true);
	o.files[3] = make_file("lost.png", 5, true);
	free(o.files[3].data);
	o.files[3].data = NULL;
	o.files[3].reason = strdup("too many files");
	result = result_of(&o, REVISION_2025_11_25);
	assert_int_equal(blocks(result), 3);
	assert_null(reason_of(result, "plots", 0));
	assert_string_equal(
	    reason_of(result, "plots", 1), "over the result budget");
	assert_null(reason_of(result, "plots", 2));
	assert_string_equal(reason_of(result, "plots", 3), "too many files");
	cJSON_Delete(result);
	outcome_done(&o);
}

static void
figures_fill_the_budget_to_its_edge(void **state)
{
	(void)state;
	/* around the size where the second figure stops fitting, none may
	 * push the message over the limit (result_of checks that) */
	for (size_t len = 370000; len < 376000; len += 7) {
		struct outcome o = { .kind = OUTCOME_OK };
		cJSON *result;

		give_files(&o, 2);
		o.files[0] = make_file("a.png", 374000, true);
		o.files[1] = make_file("b.png", len, true);
		result = result_of(&o, REVISION_2025_11_25);
		assert_true(blocks(result) >= 2);
		cJSON_Delete(result);
		outcome_done(&o);
	}
}

static void
more_figures_than_allowed_are_listed(void **state)
{
	struct outcome o = { .kind = OUTCOME_OK, .has_returncode = true };
	cJSON *result;

	(void)state;
	set("figures_max", "2");
	give_files(&o, 3);
	for (int i = 0; i < 3; i++)
		o.files[i] = make_file("x.png", 10, true);
	result = result_of(&o, REVISION_2025_11_25);
	assert_int_equal(blocks(result), 3);
	assert_non_null(strstr(reason_of(result, "plots", 2), "figures_max"));
	cJSON_Delete(result);
	outcome_done(&o);
}

/* Texts of every member as large and as hard to quote as can be. */
static void
texts_never_make_a_result_too_large(void **state)
{
	static const char hard[] = "\"\\\n\xe2\x82\xac";
	static const char *const maxima[] = { "20000", "100000", "1000000" };

	(void)state;
	set("output_max", "16M");
	for (size_t m = 0; m < 3; m++) {
		struct outcome o = { .kind = OUTCOME_EXECUTION_ERROR };
		char **texts[] = { &o.text, &o.result, &o.error_message,
			&o.details, &o.exception_type, &o.exception_message,
			&o.traceback };
		cJSON *result;

		set("result_max", maxima[m]);
		for (size_t i = 0; i < 7; i++) {
			*texts[i] = calloc(1, 1200001);
			for (size_t k = 0; k < 200000; k++)
				memcpy(*texts[i] + k * 6, hard, 6);
		}
		give_files(&o, 200);
		for (int i = 0; i < 200; i++) {
			char name[1024];

			memset(name, '"', sizeof(name) - 1);
			name[sizeof(name) - 1] = '\0';
			o.files[i] = make_file(name, 10, i % 2 == 0);
		}
		result = result_of(&o, REVISION_2025_11_25);
		assert_true(cJSON_IsTrue(json_get(
		    json_get(result, "structuredContent"), "truncated")));
		assert_non_null(json_get(
		    json_get(result, "structuredContent"), "files_omitted"));
		cJSON_Delete(result);
		outcome_done(&o);
	}
}

static void
plain_text_reads_without_json(void **state)
{
	struct outcome o = { .kind = OUTCOME_TIMEOUT,
		.text = strdup("start"),
		.output_bytes = 6,
		.error_message = strdup("Time limit."),
		.details = strdup("Ended after 6 s.") };
	cJSON *result;

	(void)state;
	set("text_json", "no");
	give_files(&o, 1);
	o.files[0] = make_file("t.csv", 12, false);
	result = result_of(&o, REVISION_2024_11_05);
	assert_string_equal(text_of(result),
	    "start\nError: Time limit.\n"
	    "Ended after 6 s.\nFile: t.csv (12 bytes): only figures are sent, "
	    "print what you need");
	cJSON_Delete(result);
	outcome_done(&o);
}

#define REF "0123456789abcdef0123456789abcdef/"

static void
what_is_kept_has_addresses(void **state)
{
	static const struct content_link kept[] = { { .ref = REF "p1.png" },
		{ .ref = REF "t.csv" }, { .reason = "the disk is full" },
		{ .ref = REF "p2.png" } };
	struct outcome o = { .kind = OUTCOME_OK, .has_returncode = true };
	cJSON *result;
	const cJSON *s, *files, *link;

	(void)state;
	set("figures_max", "1");
	give_files(&o, 4);
	o.files[0] = make_file("p1.png", 10, true);
	o.files[1] = make_file("a \"q\"/t.csv", 12, false);
	o.files[2] = make_file("u.csv", 13, false);
	o.files[3] = make_file("p2.png", 14, true);
	links = kept;
	base = "/tools";
	result = result_of(&o, REVISION_2025_06_18);
	s = json_get(result, "structuredContent");
	files = json_get(s, "files");
	link = cJSON_GetArrayItem(files, 0);
	assert_string_equal(
	    json_get_string(link, "uri"), "sandbox://files/" REF "t.csv");
	assert_string_equal(
	    json_get_string(link, "url"), "/tools/files/" REF "t.csv");
	assert_null(json_get(link, "reason"));
	link = cJSON_GetArrayItem(files, 1);
	assert_null(json_get(link, "uri"));
	assert_string_equal(
	    json_get_string(link, "reason"), "the disk is full");
	assert_string_equal(
	    json_get_string(s, "plot_path"), "sandbox://files/" REF "p2.png");
	/* text, an image, links to a file and to the other figure */
	assert_int_equal(blocks(result), 4);
	assert_string_equal(json_get_string(block(result, 1), "type"), "image");
	assert_string_equal(
	    json_get_string(block(result, 2), "type"), "resource_link");
	assert_string_equal(
	    json_get_string(block(result, 2), "name"), "a \"q\"/t.csv");
	assert_string_equal(json_get_string(block(result, 3), "uri"),
	    "sandbox://files/" REF "p2.png");
	assert_int_equal(json_get(block(result, 3), "size")->valueint, 14);
	cJSON_Delete(result);
	base = NULL;
	result = result_of(&o, REVISION_2025_03_26);
	assert_int_equal(blocks(result), 2);
	assert_non_null(strstr(text_of(result), "sandbox://files/" REF));
	assert_null(strstr(text_of(result), "\"url\""));
	cJSON_Delete(result);
	links = NULL;
	outcome_done(&o);
}

/* Links never make a result too large (result_of checks it). */
static void
many_links_fit(void **state)
{
	struct content_link *kept = calloc(400, sizeof(*kept));
	struct outcome o = { .kind = OUTCOME_OK, .has_returncode = true };
	char ref[500];
	cJSON *result;

	(void)state;
	assert_non_null(kept);
	set("result_max", "100000");
	snprintf(ref, sizeof(ref), REF "%0400d", 1);
	give_files(&o, 400);
	for (int i = 0; i < 400; i++) {
		o.files[i] = make_file("\"\"\"\"", 30, i < 100);
		kept[i].ref = ref;
	}
	links = kept;
	base = "https://host.example/tools";
	result = result_of(&o, REVISION_2025_11_25);
	assert_in_range(blocks(result), 2, 400);
	cJSON_Delete(result);
	links = NULL;
	base = NULL;
	outcome_done(&o);
	free(kept);
}

static void
a_refusal_is_text_alone(void **state)
{
	CLEANUP_BUF struct buf out = { .max = 0 };

	(void)state;
	buf_init(&out, 1000);
	assert_int_equal(content_refusal(&out, "python_code: \"x\""), ERR_OK);
	assert_string_equal(buf_str(&out),
	    "{\"content\":[{\"type\":\"text\","
	    "\"text\":\"python_code: \\\"x\\\"\"}],\"isError\":true}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_success_has_the_contracts_members),
		TEST(every_failure_conforms_to_the_schema),
		TEST(an_exception_is_taken_apart),
		TEST(a_silent_success_says_so),
		TEST(figures_become_images_in_order),
		TEST(figures_over_the_budget_are_listed_with_the_reason),
		TEST(figures_fill_the_budget_to_its_edge),
		TEST(more_figures_than_allowed_are_listed),
		TEST(texts_never_make_a_result_too_large),
		TEST(plain_text_reads_without_json),
		TEST(what_is_kept_has_addresses),
		TEST(many_links_fit),
		TEST(a_refusal_is_text_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
