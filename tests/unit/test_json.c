/* The scanner, and the readers of raw text behind it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"

#define DEPTH 100

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWED
#endif

static enum err
check(const char *text)
{
	return json_check(text, strlen(text), DEPTH, NULL);
}

static void
accepts_what_rfc_8259_allows(void **state)
{
	static const char *const good[] = {
		"0",
		"-0",
		"1",
		"-1.5e+10",
		"1E5",
		"0.1",
		"\"\"",
		"null",
		"true",
		"false",
		"[]",
		"{}",
		" [ 1 , 2 ] ",
		"\t{\r\n}\n",
		"{\"a\":1,\"A\":2,\"\":3}",
		"[[[[]]],{}]",
		"\"\\u0000\\b\\f\\n\\r\\t\\/\\\\\\\"\"",
		"\"\\ud83d\\ude00\"",
		"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
		"\"\xe2\x80\xa8\xc2\x85\x7f\"",
		"{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}",
		"[1e999]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cJSON *json = NULL;

		if (check(good[i]) != ERR_OK)
			fail_msg("refused: %s", good[i]);
		if (json_parse(good[i], strlen(good[i]), DEPTH, &json, NULL) !=
		    ERR_OK)
			fail_msg("cJSON refused: %s", good[i]);
		cJSON_Delete(json);
	}
}

static void
refuses_what_rfc_8259_does_not(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"{",
		"[",
		"[1,]",
		"[,1]",
		"[1 2]",
		"{\"a\":1,}",
		"{\"a\" 1}",
		"{\"a\":}",
		"{a:1}",
		"{1:1}",
		"{\"a\":1 \"b\":2}",
		"01",
		"-",
		"1.",
		".1",
		"+1",
		"1e",
		"1e+",
		"0x1",
		"-01",
		"--1",
		"NaN",
		"Infinity",
		"tru",
		"True",
		"nul",
		"nulll",
		"1 2",
		"[] []",
		"\"",
		"\"\\\"",
		"\"\\x\"",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"\\",
		"\"\n\"",
		"\"\t\"",
		"'a'",
		"[1}",
		"{\"a\":1]",
		"]",
		"}",
		"/* c */ 1",
		("\xef\xbb\xbf"
		 "1"),
		"[\"a\":1]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct json_fault fault = { SIZE_MAX, NULL };

		if (json_check(bad[i], strlen(bad[i]), DEPTH, &fault) !=
		    ERR_PARSE)
			fail_msg("accepted: %s", bad[i]);
		assert_non_null(fault.reason);
		assert_true(fault.offset <= strlen(bad[i]));
	}
}

static void
refuses_bytes_that_are_not_utf8(void **state)
{
	static const char *const bad[] = {
		"\"\x80\"",
		"\"\xff\"",
		"\"\xc0\x80\"",
		"\"\xc1\xbf\"",
		"\"\xe0\x9f\xbf\"",
		"\"\xed\xa0\x80\"",
		"\"\xf0\x8f\xbf\xbf\"",
		"\"\xf4\x90\x80\x80\"",
		"\"\xf5\x80\x80\x80\"",
		"\"\xe2\x82\"",
		"\"\xe2\"",
		"\"\xf0\x9f\x98\"",
		"\"aaaaaaaaaaaaaaa\xffz\"",
		"[\xc3\xa9]",
		"\"\xe2\x82",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (check(bad[i]) != ERR_PARSE)
			fail_msg("accepted row %zu", i);
	}
	assert_int_equal(json_check("\"a\0b\"", 5, DEPTH, NULL), ERR_PARSE);
	assert_int_equal(json_check("1\0", 2, DEPTH, NULL), ERR_PARSE);
}

static void
refuses_lone_surrogates(void **state)
{
	(void)state;
	assert_int_equal(check("\"\\ud800\""), ERR_PARSE);
	assert_int_equal(check("\"\\udc00\""), ERR_PARSE);
	assert_int_equal(check("\"\\ud800\\u0041\""), ERR_PARSE);
	assert_int_equal(check("\"\\ud800x\""), ERR_PARSE);
	assert_int_equal(check("\"\\ud800\\"), ERR_PARSE);
	assert_int_equal(check("\"\\udbff\\udfff\""), ERR_OK);
}

