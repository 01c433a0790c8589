/* Batches and kept events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "mcp/batch.h"
#include "transport/event_log.h"

#define SESSION "0123456789abcdef0123456789abcdef0000000000000001"
#define OTHER "f123456789abcdef0123456789abcdef0000000000000001"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

static char dir[64];

static int
setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/psm-events-XXXXXX");
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	event_log_leave(dir);
	return rmdir(dir);
}

/* ---- batches ---- */

static struct batch *
parse(const char *text, enum err wanted)
{
	struct batch *batch = NULL;
	struct rpc_fault fault;
	struct conf conf;

	assert_int_equal(conf_init(&conf), ERR_OK);
	assert_int_equal(
	    batch_parse(text, strlen(text), &conf, &batch, &fault), wanted);
	conf_done(&conf);
	return batch;
}

static void
a_batch_is_known_by_its_bracket(void **state)
{
	(void)state;
	assert_true(batch_is("[", 1));
	assert_true(batch_is(" \r\n\t[]", 6));
	assert_false(batch_is("{}", 2));
	assert_false(batch_is("", 0));
	assert_false(batch_is("  ", 2));
}

static void
items_of_a_batch_are_judged_one_by_one(void **state)
{
	struct batch *batch = parse(" [" PING ", 7, " PING "]", ERR_OK);

	(void)state;
	assert_int_equal(batch->n, 3);
	assert_string_equal(batch->items[0].message->method, "ping");
	assert_null(batch->items[1].message);
	assert_int_equal(batch->items[1].fault.err, ERR_RPC_REQUEST);
	assert_non_null(batch->items[2].message);
	batch_free(batch);
}

static void
what_is_no_batch_is_refused(void **state)
{
	char many[4 * BATCH_MAX] = "[1";

	(void)state;
	parse("[]", ERR_RPC_REQUEST);
	parse("[" PING ",]", ERR_RPC_PARSE);
	parse("[" PING, ERR_RPC_PARSE);
	for (size_t i = 0; i < BATCH_MAX; i++)
		memcpy(many + 2 + 2 * i, ",1", 3);
	memcpy(many + strlen(many), "]", 2);
	parse(many, ERR_RPC_REQUEST);
}

/* ---- events ---- */

static void
expect_event(struct event_reader *reader, unsigned wanted, const char *text,
    bool wanted_last)
{
	CLEANUP_BUF struct buf out = { .max = 1 << 20 };
	unsigned number;
	bool last;

	assert_int_equal(
	    event_reader_next(reader, &out, &number, &last), ERR_OK);
	assert_int_equal(number, wanted);
	assert_string_equal(buf_str(&out), text);
	assert_int_equal(last, wanted_last);
}

static void
expect_none(struct event_reader *reader)
{
	CLEANUP_BUF struct buf out = { .max = 1 << 20 };
	unsigned number;
	bool last;

	assert_int_equal(
	    event_reader_next(reader, &out, &number, &last), ERR_TRUNCATED);
	assert_int_equal(out.len, 0);
}

static void
append(struct event_log *log, const char *text, bool last)
{
	assert_int_equal(
	    event_log_append(log, text, strlen(text), last), ERR_OK);
}

static void
what_is_kept_is_read_in_order(void **state)
{
	char id[EVENT_LOG_ID_MAX + 1], name[EVENT_LOG_NAME + 1];
	struct event_reader reader;
	struct event_log log;
	unsigned number;

	(void)state;
	assert_int_equal(event_log_create(&log, dir, SESSION, "\"a\""), ERR_OK);
	event_log_next_id(&log, id, sizeof(id));
	assert_int_equal(event_log_id(id, name, &number), ERR_OK);
	assert_int_equal(number, 1);
	assert_int_equal(
	    event_reader_open(&reader, dir, OTHER, name), ERR_NOT_FOUND);
	assert_int_equal(
	    event_reader_open(&reader, dir, SESSION, name), ERR_OK);
	assert_string_equal(reader.raw_id, "\"a\"");
	expect_none(&reader);
	append(&log, "one", false);
	expect_event(&reader, 1, "one", false);
	expect_none(&reader);
	append(&log, "two\n\n", false);
	append(&log, "", true);
	expect_event(&reader, 2, "two\n\n", false);
	expect_event(&reader, 3, "", true);
	event_reader_close(&reader);
	event_log_close(&log);
}

