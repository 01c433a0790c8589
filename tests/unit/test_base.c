#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/rnd.h"

static void
a_buffer_never_passes_its_maximum(void **state)
{
	CLEANUP_BUF struct buf buf = { 0 };

	(void)state;
	buf_init(&buf, 10);
	assert_int_equal(buf_append(&buf, "12345678", 8), ERR_OK);
	assert_int_equal(buf_append(&buf, "abc", 3), ERR_LIMIT);
	assert_string_equal(buf_str(&buf), "12345678");
	assert_int_equal(buf_printf(&buf, "%d", 99), ERR_OK);
	assert_int_equal(buf_putc(&buf, 'x'), ERR_LIMIT);
	assert_int_equal(buf.len, 10);
	buf_drop(&buf, 4);
	assert_string_equal(buf_str(&buf), "567899");
	buf_drop(&buf, 1000);
	assert_string_equal(buf_str(&buf), "");
}

static void
a_stolen_buffer_is_empty(void **state)
{
	CLEANUP_BUF struct buf buf = { 0 };
	CLEANUP_FREE char *text = NULL;
	size_t len = 99;

	(void)state;
	buf_init(&buf, 10);
	text = buf_steal(&buf, &len);
	assert_string_equal(text, "");
	assert_int_equal(len, 0);
	free(text);
	assert_int_equal(buf_puts(&buf, "abc"), ERR_OK);
	text = buf_steal(&buf, &len);
	assert_string_equal(text, "abc");
	assert_int_equal(len, 3);
	assert_int_equal(buf.len, 0);
}

static void
base64_goes_both_ways(void **state)
{
	CLEANUP_BUF struct buf text = { 0 }, back = { 0 };
	unsigned char bytes[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		buf_init(&text, 1000);
		buf_init(&back, 1000);
		assert_int_equal(base64_encode(&text, bytes, n), ERR_OK);
		assert_int_equal(text.len, (n + 2) / 3 * 4);
		assert_int_equal(
		    base64_decode(&back, buf_str(&text), text.len), ERR_OK);
		assert_int_equal(back.len, n);
		assert_memory_equal(buf_str(&back), bytes, n);
		buf_done(&text);
		buf_done(&back);
	}
}

static void
bad_base64_is_refused(void **state)
{
	CLEANUP_BUF struct buf back = { 0 };

	(void)state;
	buf_init(&back, 1000);
	assert_int_equal(base64_decode(&back, "abc", 3), ERR_PARSE);
	assert_int_equal(base64_decode(&back, "ab*=", 4), ERR_PARSE);
	assert_int_equal(back.len, 0);
	assert_int_equal(base64_decode(&back, "aGVs\nbG8=\n", 10), ERR_OK);
	assert_string_equal(buf_str(&back), "hello");
}

static void
random_hex_is_hex_and_not_repeated(void **state)
{
	char one[33], two[33];

	(void)state;
	assert_int_equal(rnd_hex(one, 16), ERR_OK);
	assert_int_equal(rnd_hex(two, 16), ERR_OK);
	assert_int_equal(strlen(one), 32);
	assert_int_equal(strspn(one, "0123456789abcdef"), 32);
	assert_string_not_equal(one, two);
}

static void
every_error_has_its_row(void **state)
{
	(void)state;
	for (int i = 0; i < ERR_COUNT; i++) {
		const struct err_info *info = err_info((enum err)i);

		assert_non_null(info->name);
		assert_true(i == ERR_INTERNAL || i == ERR_OK ||
		    info != err_info(ERR_INTERNAL));
		assert_in_range(info->http_status, 200, 599);
	}
	assert_ptr_equal(err_info((enum err)12345), err_info(ERR_INTERNAL));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buffer_never_passes_its_maximum),
		cmocka_unit_test(a_stolen_buffer_is_empty),
		cmocka_unit_test(base64_goes_both_ways),
		cmocka_unit_test(bad_base64_is_refused),
		cmocka_unit_test(random_hex_is_hex_and_not_repeated),
		cmocka_unit_test(every_error_has_its_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
