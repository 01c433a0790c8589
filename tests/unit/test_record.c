#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "server/gather.h"

/* ---- making input ---- */

static void
put_record(struct buf *out, unsigned type, unsigned id, const void *data,
    size_t n, unsigned padding)
{
	uint8_t head[RECORD_HEAD];
	static const char zeros[255];

	record_head_encode(head, (enum record_type)type, id, n);
	head[6] = (uint8_t)padding;
	assert_int_equal(buf_append(out, head, sizeof(head)), ERR_OK);
	assert_int_equal(buf_append(out, data, n), ERR_OK);
	assert_int_equal(buf_append(out, zeros, padding), ERR_OK);
}

static void
put_begin(struct buf *out, unsigned id, unsigned role, unsigned flags)
{
	const uint8_t body[8] = { (uint8_t)(role >> 8), (uint8_t)role,
		(uint8_t)flags };

	put_record(out, RECORD_BEGIN_REQUEST, id, body, sizeof(body), 0);
}

static void
put_request(struct buf *out, unsigned id, unsigned flags, unsigned padding)
{
	put_begin(out, id, RECORD_RESPONDER, flags);
	put_record(out, RECORD_PARAMS, id, "\1\1ab", 4, padding);
	put_record(out, RECORD_PARAMS, id, "", 0, 0);
	put_record(out, RECORD_STDIN, id, "hello", 5, padding);
	put_record(out, RECORD_STDIN, id, "", 0, padding);
}

/* ---- taking it ---- */

/* Feeds input in pieces of n bytes; writes what came as letters: B begin,
 * R record, P end of parameters, C complete, A abort, A "-" reply as E (end
 * request) U (unknown) V (values), F fault; data as it is. The request is
 * ended after C. */
struct feed {
	struct gather gather;
	struct buf events;
	struct gather_step step;
	bool faulted;
};

static void
note(struct feed *feed, enum gather_event event)
{
	static const char letters[] = { 0, 'B', 'R', 0, 'P', 'C', 'A', 0, 'F' };
	static const char replies[] = { [RECORD_END_REQUEST] = 'E',
		[RECORD_UNKNOWN_TYPE] = 'U',
		[RECORD_GET_VALUES_RESULT] = 'V' };

	if (event == GATHER_DATA)
		assert_int_equal(
		    buf_append(&feed->events, feed->step.data, feed->step.len),
		    ERR_OK);
	else if (event == GATHER_REPLY)
		assert_int_equal(
		    buf_putc(&feed->events, replies[feed->step.reply[1]]),
		    ERR_OK);
	else if (event != GATHER_MORE)
		assert_int_equal(
		    buf_putc(&feed->events, letters[event]), ERR_OK);
	feed->faulted = event == GATHER_FAULT;
	if (event == GATHER_COMPLETE)
		gather_end(&feed->gather);
}

static void
feed_piece(struct feed *feed, const char *data, size_t n)
{
	size_t used = 0;
	enum gather_event event;

	do {
		event = gather_next(&feed->gather, (const uint8_t *)data + used,
		    n - used, 7, &feed->step);
		assert_true(feed->step.used <= n - used);
		used += feed->step.used;
		note(feed, event);
	} while (event != GATHER_MORE && event != GATHER_FAULT);
	if (event == GATHER_MORE)
		assert_int_equal(used, n);
}

static void
feed_all(struct feed *feed, const struct buf *input, size_t piece)
{
	memset(feed, 0, sizeof(*feed));
	gather_init(&feed->gather);
	buf_init(&feed->events, 1 << 20);
	for (size_t at = 0; at < input->len && !feed->faulted; at += piece)
		feed_piece(feed, input->data + at,
		    input->len - at < piece ? input->len - at : piece);
}

static void
feed_done(struct feed *feed)
{
	gather_done(&feed->gather);
	buf_done(&feed->events);
}

static void
check(const struct buf *input, const char *wanted)
{
	static const size_t pieces[] = { 1, 2, 3, 7, 8, 9, 16, 1000000 };

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		struct feed feed;

		feed_all(&feed, input, pieces[i]);
		assert_string_equal(buf_str(&feed.events), wanted);
		feed_done(&feed);
	}
}

/* ---- the tests ---- */

static void
a_request_is_seen_whatever_its_pieces(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };

	(void)state;
	buf_init(&input, 1 << 20);
	put_request(&input, 1, 0, 0);
	check(&input, "BR\1\1abPRhelloC");
}

static void
padding_is_passed_over(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };

	(void)state;
	buf_init(&input, 1 << 20);
	put_request(&input, 1, 0, 255);
	put_request(&input, 1, 0, 3);
	check(&input, "BR\1\1abPRhelloCBR\1\1abPRhelloC");
}