static void
a_record_that_is_not_whole_is_not_there(void **state)
{
	struct event_reader reader;
	struct event_log log;
	struct stat st;

	(void)state;
	assert_int_equal(event_log_create(&log, dir, SESSION, "1"), ERR_OK);
	append(&log, "whole", false);
	append(&log, "cut short", true);
	assert_int_equal(stat(log.path, &st), 0);
	assert_int_equal(
	    event_reader_open(&reader, dir, SESSION, log.name), ERR_OK);
	assert_int_equal(truncate(log.path, st.st_size - 1), 0);
	expect_event(&reader, 1, "whole", false);
	expect_none(&reader);
	event_reader_close(&reader);
	event_log_close(&log);
}

static void
event_ids_are_strict(void **state)
{
	static const char *const wrong[] = { "", "-1", "0123456789abcdef",
		"0123456789abcdef-", "0123456789abcdef-x",
		"0123456789abcdef-1x", "0123456789abcdeF-1",
		"0123456789abcdef0-1", "0123456789abcdef-1234567890",
		"../../../../../x-1" };
	char name[EVENT_LOG_NAME + 1];
	unsigned number = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(
		    event_log_id(wrong[i], name, &number), ERR_PARSE);
	assert_int_equal(
	    event_log_id("0123456789abcdef-17", name, &number), ERR_OK);
	assert_string_equal(name, "0123456789abcdef");
	assert_int_equal(number, 17);
}

static bool
is_there(const struct event_log *log)
{
	return access(log->path, F_OK) == 0;
}

static void
set_age(const struct event_log *log, time_t seconds)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - seconds },
		{ .tv_sec = time(NULL) - seconds } };

	assert_int_equal(utimensat(AT_FDCWD, log->path, times, 0), 0);
}

static void
old_and_many_events_go_the_oldest_first(void **state)
{
	struct event_log logs[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
		    event_log_create(&logs[i], dir, SESSION, "1"), ERR_OK);
		append(&logs[i], "0123456789", true);
		set_age(&logs[i], 1000 - 100 * i);
	}
	event_log_sweep(dir, 950 * 1000, 1 << 20);
	assert_false(is_there(&logs[0]));
	assert_true(is_there(&logs[1]));
	event_log_sweep(dir, 10000 * 1000, 40);
	assert_false(is_there(&logs[1]));
	assert_true(is_there(&logs[2]));
	event_log_touch(&logs[2]);
	event_log_sweep(dir, 500 * 1000, 1 << 20);
	assert_true(is_there(&logs[2]));
	for (int i = 0; i < 3; i++)
		event_log_close(&logs[i]);
}

static void
a_session_takes_its_events_with_it(void **state)
{
	struct event_log mine, other;

	(void)state;
	assert_int_equal(event_log_create(&mine, dir, SESSION, "1"), ERR_OK);
	assert_int_equal(event_log_create(&other, dir, OTHER, "1"), ERR_OK);
	event_log_forget(dir, SESSION);
	assert_false(is_there(&mine));
	assert_true(is_there(&other));
	event_log_close(&mine);
	event_log_close(&other);
}

static void
the_last_process_takes_all_events_with_it(void **state)
{
	struct event_log log;
	char path[128];
	FILE *f;

	(void)state;
	assert_int_equal(event_log_create(&log, dir, SESSION, "1"), ERR_OK);
	snprintf(path, sizeof(path), "%s/0000000000000001.sock", dir);
	assert_non_null(f = fopen(path, "w"));
	fclose(f);
	event_log_leave(dir);
	assert_true(is_there(&log));
	unlink(path);
	event_log_leave(dir);
	assert_false(is_there(&log));
	event_log_close(&log);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_is_known_by_its_bracket),
		cmocka_unit_test(items_of_a_batch_are_judged_one_by_one),
		cmocka_unit_test(what_is_no_batch_is_refused),
		cmocka_unit_test(event_ids_are_strict),
		cmocka_unit_test_setup_teardown(
		    what_is_kept_is_read_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    a_record_that_is_not_whole_is_not_there, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    old_and_many_events_go_the_oldest_first, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    a_session_takes_its_events_with_it, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    the_last_process_takes_all_events_with_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
