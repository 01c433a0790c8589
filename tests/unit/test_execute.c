/* A call under way: queue, run, progress, answer, cancellation at any stage,
 * endpoints that fail. */
#include "mcp_rig.h"

static struct rig *
rig_ready(int n_fakes, bool stops, const char *const *settings)
{
	struct rig *rig = rig_open(n_fakes, stops, settings);

	initialize(rig, "2025-11-25");
	return rig;
}

static void
cancel_id(struct rig *rig, const char *id)
{
	struct ear ear = { .rig = rig };
	char text[200];

	snprintf(text, sizeof(text),
	    "{\"jsonrpc\":\"2.0\",\"method\":"
	    "\"notifications/cancelled\",\"params\":{\"requestId\":%s}}",
	    id);
	tell_core(rig, &ear, text);
}

static void
a_call_gives_text_and_structured_content(void **state)
{
	struct rig *rig = rig_ready(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	call_tool(rig, &ear, "\"\xc3\xa9\"", CODE, NULL);
	assert_true(mcp_session_busy(rig->session));
	RIG_UNTIL(rig, ear.replies == 1);
	assert_false(mcp_session_busy(rig->session));
	assert_ended(&ear, "", "hi\\n");
	assert_non_null(strstr(ear.reply, "\"id\":\"\xc3\xa9\""));
	assert_int_equal(ear.n_notes, 0);
	assert_int_equal(rig->fakes[0].requests, 1);
	assert_int_equal(rig_leases(rig), 0);
	assert_int_equal(rig->idle, 1);
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
an_old_revision_gets_no_structured_content(void **state)
{
	struct rig *rig = rig_open(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	initialize(rig, "2025-03-26");
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_null(strstr(ear.reply, "structuredContent"));
	assert_non_null(strstr(ear.reply, "\\\"status\\\":\\\"success\\\""));
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
a_ping_is_answered_while_a_program_runs(void **state)
{
	struct rig *rig = rig_ready(1, true, NULL);
	struct ear ear = { .rig = rig }, ping = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	tell_core(
	    rig, &ping, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}");
	assert_int_equal(ping.replies, 1);
	assert_int_equal(ear.replies, 0);
	fake_release(&rig->fakes[0]);
	RIG_UNTIL(rig, ear.replies == 1);
	ear_done(&ear);
	ear_done(&ping);
	rig_close(rig, 0);
}

/* ---- progress ------------------------------------------------------------ */

static double
progress_of(const char *note, bool *ret_total, const char **ret_message)
{
	CLEANUP_JSON cJSON *json = NULL;
	static char message[256];
	const cJSON *params;
	double value;

	assert_int_equal(
	    json_parse(note, strlen(note), 10, &json, NULL), ERR_OK);
	assert_string_equal(
	    json_get_string(json, "method"), "notifications/progress");
	params = json_get(json, "params");
	assert_string_equal(json_get_string(params, "progressToken"), "t-1");
	value = json_get(params, "progress")->valuedouble;
	*ret_total = json_get(params, "total") != NULL;
	assert_true(
	    !*ret_total || json_get(params, "total")->valuedouble >= value);
	snprintf(
	    message, sizeof(message), "%s", json_get_string(params, "message"));
	*ret_message = message;
	return value;
}

/* One place: the second call waits about a second, then runs another. */
static void
progress_rises_through_queue_and_run_and_then_stops(void **state)
{
	static const char *const settings[] = { "sandbox_workers", "1", NULL };
	struct rig *rig = rig_ready(1, true, settings);
	struct ear first = { .rig = rig }, ear = { .rig = rig };
	bool total, queued = false, running = false;
	double last = -1;
	int heard;

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &first, "1", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	call_tool(rig, &ear, "2", CODE, TOKEN);
	rig_run_ms(rig, 1200);
	fake_release(&rig->fakes[0]);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1 && first.replies == 1);
	rig_run_ms(rig, 2200);
	fake_release(&rig->fakes[0]);
	RIG_UNTIL(rig, ear.replies == 1);
	heard = ear.n_notes;
	rig_run_ms(rig, 1100);
	assert_int_equal(ear.n_notes, heard);
	assert_in_range(heard, 3, 5);
	for (int i = 0; i < heard; i++) {
		const char *message;
		double value = progress_of(ear.notes[i], &total, &message);

		assert_true(value > last);
		assert_true(i == 0 || value - last > 0.9);
		last = value;
		if (strstr(message, "place 1 in the queue") != NULL) {
			queued = true;
			assert_false(running || total);
		} else {
			running = true;
			assert_non_null(strstr(message, "of at most 6 s"));
			assert_true(total);
		}
	}
	assert_true(queued && running);
	assert_int_equal(first.n_notes, 0);
	ear_done(&first);
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
a_notification_may_end_the_session(void **state)
{
	struct rig *rig = rig_ready(1, true, NULL);
	struct ear ear = { .rig = rig, .end_on_note = true };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ear, "1", CODE, TOKEN);
	RIG_UNTIL(rig, ear.drops == 1);
	assert_null(rig->session);
	assert_int_equal(ear.n_notes, 1);
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
an_answer_may_end_the_session(void **state)
{
	struct rig *rig = rig_ready(1, true, NULL);
	struct ear ear = { .rig = rig, .end_on_reply = true };
	struct ear other = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &other, "2", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	rig->fakes[0].way = FAKE_ANSWER;
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_int_equal(other.drops, 1);
	ear_done(&ear);
	ear_done(&other);
	rig_close(rig, 0);
}

/* ---- cancellation -------------------------------------------------------- */

static void
cancelling_a_run_on_sandboxd_frees_its_place_at_once(void **state)
{
	struct rig *rig = rig_ready(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ear, "5", CODE, TOKEN);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	cancel_id(rig, "\"5\"");
	cancel_id(rig, "6");
	cancel_id(rig, "5.0");
	assert_int_equal(ear.drops, 0);
	assert_int_equal(rig_leases(rig), 1);
	cancel_id(rig, "5");
	assert_int_equal(ear.drops, 1);
	assert_int_equal(rig_leases(rig), 0);
	RIG_UNTIL(rig, rig->fakes[0].gone == 1);
	cancel_id(rig, "5");
	rig_run_ms(rig, 50);
	assert_int_equal(ear.replies, 0);
	ear_done(&ear);
	rig_close(rig, 0);
}

/* A Snekbox goes on with the run: its place is free when its limit is over. */
static void
cancelling_a_run_on_a_snekbox_holds_its_place(void **state)
{
	static const char *const settings[] = { "sandbox_workers", "1",
		"sandbox_time_limit", "1s", NULL };
	struct rig *rig = rig_ready(1, false, settings);
	struct ear ear = { .rig = rig }, next = { .rig = rig };
	uint64_t begun;

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ear, "5", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	begun = clock_ms();
	cancel_id(rig, "5");
	assert_int_equal(ear.drops, 1);
	assert_int_equal(rig_leases(rig), 1);
	rig->fakes[0].way = FAKE_ANSWER;
	call_tool(rig, &next, "6", CODE, NULL);
	RIG_UNTIL(rig, next.replies == 1);
	assert_ended(&next, "", "hi");
	assert_true(clock_ms() - begun > 1000);
	ear_done(&ear);
	ear_done(&next);
	rig_close(rig, 0);
}

static void
cancelling_one_that_waits_lets_the_next_on(void **state)
{
	static const char *const settings[] = { "sandbox_workers", "1", NULL };
	struct rig *rig = rig_ready(1, true, settings);
	struct ear ears[3] = { { .rig = rig }, { .rig = rig }, { .rig = rig } };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ears[0], "0", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	call_tool(rig, &ears[1], "1", CODE, NULL);
	call_tool(rig, &ears[2], "2", CODE, NULL);
	RIG_UNTIL(rig, rig->jobs == 0);
	cancel_id(rig, "1");
	assert_int_equal(ears[1].drops, 1);
	rig->fakes[0].way = FAKE_ANSWER;
	fake_release(&rig->fakes[0]);
	RIG_UNTIL(rig, ears[0].replies == 1 && ears[2].replies == 1);
	assert_int_equal(rig->fakes[0].requests, 2);
	for (int i = 0; i < 3; i++)
		ear_done(&ears[i]);
	rig_close(rig, 0);
}

/* The session ends while a worker holds the call, before and after the run,
 * while it waits and while it runs. */
static void
a_session_may_end_at_any_stage(void **state)
{
	(void)state;
	for (int stage = 0; stage < 4; stage++) {
		static const char *const settings[] = { "sandbox_workers", "1",
			NULL };
		struct rig *rig = rig_ready(1, true, settings);
		struct ear ear = { .rig = rig }, other = { .rig = rig };

		rig->fakes[0].way = stage == 3 ? FAKE_ANSWER : FAKE_WAIT;
		rig->hold = stage == 0;
		call_tool(rig, &ear, "1", CODE, TOKEN);
		if (stage == 0) {
			RIG_UNTIL(rig, rig->n_held == 1);
		} else if (stage == 1) {
			RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
			call_tool(rig, &other, "2", CODE, NULL);
			RIG_UNTIL(rig, rig->jobs == 0);
		} else if (stage == 2) {
			RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
		} else {
			RIG_UNTIL(rig, rig->jobs == 0);
			rig->hold = true;
			RIG_UNTIL(rig, rig->n_held == 1);
		}
		rig_end_session(rig);
		assert_int_equal(ear.drops, 1);
		assert_int_equal(ear.replies, 0);
		assert_int_equal(other.drops, stage == 1);
		assert_int_equal(rig_leases(rig), 0);
		ear_done(&ear);
		ear_done(&other);
		rig_close(rig, 0);
	}
}

/* ---- limits -------------------------------------------------------------- */

static void
the_same_id_twice_is_refused(void **state)
{
	struct rig *rig = rig_ready(1, true, NULL);
	struct ear ear = { .rig = rig }, twin = { .rig = rig };
	struct ear other = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ear, "1", CODE, NULL);
	call_tool(rig, &twin, "1", CODE, NULL);
	assert_error(&twin, -32600, "under way");
	call_tool(rig, &other, "\"1\"", CODE, NULL);
	assert_int_equal(other.replies, 0);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 2);
	fake_release(&rig->fakes[0]);
	RIG_UNTIL(rig, ear.replies == 1 && other.replies == 1);
	call_tool(rig, &twin, "1", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	fake_release(&rig->fakes[0]);
	RIG_UNTIL(rig, twin.replies == 1);
	assert_ended(&twin, "", "hi");
	ear_done(&ear);
	ear_done(&twin);
	ear_done(&other);
	rig_close(rig, 0);
}

static void
beyond_the_queue_the_answer_is_busy(void **state)
{
	static const char *const settings[] = { "sandbox_workers", "1",
		"queue_max", "1", NULL };
	struct rig *rig = rig_ready(1, true, settings);
	struct ear ears[3] = { { .rig = rig }, { .rig = rig }, { .rig = rig } };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ears[0], "0", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	call_tool(rig, &ears[1], "1", CODE, NULL);
	RIG_UNTIL(rig, rig->jobs == 0);
	call_tool(rig, &ears[2], "2", CODE, NULL);
	RIG_UNTIL(rig, ears[2].replies == 1);
	assert_ended(&ears[2], "busy", "queue_max");
	assert_int_equal(rig->fakes[0].requests, 1);
	rig->fakes[0].way = FAKE_ANSWER;
	fake_release(&rig->fakes[0]);
	RIG_UNTIL(rig, ears[0].replies == 1 && ears[1].replies == 1);
	assert_ended(&ears[1], "", "hi");
	for (int i = 0; i < 3; i++)
		ear_done(&ears[i]);
	rig_close(rig, 0);
}

static void
waiting_too_long_is_busy(void **state)
{
	static const char *const settings[] = { "sandbox_workers", "1",
		"queue_timeout", "400ms", NULL };
	struct rig *rig = rig_ready(1, true, settings);
	struct ear first = { .rig = rig }, ear = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &first, "0", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_ended(&ear, "busy", "queue_timeout");
	assert_int_equal(first.replies, 0);
	rig_end_session(rig);
	ear_done(&first);
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
too_many_calls_of_a_session_are_busy(void **state)
{
	static const char *const settings[] = { "session_calls_max", "2",
		NULL };
	struct rig *rig = rig_ready(1, true, settings);
	struct ear ears[3] = { { .rig = rig }, { .rig = rig }, { .rig = rig } };
	static const char *const ids[] = { "0", "1", "2" };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	for (int i = 0; i < 3; i++)
		call_tool(rig, &ears[i], ids[i], CODE, NULL);
	RIG_UNTIL(rig, ears[2].replies == 1);
	assert_ended(&ears[2], "busy", "session_calls_max");
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 2);
	rig_end_session(rig);
	for (int i = 0; i < 3; i++)
		ear_done(&ears[i]);
	rig_close(rig, 0);
}

static void
a_draining_server_finishes_runs_and_takes_no_new_ones(void **state)
{
	struct rig *rig = rig_ready(1, true, NULL);
	struct ear ear = { .rig = rig }, late = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	mcp_drain(rig->mcp);
	call_tool(rig, &late, "2", CODE, NULL);
	RIG_UNTIL(rig, late.replies == 1);
	assert_ended(&late, "busy", "shutting down");
	fake_release(&rig->fakes[0]);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_ended(&ear, "", "hi");
	assert_int_equal(rig->idle, 1);
	ear_done(&ear);
	ear_done(&late);
	rig_close(rig, 0);
}

static void
many_calls_get_their_own_answers(void **state)
{
	enum { N = 40 };
	static const char *const settings[] = { "sandbox_workers", "2",
		"session_calls_max", "64", "queue_max", "64", "calls_max", "64",
		NULL };
	struct rig *rig = rig_ready(1, true, settings);
	struct ear ears[N];

	(void)state;
	for (int i = 0; i < N; i++) {
		char id[8];

		ears[i] = (struct ear){ .rig = rig };
		snprintf(id, sizeof(id), "%d", i);
		call_tool(rig, &ears[i], id, CODE, TOKEN);
	}
	for (int i = 0; i < N; i++) {
		char id[20];

		RIG_UNTIL(rig, ears[i].replies == 1);
		snprintf(id, sizeof(id), "\"id\":%d,", i);
		assert_ended(&ears[i], "", id);
		ear_done(&ears[i]);
	}
	assert_int_equal(rig->fakes[0].requests, N);
	rig_close(rig, 0);
}

/* ---- endpoints ----------------------------------------------------------- */

static void
an_endpoint_that_is_not_reached_is_passed_over(void **state)
{
	struct rig *rig = rig_ready(2, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	fake_close(&rig->fakes[0]);
	for (int i = 0; i < 4; i++) {
		call_tool(rig, &ear, "1", CODE, NULL);
		RIG_UNTIL(rig, ear.replies == 1);
		assert_ended(&ear, "", "hi");
	}
	assert_int_equal(rig->fakes[1].requests, 4);
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
all_unreached_is_said_with_addresses_and_ends_with_them(void **state)
{
	struct rig *rig = rig_ready(2, true, NULL);
	struct ear ear = { .rig = rig };
	char urls[2][128];

	(void)state;
	for (int i = 0; i < 2; i++) {
		snprintf(urls[i], sizeof(urls[i]), "%s", rig->fakes[i].url);
		fake_close(&rig->fakes[i]);
	}
	for (int i = 0; i < 2; i++) {
		call_tool(rig, &ear, "1", CODE, NULL);
		RIG_UNTIL(rig, ear.replies == 1);
		assert_ended(&ear, "sandbox_unavailable", "snekbox_url");
		assert_non_null(strstr(ear.reply, urls[0]));
		assert_non_null(strstr(ear.reply, urls[1]));
	}
	/* back again: the next call finds it, without waiting for the time
	 * that dead endpoints are set aside */
	fake_open(&rig->fakes[1], rig->base, rig->place->dir, 1);
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_ended(&ear, "", "hi");
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
those_who_wait_learn_that_all_are_down(void **state)
{
	static const char *const settings[] = { "sandbox_workers", "1", NULL };
	struct rig *rig = rig_ready(1, true, settings);
	struct ear first = { .rig = rig }, ear = { .rig = rig };
	struct ear last = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &first, "0", CODE, NULL);
	RIG_UNTIL(rig, rig->fakes[0].n_waiting == 1);
	call_tool(rig, &ear, "1", CODE, NULL);
	call_tool(rig, &last, "2", CODE, NULL);
	RIG_UNTIL(rig, rig->jobs == 0);
	fake_close(&rig->fakes[0]);
	RIG_UNTIL(rig, first.replies + ear.replies + last.replies == 3);
	assert_ended(&ear, "sandbox_unavailable", rig->fakes[0].url);
	assert_ended(&last, "sandbox_unavailable", rig->fakes[0].url);
	ear_done(&first);
	ear_done(&ear);
	ear_done(&last);
	rig_close(rig, 0);
}

static void
a_run_that_broke_is_never_sent_again(void **state)
{
	struct rig *rig = rig_ready(2, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	rig->fakes[0].way = rig->fakes[1].way = FAKE_CLOSE;
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_ended(&ear, "sandbox_error", "");
	assert_int_equal(rig->fakes[0].requests + rig->fakes[1].requests, 1);
	assert_int_equal(rig_leases(rig), 0);
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
a_busy_sandbox_is_busy(void **state)
{
	struct rig *rig = rig_ready(1, true, NULL);
	struct ear ear = { .rig = rig };

	(void)state;
	rig->fakes[0].way = FAKE_BUSY;
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_ended(&ear, "busy", "");
	ear_done(&ear);
	rig_close(rig, 0);
}

static void
silence_ends_with_the_reply_timeout(void **state)
{
	static const char *const settings[] = { "sandbox_time_limit", "1s",
		"sandbox_reply_timeout", "1s", NULL };
	struct rig *rig = rig_ready(1, false, settings);
	struct ear ear = { .rig = rig };
	uint64_t begun = clock_ms();

	(void)state;
	rig->fakes[0].way = FAKE_WAIT;
	call_tool(rig, &ear, "1", CODE, NULL);
	RIG_UNTIL(rig, ear.replies == 1);
	assert_in_range(clock_ms() - begun, 1900, 6000);
	assert_null(strstr(ear.reply, "\"status\":\"success\""));
	assert_int_equal(rig_leases(rig), 0);
	ear_done(&ear);
	rig_close(rig, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_gives_text_and_structured_content),
		cmocka_unit_test(an_old_revision_gets_no_structured_content),
		cmocka_unit_test(a_ping_is_answered_while_a_program_runs),
		cmocka_unit_test(
		    progress_rises_through_queue_and_run_and_then_stops),
		cmocka_unit_test(a_notification_may_end_the_session),
		cmocka_unit_test(an_answer_may_end_the_session),
		cmocka_unit_test(
		    cancelling_a_run_on_sandboxd_frees_its_place_at_once),
		cmocka_unit_test(cancelling_a_run_on_a_snekbox_holds_its_place),
		cmocka_unit_test(cancelling_one_that_waits_lets_the_next_on),
		cmocka_unit_test(a_session_may_end_at_any_stage),
		cmocka_unit_test(the_same_id_twice_is_refused),
		cmocka_unit_test(beyond_the_queue_the_answer_is_busy),
		cmocka_unit_test(waiting_too_long_is_busy),
		cmocka_unit_test(too_many_calls_of_a_session_are_busy),
		cmocka_unit_test(
		    a_draining_server_finishes_runs_and_takes_no_new_ones),
		cmocka_unit_test(many_calls_get_their_own_answers),
		cmocka_unit_test(
		    an_endpoint_that_is_not_reached_is_passed_over),
		cmocka_unit_test(
		    all_unreached_is_said_with_addresses_and_ends_with_them),
		cmocka_unit_test(those_who_wait_learn_that_all_are_down),
		cmocka_unit_test(a_run_that_broke_is_never_sent_again),
		cmocka_unit_test(a_busy_sandbox_is_busy),
		cmocka_unit_test(silence_ends_with_the_reply_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