static void
finds_duplicate_keys_also_behind_escapes(void **state)
{
	struct json_fault fault;
	const char *text = "{\"a\":1,\"b\":{\"x\":1},\"\\u0061\":2}";

	(void)state;
	assert_int_equal(
	    json_check(text, strlen(text), DEPTH, &fault), ERR_PARSE);
	assert_string_equal(fault.reason, "duplicate key");
	assert_int_equal(fault.offset, strstr(text, "\\u0061") - text);
	assert_int_equal(check("{\"\":1,\"\":2}"), ERR_PARSE);
	assert_int_equal(check("{\"\xc3\xa9\":1,\"\\u00e9\":2}"), ERR_PARSE);
	assert_int_equal(check("{\"\\ud83d\\ude00\":1,"
			       "\"\xf0\x9f\x98\x80\":2}"),
	    ERR_PARSE);
	assert_int_equal(check("[{\"a\":1},{\"a\":1}]"), ERR_OK);
	assert_int_equal(check("{\"a\":1,\"ab\":1,\"b\":1,\"ba\":1}"), ERR_OK);
	/* cJSON would cut both to "a" */
	assert_int_equal(check("{\"a\":1,\"a\\u0000b\":2}"), ERR_PARSE);
}

static void
many_keys_cost_bounded_time(void **state)
{
	CLEANUP_BUF struct buf text = { 0 };
	uint64_t begun;

	(void)state;
	buf_init(&text, 64 << 20);
	assert_int_equal(buf_putc(&text, '{'), ERR_OK);
	for (unsigned i = 0; i < JSON_MEMBERS_MAX; i++)
		assert_int_equal(
		    buf_printf(&text, "%s\"%u\":0", i > 0 ? "," : "", i),
		    ERR_OK);
	begun = clock_ms();
	assert_int_equal(buf_putc(&text, '}'), ERR_OK);
	assert_int_equal(json_check(text.data, text.len, DEPTH, NULL), ERR_OK);
	assert_true(clock_ms() - begun < 3000);
	text.len--;
	assert_int_equal(buf_puts(&text, ",\"x\":0}"), ERR_OK);
	assert_int_equal(
	    json_check(text.data, text.len, DEPTH, NULL), ERR_LIMIT);
}

static void
values_are_bounded(void **state)
{
	struct buf text;

	(void)state;
	buf_init(&text, 1 << 20);
	assert_int_equal(buf_puts(&text, "[0"), ERR_OK);
	/* the array is one too */
	for (unsigned i = 2; i < JSON_VALUES_MAX; i++)
		assert_int_equal(buf_puts(&text, ",0"), ERR_OK);
	assert_int_equal(buf_putc(&text, ']'), ERR_OK);
	assert_int_equal(json_check(text.data, text.len, DEPTH, NULL), ERR_OK);
	text.len--;
	assert_int_equal(buf_puts(&text, ",0]"), ERR_OK);
	assert_int_equal(
	    json_check(text.data, text.len, DEPTH, NULL), ERR_LIMIT);
	buf_done(&text);
}

static void
depth_is_bounded_without_recursion(void **state)
{
	enum { N = 100000 };
	CLEANUP_FREE char *text = malloc(2 * N);
	struct json_fault fault;

	(void)state;
	assert_non_null(text);
	memset(text, '[', N);
	memset(text + N, ']', N);
	assert_int_equal(json_check(text, 2 * N, DEPTH, &fault), ERR_LIMIT);
	assert_int_equal(fault.offset, DEPTH);
	assert_int_equal(json_check(text, 2 * N, N, NULL), ERR_OK);
	assert_int_equal(
	    json_check(text + N - DEPTH, 2 * DEPTH, DEPTH, NULL), ERR_OK);
	assert_int_equal(
	    json_check(text + N - DEPTH, 2 * DEPTH, DEPTH - 1, NULL),
	    ERR_LIMIT);
}

