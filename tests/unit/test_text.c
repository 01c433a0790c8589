#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "sandbox/text.h"

/* What a program wrote, and what of it is to be read. */
struct pair {
	const char *raw, *clean;
};

static void
assert_clean(const char *raw, size_t n, const char *clean)
{
	CLEANUP_BUF struct buf out = { .max = 100000 };

	assert_int_equal(text_clean(&out, raw, n), ERR_OK);
	assert_string_equal(buf_str(&out), clean);
}

static void
assert_pairs(const struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_clean(
		    pairs[i].raw, strlen(pairs[i].raw), pairs[i].clean);
}

#define ASSERT_PAIRS(pairs) \
	assert_pairs(pairs, sizeof(pairs) / sizeof(pairs[0]))

static void
plain_text_stays_as_it_is(void **state)
{
	static const struct pair pairs[] = {
		{ "", "" },
		{ "\n\n", "\n\n" },
		{ "a\tb\nc", "a\tb\nc" },
		{ "温度 25℃ · 東京 · 한국 · 😀\n",
		    "温度 25℃ · 東京 · 한국 · 😀\n" },
		/* U+2028, U+2029, NEL */
		{ "a\u2028b\u2029c\xc2\x85"
		  "d",
		    "a\u2028b\u2029c\xc2\x85"
		    "d" },
	};

	(void)state;
	ASSERT_PAIRS(pairs);
}

static void
sequences_for_terminals_are_removed(void **state)
{
	static const struct pair pairs[] = {
		{ "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2K\x1b[1Aup",
		    "red  up" },
		{ "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\!", "link!" },
		{ "\x1b[38;2;1;2;3mx\x1b[?25l\x1b[ qy", "xy" },
		{ "\x1bPq#0\x1b\\z\x1b(B\x1b=w", "zw" },
		{ "\xc2\x9b"
		  "31mc1",
		    "c1" },
		{ "cut\x1b", "cut" },
		{ "cut\x1b[", "cut" },
		{ "cut\x1b[3", "cut3" },
		/* no end on its line: only the beginning goes */
		{ "\x1b]0;never ends\nnext", "0;never ends\nnext" },
	};

	(void)state;
	ASSERT_PAIRS(pairs);
}

static void
progress_is_folded_to_its_last_state(void **state)
{
	static const struct pair pairs[] = {
		{ "\r  0%\r 25%\r100%", "100%" },
		{ "\r  0%\r100%\n", "100%\n" },
		{ "a\r\nb\r\n", "a\nb\n" },
		{ "a\r\r\nb", "a\nb" },
		{ "long line\rnew", "newg line" },
		{ "long line\r\x1b[Knew", "new" },
		{ "long line\x1b[2K\rnew", "new" },
		{ "long line\r\x1b[2Knew", "new" },
		{ "abc\b\bX", "aXc" },
		{ "\b\bx", "x" },
		{ "spin |\b/\b-", "spin -" },
		{ "東京\r大", "大京" },
		{ "half done\r", "half done" },
	};

	(void)state;
	ASSERT_PAIRS(pairs);
}

static void
control_characters_become_visible(void **state)
{
	(void)state;
	assert_clean("a\0b\x07\x1a"
		     "c",
	    6, "a␀b␇␚c");
	assert_clean("\x7f", 1, "␡");
	assert_clean("\xc2\x80|\xc2\x9f", 5, "\\x80|\\x9f");
}

static void
bytes_that_are_not_utf8_are_replaced(void **state)
{
	static const struct pair pairs[] = {
		{ "\xff\xfe", "��" }, { "a\xc3", "a�" },
		{ "\xe2\x82"
		  "b",
		    "�b" },
		{ "\xc0\xaf", "��" },
		{ "\xed\xa0\x80", "���" },      /* a surrogate */
		{ "\xf4\x90\x80\x80", "����" }, /* beyond U+10FFFF */
		{ "\xf0\x9f\x98\x80", "😀" },
		{ "\xe0\x80\x80", "���" }, /* overlong */
	};

	(void)state;
	ASSERT_PAIRS(pairs);
}

static void
assert_bounds(const char *text, size_t budget, const char *bounded, bool cut)
{
	CLEANUP_BUF struct buf out = { .max = 100000 };
	bool was_cut = !cut;

	assert_int_equal(
	    text_bound(&out, text, strlen(text), budget, &was_cut), ERR_OK);
	assert_string_equal(buf_str(&out), bounded);
	assert_int_equal(was_cut, cut);
	assert_true(out.len <= budget || budget < 60);
}

static void
what_fits_is_whole(void **state)
{
	(void)state;
	assert_bounds("", 0, "", false);
	assert_bounds("abc", 3, "abc", false);
	assert_bounds("abc", 300, "abc", false);
}

static void
what_does_not_fit_keeps_head_and_tail(void **state)
{
	CLEANUP_BUF struct buf text = { .max = 100000 };
	CLEANUP_BUF struct buf out = { .max = 100000 };
	CLEANUP_BUF struct buf clean = { .max = 100000 };
	bool cut;

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(buf_printf(&text, "%04d 東京\n", i), ERR_OK);
	for (size_t budget = 64; budget < 700; budget++) {
		out.len = 0;
		assert_int_equal(
		    text_bound(&out, text.data, text.len, budget, &cut),
		    ERR_OK);
		assert_true(cut);
		assert_true(out.len <= budget);
		assert_non_null(strstr(out.data, "bytes left out"));
		/* no character is cut: cleaning finds nothing to replace */
		clean.len = 0;
		assert_int_equal(text_clean(&clean, out.data, out.len), ERR_OK);
		assert_string_equal(clean.data, out.data);
	}
	assert_memory_equal(out.data, "0000 東京\n", 12);
	assert_string_equal(out.data + out.len - 12, "0999 東京\n");
}

static void
the_missing_bytes_are_counted(void **state)
{
	char text[1001];

	(void)state;
	memset(text, 'x', 1000);
	text[1000] = '\0';
	text[0] = 'H';
	text[999] = 'T';
	{
		CLEANUP_BUF struct buf out = { .max = 2000 };
		size_t left;
		const char *at;

		assert_int_equal(
		    text_bound(&out, text, 1000, 200, NULL), ERR_OK);
		assert_int_equal(out.data[0], 'H');
		assert_int_equal(out.data[out.len - 1], 'T');
		at = strstr(out.data, "[… ");
		assert_non_null(at);
		left = strtoul(at + strlen("[… "), NULL, 10);
		assert_int_equal(left + out.len -
			strlen("\n[… 000 bytes "
			       "left out …]\n"),
		    1000);
	}
}

static void
a_full_buffer_is_told(void **state)
{
	CLEANUP_BUF struct buf out = { .max = 4 };

	(void)state;
	assert_int_equal(text_clean(&out, "12345", 5), ERR_LIMIT);
	assert_int_equal(text_clean(&out, "\x01\x02", 2), ERR_LIMIT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_text_stays_as_it_is),
		cmocka_unit_test(sequences_for_terminals_are_removed),
		cmocka_unit_test(progress_is_folded_to_its_last_state),
		cmocka_unit_test(control_characters_become_visible),
		cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
		cmocka_unit_test(what_fits_is_whole),
		cmocka_unit_test(what_does_not_fit_keeps_head_and_tail),
		cmocka_unit_test(the_missing_bytes_are_counted),
		cmocka_unit_test(a_full_buffer_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
