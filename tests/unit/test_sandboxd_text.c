#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "sandboxd/base64_lenient.h"
#include "sandboxd/output.h"
#include "base/utf8.h"
#include "sandboxd/value.h"

/* Feeds text in pieces of every size: the result must not depend on it. */
static void
assert_output(const char *in, size_t n, const char *wanted)
{
	for (size_t step = 1; step <= n + 1; step++) {
		uint64_t left = 1000;
		struct output out;

		output_init(&out, &left);
		for (size_t at = 0; at < n; at += step) {
			size_t part = n - at < step ? n - at : step;

			assert_int_equal(
			    output_feed(&out, in + at, part), ERR_OK);
		}
		assert_int_equal(output_end(&out), ERR_OK);
		assert_string_equal(buf_str(&out.text), wanted);
		output_done(&out);
	}
}

static void
line_ends_become_newlines(void **state)
{
	(void)state;
	assert_output("a\r\nb\rc\n\r\n\r\rd", 12, "a\nb\nc\n\n\n\nd");
	assert_output("\r", 1, "\n");
	assert_output("\r\xc3\xa9\n", 4, "\n\xc3\xa9\n");
}

static void
bad_bytes_become_one_mark_each(void **state)
{
	(void)state;
	assert_output("a\xff\xfe"
		      "b",
	    4, "a" UTF8_REPLACEMENT UTF8_REPLACEMENT "b");
	/* a character cut short is one mark, and what follows it stays */
	assert_output("\xe2\x82"
		      "x",
	    3, UTF8_REPLACEMENT "x");
	assert_output("abc\xf0\x9f\x98", 6, "abc" UTF8_REPLACEMENT);
	/* a surrogate, an overlong slash, beyond the last code point */
	assert_output("\xed\xa0\x80", 3,
	    UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT);
	assert_output("\xc0\xaf", 2, UTF8_REPLACEMENT UTF8_REPLACEMENT);
	assert_output("\xf4\x90\x80\x80", 4,
	    UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT
		UTF8_REPLACEMENT);
	assert_output(
	    "\xe2\x82\xac\xf0\x9f\x98\x80", 7, "\xe2\x82\xac\xf0\x9f\x98\x80");
}

static void
characters_are_counted_not_bytes(void **state)
{
	uint64_t left = 3;
	struct output out;

	(void)state;
	output_init(&out, &left);
	assert_int_equal(output_feed(&out, "\xe2\x82\xac\xc3\xa9x", 6), ERR_OK);
	assert_int_equal(left, 0);
	assert_int_equal(output_feed(&out, "y", 1), ERR_LIMIT);
	assert_string_equal(buf_str(&out.text), "\xe2\x82\xac\xc3\xa9x");
	output_done(&out);
}

static void
a_plain_run_stops_at_the_limit(void **state)
{
	uint64_t left = 4;
	struct output out;

	(void)state;
	output_init(&out, &left);
	assert_int_equal(output_feed(&out, "abcdef", 6), ERR_LIMIT);
	assert_string_equal(buf_str(&out.text), "abcd");
	output_done(&out);
}

static void
assert_base64(const char *in, const char *wanted)
{
	char text[64];
	size_t len = 0;

	memcpy(text, in, strlen(in) + 1);
	if (wanted == NULL) {
		assert_false(base64_lenient(text, strlen(in), &len));
		return;
	}
	assert_true(base64_lenient(text, strlen(in), &len));
	assert_int_equal(len, strlen(wanted));
	assert_memory_equal(text, wanted, len);
}

/* Each line as Python's base64.b64decode answers. */
static void
base64_is_read_as_python_reads_it(void **state)
{
	(void)state;
	assert_base64("", "");
	assert_base64("aGVsbG8=", "hello");
	assert_base64("aGVs\nbG8=\n", "hello");
	assert_base64("aGk*\n==", "hi");
	assert_base64("-_-_", "");
	assert_base64("aGk=trailing", "hi");
	assert_base64("=aGk=", "hi");
	assert_base64("abc", NULL);
	assert_base64("a", NULL);
	assert_base64("a===", NULL);
	assert_base64("aGk", NULL);
	assert_base64("\xc3\xa9", NULL);
}

static void
assert_repr(const char *json, const char *wanted)
{
	CLEANUP_BUF struct buf out = { 0 };
	struct value_doc doc;
	char text[256];

	buf_init(&out, 1000);
	memcpy(text, json, strlen(json) + 1);
	assert_int_equal(value_parse(&doc, text, strlen(json), 10), ERR_OK);
	assert_int_equal(value_repr(&out, doc.root), ERR_OK);
	assert_string_equal(buf_str(&out), wanted);
	value_done(&doc);
}

static void
values_look_as_in_python(void **state)
{
	(void)state;
	assert_repr("null", "None");
	assert_repr("[true,false,NaN,-1.5e3]", "[True, False, NaN, -1.5e3]");
	assert_repr("{\"a\":{\"b\":[]}}", "{'a': {'b': []}}");
	assert_repr("\"it's\"", "\"it's\"");
	assert_repr("\"it's \\\"x\\\"\"", "'it\\'s \"x\"'");
	assert_repr("\"\\n\\u0000\\u007f\\\\\"", "'\\n\\x00\\x7f\\\\'");
}

static void
the_last_of_equal_keys_wins(void **state)
{
	char text[] = "{\"a\": 1, \"A\": 3, \"a\": \"\\ud83d\\ude00\\u0000z\"}";
	struct value_doc doc;
	struct value *v;

	(void)state;
	assert_int_equal(value_parse(&doc, text, strlen(text), 10), ERR_OK);
	v = value_get(doc.root, "a");
	assert_int_equal(v->len, 6);
	assert_memory_equal(v->text, "\xf0\x9f\x98\x80\0z", 6);
	assert_null(value_get(doc.root, "aa"));
	value_done(&doc);
}

static void
depth_has_a_limit(void **state)
{
	char text[] = "[[[[]]]]";
	char again[] = "[[[[]]]]";
	struct value_doc doc;

	(void)state;
	assert_int_equal(value_parse(&doc, text, 8, 3), ERR_LIMIT);
	value_done(&doc);
	assert_int_equal(value_parse(&doc, again, 8, 4), ERR_OK);
	value_done(&doc);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_ends_become_newlines),
		cmocka_unit_test(bad_bytes_become_one_mark_each),
		cmocka_unit_test(characters_are_counted_not_bytes),
		cmocka_unit_test(a_plain_run_stops_at_the_limit),
		cmocka_unit_test(base64_is_read_as_python_reads_it),
		cmocka_unit_test(values_look_as_in_python),
		cmocka_unit_test(the_last_of_equal_keys_wins),
		cmocka_unit_test(depth_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