static void
id_and_keep_are_told(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };
	struct feed feed;

	(void)state;
	buf_init(&input, 1 << 20);
	put_request(&input, 0x1234, RECORD_KEEP_CONN, 0);
	feed_all(&feed, &input, 1000);
	assert_int_equal(feed.gather.id, 0x1234);
	assert_true(feed.gather.keep);
	feed_done(&feed);
	buf_done(&input);
	put_request(&input, 2, 0xfe, 0);
	feed_all(&feed, &input, 1000);
	assert_false(feed.gather.keep);
	feed_done(&feed);
}

static void
the_largest_record_passes(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };
	static char big[RECORD_CONTENT_MAX];
	struct feed feed;

	(void)state;
	memset(big, 'x', sizeof(big));
	buf_init(&input, 1 << 20);
	put_begin(&input, 1, RECORD_RESPONDER, 0);
	put_record(&input, RECORD_PARAMS, 1, "", 0, 0);
	put_record(&input, RECORD_STDIN, 1, big, sizeof(big), 255);
	put_record(&input, RECORD_STDIN, 1, "", 0, 0);
	feed_all(&feed, &input, 4096);
	assert_int_equal(feed.events.len, sizeof(big) + strlen("BPRC"));
	feed_done(&feed);
}

static void
a_second_request_at_once_is_refused(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };
	struct feed feed;

	(void)state;
	buf_init(&input, 1 << 20);
	put_begin(&input, 1, RECORD_RESPONDER, 0);
	put_request(&input, 2, 0, 0);
	put_record(&input, RECORD_PARAMS, 1, "", 0, 0);
	check(&input, "BEP");
	feed_all(&feed, &input, 1 << 20);
	feed_done(&feed);
	buf_done(&input);
	put_begin(&input, 1, RECORD_RESPONDER, 0);
	put_begin(&input, 9, RECORD_RESPONDER, 0);
	feed_all(&feed, &input, 24);
	feed_done(&feed);
	gather_init(&feed.gather);
	(void)gather_next(
	    &feed.gather, (uint8_t *)input.data, 16, 7, &feed.step);
	assert_int_equal(gather_next(&feed.gather, (uint8_t *)input.data + 16,
			     16, 7, &feed.step),
	    GATHER_REPLY);
	assert_int_equal(feed.step.len, RECORD_END_SIZE);
	assert_int_equal(feed.step.reply[3], 9);
	assert_int_equal(feed.step.reply[12], RECORD_CANT_MPX_CONN);
}

static void
other_roles_are_refused(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };
	struct gather gather;
	struct gather_step step;

	(void)state;
	buf_init(&input, 1 << 20);
	put_begin(&input, 5, 2, 0);
	gather_init(&gather);
	assert_int_equal(
	    gather_next(&gather, (uint8_t *)input.data, 16, 7, &step),
	    GATHER_REPLY);
	assert_int_equal(step.reply[1], RECORD_END_REQUEST);
	assert_int_equal(step.reply[12], RECORD_UNKNOWN_ROLE);
	put_request(&input, 5, 0, 0);
	check(&input, "EBR\1\1abPRhelloC");
}

static void
values_are_told(void **state)
{
	static const char names[] = "\16\0FCGI_MAX_CONNS\17\0FCGI_MPXS_CONNS"
				    "\16\0FCGI_MAX_CONNS\3\2xyzab";
	static const char wanted[] = "\16\1FCGI_MAX_CONNS7\17\1"
				     "FCGI_MPXS_CONNS0";
	CLEANUP_BUF struct buf input = { 0 };
	struct gather gather;
	struct gather_step step;

	(void)state;
	buf_init(&input, 1 << 20);
	put_record(&input, RECORD_GET_VALUES, 0, names, sizeof(names) - 1, 0);
	gather_init(&gather);
	assert_int_equal(
	    gather_next(&gather, (uint8_t *)input.data, input.len, 7, &step),
	    GATHER_REPLY);
	assert_int_equal(step.len, RECORD_HEAD + sizeof(wanted) - 1);
	assert_int_equal(step.reply[1], RECORD_GET_VALUES_RESULT);
	assert_memory_equal(
	    step.reply + RECORD_HEAD, wanted, sizeof(wanted) - 1);
	gather_done(&gather);
	put_record(&input, RECORD_GET_VALUES, 0, "", 0, 0);
	put_request(&input, 1, 0, 0);
	check(&input, "VVBR\1\1abPRhelloC");
}

static void
lying_lengths_of_values_are_harmless(void **state)
{
	static const char *const lies[] = { "\377\377\377\377", "\5\5abc",
		"\200\0\0", "\0\377\377\377\377x" };
	uint8_t out[RECORD_VALUES_MAX];

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(record_values(out, (const uint8_t *)lies[i],
				     i == 3 ? 6 : strlen(lies[i]), 7),
		    RECORD_HEAD);
}