static void
numbers_that_cjson_would_cut_are_refused(void **state)
{
	char text[80];

	(void)state;
	memset(text, '1', sizeof(text));
	assert_int_equal(json_check(text, JSON_NUMBER_MAX, 1, NULL), ERR_OK);
	assert_int_equal(
	    json_check(text, JSON_NUMBER_MAX + 1, 1, NULL), ERR_PARSE);
}

/* A program of 5 MB is nothing to wait for; 300 MB/s is far below what is
 * measured, so that a loaded machine does not fail here. */
static void
long_strings_are_scanned_fast(void **state)
{
	enum { N = 32 << 20 };
	CLEANUP_FREE char *text = malloc(N);
	uint64_t best = UINT64_MAX;

	(void)state;
	assert_non_null(text);
	memset(text, 'a', N);
	text[0] = text[N - 1] = '"';
	for (int i = 0; i < 5; i++) {
		uint64_t begun = clock_ms(), took;

		assert_int_equal(json_check(text, N, 1, NULL), ERR_OK);
		took = clock_ms() - begun;
		best = took < best ? took : best;
	}
#ifndef SLOWED
	if (getenv("WRAP") == NULL || *getenv("WRAP") == '\0')
		assert_true(best <= N / 300000);
#endif
}

static void
assert_found(const char *text, const char *const *path, const char *want)
{
	struct json_span span;

	assert_int_equal(json_find(text, strlen(text), path, &span), ERR_OK);
	assert_int_equal(span.len, strlen(want));
	assert_memory_equal(span.at, want, span.len);
}

static void
find_gives_the_raw_text(void **state)
{
	static const char *const id[] = { "id", NULL };
	static const char *const deep[] = { "p", "q", NULL };
	static const char *const none[] = { "p", "x", NULL };
	const char *text =
	    " { \"x\" : [1,{\"id\":2}] , \"ID\":3,\"\\u0069d\" : "
	    "12345678901234567890 ,\"p\":{\"s\":\"}\\\"\",\"q\":\"a\\u0000\"}}";
	struct json_span span;

	(void)state;
	assert_int_equal(check(text), ERR_OK);
	assert_found(text, id, "12345678901234567890");
	assert_found(text, deep, "\"a\\u0000\"");
	assert_int_equal(
	    json_find(text, strlen(text), none, &span), ERR_NOT_FOUND);
	assert_int_equal(json_find("[1]", 3, id, &span), ERR_NOT_FOUND);
	assert_int_equal(json_find("{}", 2, id, &span), ERR_NOT_FOUND);
}

static void
items_are_walked_as_raw_text(void **state)
{
	const char *text = "[ {\"a\":[1,2]} ,\"x,]\", -1.0 ,[] ]";
	static const char *const want[] = { "{\"a\":[1,2]}", "\"x,]\"", "-1.0",
		"[]" };
	struct json_span array = { text, strlen(text) }, item;
	size_t at = 0;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(json_item(array, &at, &item), ERR_OK);
		assert_int_equal(item.len, strlen(want[i]));
		assert_memory_equal(item.at, want[i], item.len);
	}
	assert_int_equal(json_item(array, &at, &item), ERR_NOT_FOUND);
	assert_int_equal(json_item(array, &at, &item), ERR_NOT_FOUND);
	at = 0;
	assert_int_equal(json_item((struct json_span){ "[ ]", 3 }, &at, &item),
	    ERR_NOT_FOUND);
	assert_int_equal(json_item((struct json_span){ "{}", 2 }, &at, &item),
	    ERR_NOT_FOUND);
}

static void
strings_keep_what_follows_a_nul(void **state)
{
	CLEANUP_BUF struct buf out = { 0 };
	const char *raw = "\"a\\u0000b\\n\\u00e9\\u20ac\\ud83d\\ude00\\/\"";
	static const char want[] =
	    "a\0b\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/";

	(void)state;
	buf_init(&out, 100);
	assert_int_equal(
	    json_string((struct json_span){ raw, strlen(raw) }, &out), ERR_OK);
	assert_int_equal(out.len, sizeof(want) - 1);
	assert_memory_equal(out.data, want, out.len);
	assert_int_equal(
	    json_string((struct json_span){ "12", 2 }, &out), ERR_PARSE);
	assert_int_equal(
	    json_string((struct json_span){ "", 0 }, &out), ERR_PARSE);
}

