#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/conf.h"

static void
defaults_are_within_their_bounds(void **state)
{
	struct conf conf;

	(void)state;
	assert_int_equal(conf_init(&conf), ERR_OK);
	assert_int_equal(conf.body_max, 8 << 20);
	assert_int_equal(conf.keepalive_busy, 500);
	assert_true(conf.text_json);
	assert_string_equal(conf.log_level, "info");
	conf_done(&conf);
}

static void
values_take_units_and_bounds(void **state)
{
	struct conf_fault fault;
	struct conf conf;

	(void)state;
	assert_int_equal(conf_init(&conf), ERR_OK);
	assert_int_equal(conf_set(&conf, "body_max", "2M", NULL), ERR_OK);
	assert_int_equal(conf.body_max, 2 << 20);
	assert_int_equal(conf_set(&conf, "keepalive_idle", "2m", NULL), ERR_OK);
	assert_int_equal(conf.keepalive_idle, 120000);
	assert_int_equal(conf_set(&conf, "body_max", "0", &fault), ERR_CONF);
	assert_non_null(strstr(fault.text, "body_max"));
	assert_non_null(strstr(fault.text, "1K to 256M"));
	assert_int_equal(conf_set(&conf, "body_max", "-1", &fault), ERR_CONF);
	assert_int_equal(
	    conf_set(&conf, "body_max", "99999999999999999999", &fault),
	    ERR_CONF);
	assert_int_equal(conf_set(&conf, "body_max", "2 M", &fault), ERR_CONF);
	assert_int_equal(conf.body_max, 2 << 20);
	assert_int_equal(
	    conf_set(&conf, "no_such", "1", &fault), ERR_NOT_FOUND);
	assert_int_equal(
	    conf_set(&conf, "text_json", "maybe", &fault), ERR_CONF);
	conf_done(&conf);
}

static void
environment_is_read_and_typos_are_refused(void **state)
{
	char *good[] = { "PYTHON_SANDBOX_OUTPUT_MAX=1K",
		"SNEKBOX_URL=http://x/eval", "HOME=/",
		"PYTHON_SANDBOX_LISTEN=", NULL };
	char *bad[] = { "PYTHON_SANDBOX_OUTPUT_MAXX=1K", NULL };
	struct conf_fault fault;
	struct conf conf;

	(void)state;
	assert_int_equal(conf_init(&conf), ERR_OK);
	assert_int_equal(conf_load_env(&conf, good, &fault), ERR_OK);
	assert_int_equal(conf.output_max, 1024);
	assert_string_equal(conf.snekbox_url, "http://x/eval");
	assert_int_equal(conf_load_env(&conf, bad, &fault), ERR_CONF);
	assert_non_null(strstr(fault.text, "output_maxx"));
	conf_done(&conf);
}

static void
write_file(char *path, const char *text)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void
what_is_printed_can_be_read_again(void **state)
{
	char path[] = "/tmp/conf-XXXXXX";
	struct conf one, two;
	CLEANUP_FREE char *a = NULL, *b = NULL;
	size_t na, nb;
	FILE *out;

	(void)state;
	assert_int_equal(conf_init(&one), ERR_OK);
	assert_int_equal(conf_set(&one, "base_path", "/a b # c", NULL), ERR_OK);
	assert_int_equal(conf_set(&one, "body_max", "1500", NULL), ERR_OK);
	out = open_memstream(&a, &na);
	conf_print(&one, out);
	fclose(out);
	write_file(path, a);
	assert_int_equal(conf_init(&two), ERR_OK);
	assert_int_equal(conf_load_file(&two, path, NULL), ERR_OK);
	unlink(path);
	out = open_memstream(&b, &nb);
	conf_print(&two, out);
	fclose(out);
	assert_string_equal(a, b);
	assert_string_equal(two.base_path, "/a b # c");
	conf_done(&one);
	conf_done(&two);
}

static void
a_wrong_line_is_named(void **state)
{
	char path[] = "/tmp/conf-XXXXXX";
	struct conf_fault fault;
	struct conf conf;

	(void)state;
	write_file(path, "# fine\noutput_max = 1K # also fine\nfoo\n");
	assert_int_equal(conf_init(&conf), ERR_OK);
	assert_int_equal(conf_load_file(&conf, path, &fault), ERR_CONF);
	assert_non_null(strstr(fault.text, "line 3"));
	unlink(path);
	assert_int_equal(conf_load_file(&conf, path, &fault), ERR_SYS);
	conf_done(&conf);
}

static void
command_line_wins_and_is_taken_out(void **state)
{
	char sets[] = "output_max=2K", eq[] = "--set=figures_max=3";
	char *argv[] = { "x", "--set", sets, "--version", eq, NULL };
	char *env[] = { "PYTHON_SANDBOX_OUTPUT_MAX=1K",
		"PYTHON_SANDBOX_CONFIG=", NULL };
	struct conf_fault fault;
	struct conf conf;
	int argc = 5;

	(void)state;
	assert_int_equal(conf_load(&conf, &argc, argv, env, &fault), ERR_OK);
	assert_int_equal(conf.output_max, 2048);
	assert_int_equal(conf.figures_max, 3);
	assert_int_equal(argc, 2);
	assert_string_equal(argv[1], "--version");
	assert_null(argv[2]);
	conf_done(&conf);
}

static enum err
join(const char *item, void *arg)
{
	return buf_printf(arg, "<%s>", item);
}

static void
lists_are_split(void **state)
{
	CLEANUP_BUF struct buf out = { 0 };

	(void)state;
	buf_init(&out, 100);
	assert_int_equal(conf_each(" a,,b , c", join, &out), ERR_OK);
	assert_string_equal(buf_str(&out), "<a><b><c>");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_within_their_bounds),
		cmocka_unit_test(values_take_units_and_bounds),
		cmocka_unit_test(environment_is_read_and_typos_are_refused),
		cmocka_unit_test(what_is_printed_can_be_read_again),
		cmocka_unit_test(a_wrong_line_is_named),
		cmocka_unit_test(command_line_wins_and_is_taken_out),
		cmocka_unit_test(lists_are_split),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