static void
unknown_types_are_answered_or_passed_over(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };

	(void)state;
	buf_init(&input, 1 << 20);
	put_record(&input, 77, 0, "abc", 3, 5);
	put_record(&input, 0, 0, "abc", 3, 5);
	put_record(&input, RECORD_DATA, 3, "abc", 3, 5);
	put_begin(&input, 3, RECORD_RESPONDER, 0);
	put_record(&input, RECORD_DATA, 3, "abc", 3, 5);
	put_record(&input, 99, 3, "abc", 3, 5);
	put_record(&input, 0, 3, "abc", 3, 5);
	put_record(&input, RECORD_PARAMS, 4, "abc", 3, 5);
	put_record(&input, RECORD_PARAMS, 3, "", 0, 0);
	check(&input, "UUBP");
}

static void
abort_is_told_for_the_request_only(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };

	(void)state;
	buf_init(&input, 1 << 20);
	put_record(&input, RECORD_ABORT_REQUEST, 3, "", 0, 0);
	put_begin(&input, 3, RECORD_RESPONDER, 0);
	put_record(&input, RECORD_ABORT_REQUEST, 4, "", 0, 0);
	put_record(&input, RECORD_ABORT_REQUEST, 3, "", 0, 9);
	check(&input, "BA");
}

static void
what_comes_after_the_end_is_passed_over(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };

	(void)state;
	buf_init(&input, 1 << 20);
	put_request(&input, 1, RECORD_KEEP_CONN, 0);
	put_record(&input, RECORD_STDIN, 1, "late", 4, 0);
	put_record(&input, RECORD_STDIN, 1, "", 0, 0);
	put_request(&input, 1, 0, 0);
	check(&input, "BR\1\1abPRhelloCBR\1\1abPRhelloC");
}

static void
what_is_not_fastcgi_is_a_fault(void **state)
{
	CLEANUP_BUF struct buf input = { 0 };

	(void)state;
	buf_init(&input, 1 << 20);
	assert_int_equal(buf_puts(&input, "GET / HTTP/1.1\r\n\r\n"), ERR_OK);
	check(&input, "F");
	buf_done(&input);
	put_begin(&input, 0, RECORD_RESPONDER, 0);
	check(&input, "F");
	buf_done(&input);
	put_record(&input, RECORD_BEGIN_REQUEST, 1, "abc", 3, 0);
	check(&input, "F");
	buf_done(&input);
	put_begin(&input, 1, RECORD_RESPONDER, 0);
	put_begin(&input, 1, RECORD_RESPONDER, 0);
	check(&input, "BF");
	buf_done(&input);
	put_begin(&input, 1, RECORD_RESPONDER, 0);
	put_record(&input, RECORD_STDIN, 1, "early", 5, 0);
	check(&input, "BF");
	buf_done(&input);
	put_begin(&input, 1, RECORD_RESPONDER, 0);
	put_record(&input, RECORD_STDIN, 1, "", 0, 0);
	check(&input, "BF");
	buf_done(&input);
	put_begin(&input, 1, RECORD_RESPONDER, 0);
	put_record(&input, RECORD_PARAMS, 1, "", 0, 0);
	put_record(&input, RECORD_PARAMS, 1, "late", 4, 0);
	check(&input, "BPF");
}

static void
output_is_cut_into_records(void **state)
{
	struct evbuffer *out = evbuffer_new();
	static char big[RECORD_CONTENT_MAX * 2 + 10];
	struct record_head head;
	size_t sizes[] = { RECORD_CONTENT_MAX, RECORD_CONTENT_MAX, 10, 0 };

	(void)state;
	assert_non_null(out);
	assert_int_equal(record_stdout(out, 300, "", 0), ERR_OK);
	assert_int_equal(evbuffer_get_length(out), 0);
	assert_int_equal(record_stdout(out, 300, big, sizeof(big)), ERR_OK);
	assert_int_equal(record_finish(out, 300), ERR_OK);
	for (size_t i = 0; i < 4; i++) {
		uint8_t bytes[RECORD_HEAD];

		assert_int_equal(
		    evbuffer_remove(out, bytes, sizeof(bytes)), sizeof(bytes));
		record_head_decode(bytes, &head);
		assert_int_equal(head.version, 1);
		assert_int_equal(head.type, RECORD_STDOUT);
		assert_int_equal(head.id, 300);
		assert_int_equal(head.len, sizes[i]);
		assert_int_equal(evbuffer_drain(out, head.len), 0);
	}
	assert_int_equal(evbuffer_get_length(out), RECORD_END_SIZE);
	evbuffer_free(out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_seen_whatever_its_pieces),
		cmocka_unit_test(padding_is_passed_over),
		cmocka_unit_test(id_and_keep_are_told),
		cmocka_unit_test(the_largest_record_passes),
		cmocka_unit_test(a_second_request_at_once_is_refused),
		cmocka_unit_test(other_roles_are_refused),
		cmocka_unit_test(values_are_told),
		cmocka_unit_test(lying_lengths_of_values_are_harmless),
		cmocka_unit_test(unknown_types_are_answered_or_passed_over),
		cmocka_unit_test(abort_is_told_for_the_request_only),
		cmocka_unit_test(what_comes_after_the_end_is_passed_over),
		cmocka_unit_test(what_is_not_fastcgi_is_a_fault),
		cmocka_unit_test(output_is_cut_into_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