static void
a_string_beyond_the_buffer_leaves_it_as_it_was(void **state)
{
	CLEANUP_BUF struct buf out = { 0 };

	(void)state;
	buf_init(&out, 5);
	assert_int_equal(buf_puts(&out, "abc"), ERR_OK);
	assert_int_equal(
	    json_string((struct json_span){ "\"d\\nef\"", 7 }, &out),
	    ERR_LIMIT);
	assert_string_equal(buf_str(&out), "abc");
	assert_int_equal(json_quote(&out, "d\n", 2), ERR_LIMIT);
	assert_string_equal(buf_str(&out), "abc");
}

static void
quoting_escapes_what_it_must_and_nothing_else(void **state)
{
	CLEANUP_BUF struct buf out = { 0 };
	static const char text[] = "\"\\/\b\f\n\r\t\0\x1f\x7f"
				   "\xe2\x80\xa8é";

	(void)state;
	buf_init(&out, 200);
	assert_int_equal(json_quote(&out, text, sizeof(text) - 1), ERR_OK);
	assert_string_equal(buf_str(&out),
	    "\"\\\"\\\\/\\b\\f\\n\\r\\t"
	    "\\u0000\\u001f\x7f\xe2\x80\xa8é\"");
	assert_int_equal(json_check(out.data, out.len, 1, NULL), ERR_OK);
}

static void
equality_sees_through_escapes_and_stops_at_nothing(void **state)
{
	(void)state;
	assert_true(json_equal((struct json_span){ "\"a\\u0062\"", 9 }, "ab"));
	assert_false(json_equal((struct json_span){ "\"ab\"", 4 }, "abc"));
	assert_false(json_equal((struct json_span){ "\"abc\"", 5 }, "ab"));
	assert_false(
	    json_equal((struct json_span){ "\"ab\\u0000\"", 10 }, "ab"));
	assert_true(json_equal((struct json_span){ "\"\"", 2 }, ""));
	assert_false(json_equal((struct json_span){ "1", 1 }, "1"));
}

static void
lookups_are_case_sensitive(void **state)
{
	CLEANUP_JSON cJSON *json = NULL;
	const char *text = "{\"Id\":1,\"s\":\"x\"}";

	(void)state;
	assert_int_equal(
	    json_parse(text, strlen(text), DEPTH, &json, NULL), ERR_OK);
	assert_null(json_get(json, "id"));
	assert_non_null(json_get(json, "Id"));
	assert_string_equal(json_get_string(json, "s"), "x");
	assert_null(json_get_string(json, "Id"));
	assert_null(json_get(NULL, "a"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts_what_rfc_8259_allows),
		cmocka_unit_test(refuses_what_rfc_8259_does_not),
		cmocka_unit_test(refuses_bytes_that_are_not_utf8),
		cmocka_unit_test(refuses_lone_surrogates),
		cmocka_unit_test(finds_duplicate_keys_also_behind_escapes),
		cmocka_unit_test(many_keys_cost_bounded_time),
		cmocka_unit_test(values_are_bounded),
		cmocka_unit_test(depth_is_bounded_without_recursion),
		cmocka_unit_test(numbers_that_cjson_would_cut_are_refused),
		cmocka_unit_test(long_strings_are_scanned_fast),
		cmocka_unit_test(find_gives_the_raw_text),
		cmocka_unit_test(items_are_walked_as_raw_text),
		cmocka_unit_test(strings_keep_what_follows_a_nul),
		cmocka_unit_test(
		    a_string_beyond_the_buffer_leaves_it_as_it_was),
		cmocka_unit_test(quoting_escapes_what_it_must_and_nothing_else),
		cmocka_unit_test(
		    equality_sees_through_escapes_and_stops_at_nothing),
		cmocka_unit_test(lookups_are_case_sensitive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
