#include "state_help.h"

static void
a_session_is_found_until_it_ends(void **state)
{
	struct state *s = must_open(*state);
	char id[SESSION_ID_LEN + 1];
	struct session_info info;
	uint64_t process;

	assert_int_equal(
	    session_create(s, SESSION_SSE, "10.0.0.1", id), ERR_OK);
	assert_int_equal(strlen(id), SESSION_ID_LEN);
	assert_int_equal(session_find(s, id, &info), ERR_OK);
	assert_string_equal(info.id, id);
	assert_string_equal(info.client, "10.0.0.1");
	assert_int_equal(info.kind, SESSION_SSE);
	assert_true(info.owner == state_process(s));
	assert_int_equal(info.revision, 0);
	assert_int_equal(session_process(id, &process), ERR_OK);
	assert_true(process == state_process(s));
	assert_int_equal(session_touch(s, id, 3), ERR_OK);
	assert_int_equal(session_touch(s, id, 0), ERR_OK);
	assert_int_equal(session_find(s, id, &info), ERR_OK);
	assert_int_equal(info.revision, 3);
	assert_int_equal(session_end(s, id), ERR_OK);
	assert_int_equal(session_find(s, id, &info), ERR_NOT_FOUND);
	assert_int_equal(session_end(s, id), ERR_NOT_FOUND);
	assert_int_equal(session_touch(s, id, 1), ERR_NOT_FOUND);
	must_hold(s);
	state_close(s);
}

static void
an_id_must_have_its_form(void **state)
{
	static const char *const wrong[] = { "", "made-up",
		"../../../../etc/passwd",
		"0123456789abcdef0123456789abcdef0123456789abcde",
		"0123456789abcdef0123456789abcdef0123456789abcdef0",
		"0123456789ABCDEF0123456789abcdef0123456789abcdef",
		"0123456789abcdef0123456789abcdef0123456789abcde\n" };
	struct state *s = must_open(*state);
	struct session_info info;
	uint64_t process;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(session_find(s, wrong[i], &info), ERR_PARSE);
		assert_int_equal(
		    session_process(wrong[i], &process), ERR_PARSE);
		assert_int_equal(session_end(s, wrong[i]), ERR_NOT_FOUND);
		assert_int_equal(
		    session_call_begin(s, wrong[i], "1"), ERR_NOT_FOUND);
	}
	assert_int_equal(
	    session_find(
		s, "0123456789abcdef0123456789abcdef0123456789abcdef", &info),
	    ERR_NOT_FOUND);
	state_close(s);
}

static void
a_long_client_name_is_cut(void **state)
{
	struct state *s = must_open(*state);
	char id[SESSION_ID_LEN + 1], name[201];
	struct session_info info;

	memset(name, 'n', 200);
	name[200] = '\0';
	assert_int_equal(
	    session_create(s, SESSION_STREAMABLE, name, id), ERR_OK);
	assert_int_equal(session_find(s, id, &info), ERR_OK);
	assert_int_equal(strlen(info.client), 63);
	must_hold(s);
	state_close(s);
}

static void
a_full_table_gives_the_slot_of_the_idlest(void **state)
{
	struct state *s = must_open(*state);
	char ids[64][SESSION_ID_LEN + 1], id[SESSION_ID_LEN + 1];
	struct session_info info;

	for (int i = 0; i < 64; i++)
		assert_int_equal(
		    session_create(s, SESSION_STREAMABLE, "c", ids[i]), ERR_OK);
	/* the first is busy, the second has a stream, the third was heard of
	 * last; so the fourth goes */
	assert_int_equal(session_call_begin(s, ids[0], "1"), ERR_OK);
	assert_int_equal(session_stream(s, ids[1], true), ERR_OK);
	for (int i = 3; i < 64; i++)
		table_session(s->table, (uint32_t)i)->seen_ms += (uint64_t)i;
	table_session(s->table, 2)->seen_ms += 1000;
	assert_int_equal(session_create(s, SESSION_SSE, "c", id), ERR_OK);
	assert_int_equal(session_find(s, ids[3], &info), ERR_NOT_FOUND);
	for (int i = 0; i < 64; i++) {
		if (i != 3)
			assert_int_equal(
			    session_find(s, ids[i], &info), ERR_OK);
	}
	assert_int_equal(session_find(s, ids[1], &info), ERR_OK);
	assert_true(info.owner == state_process(s));
	assert_int_equal(session_stream(s, ids[1], false), ERR_OK);
	assert_int_equal(session_find(s, ids[1], &info), ERR_OK);
	assert_true(info.owner == 0);
	must_hold(s);
	state_close(s);
}

static void
sessions_with_streams_make_no_room(void **state)
{
	struct state *s = must_open(*state);
	char id[SESSION_ID_LEN + 1] = "";
	char same[SESSION_ID_LEN + 1] = "";
	struct session_counts counts;

	for (int i = 0; i < 64; i++)
		assert_int_equal(
		    session_create(s, SESSION_SSE, "c", id), ERR_OK);
	assert_int_equal(session_create(s, SESSION_SSE, "c", same), ERR_BUSY);
	assert_string_equal(same, "");
	session_count(s, &counts);
	assert_int_equal(counts.sessions, 64);
	assert_int_equal(session_end(s, id), ERR_OK);
	assert_int_equal(session_create(s, SESSION_SSE, "c", same), ERR_OK);
	must_hold(s);
	state_close(s);
}

static void
calls_are_told_apart_by_their_raw_id(void **state)
{
	struct state *s = must_open(*state);
	char id[SESSION_ID_LEN + 1], other[SESSION_ID_LEN + 1];
	char longer[301], longest[301];
	uint64_t process = 0;

	memset(longer, '1', 300);
	longer[300] = '\0';
	memcpy(longest, longer, sizeof(longest));
	longest[299] = '2';
	assert_int_equal(session_create(s, SESSION_SSE, "c", id), ERR_OK);
	assert_int_equal(session_create(s, SESSION_SSE, "c", other), ERR_OK);
	assert_int_equal(session_call_begin(s, id, "1"), ERR_OK);
	assert_int_equal(session_call_begin(s, id, "\"1\""), ERR_OK);
	assert_int_equal(session_call_begin(s, id, longer), ERR_OK);
	assert_int_equal(session_call_begin(s, id, "1"), ERR_INTERNAL);
	assert_int_equal(session_call_begin(s, other, "1"), ERR_OK);
	assert_int_equal(
	    session_call_find(s, id, longest, &process), ERR_NOT_FOUND);
	assert_int_equal(session_call_find(s, id, longer, &process), ERR_OK);
	assert_true(process == state_process(s));
	session_call_end(s, id, "1");
	assert_int_equal(
	    session_call_find(s, id, "1", &process), ERR_NOT_FOUND);
	assert_int_equal(session_call_find(s, id, "\"1\"", &process), ERR_OK);
	assert_int_equal(session_call_find(s, other, "1", &process), ERR_OK);
	session_call_end(s, id, "1");
	must_hold(s);
	/* the end of a session is the end of its calls */
	assert_int_equal(session_end(s, id), ERR_OK);
	must_hold(s);
	assert_int_equal(session_end(s, other), ERR_OK);
	must_hold(s);
	state_close(s);
}

static void
calls_are_bounded(void **state)
{
	struct place *p = *state;
	struct state *s;
	char id[SESSION_ID_LEN + 1], other[SESSION_ID_LEN + 1], raw[16];
	struct session_counts counts;

	place_set(p, "session_calls_max", "12");
	s = must_open(p);
	assert_int_equal(session_create(s, SESSION_SSE, "c", id), ERR_OK);
	assert_int_equal(session_create(s, SESSION_SSE, "c", other), ERR_OK);
	for (int i = 0; i < 12; i++) {
		snprintf(raw, sizeof(raw), "%d", i);
		assert_int_equal(session_call_begin(s, id, raw), ERR_OK);
	}
	assert_int_equal(session_call_begin(s, id, "12"), ERR_BUSY);
	for (int i = 0; i < 4; i++) {
		snprintf(raw, sizeof(raw), "%d", i);
		assert_int_equal(session_call_begin(s, other, raw), ERR_OK);
	}
	assert_int_equal(session_call_begin(s, other, "4"), ERR_BUSY);
	session_count(s, &counts);
	assert_int_equal(counts.calls, 16);
	session_call_end(s, id, "3");
	assert_int_equal(session_call_begin(s, other, "4"), ERR_OK);
	must_hold(s);
	state_close(s);
}

struct owned {
	uint64_t process;
	char sse[SESSION_ID_LEN + 1], streamable[SESSION_ID_LEN + 1];
};

/* A process with a session of each kind, a call in each, and a stream. */
static void
own_sessions(const struct place *p, int in, int out, void *arg)
{
	struct state *s = NULL;
	struct owned own;

	(void)arg;
	memset(&own, 0, sizeof(own));
	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	own.process = state_process(s);
	CHILD_CHECK(session_create(s, SESSION_SSE, "c", own.sse) == ERR_OK);
	CHILD_CHECK(session_create(
			s, SESSION_STREAMABLE, "c", own.streamable) == ERR_OK);
	CHILD_CHECK(session_call_begin(s, own.sse, "1") == ERR_OK);
	CHILD_CHECK(session_call_begin(s, own.streamable, "1") == ERR_OK);
	CHILD_CHECK(session_stream(s, own.streamable, true) == ERR_OK);
	metric_add(s, METRIC_calls, 5);
	CHILD_CHECK(write(out, &own, sizeof(own)) == sizeof(own));
	child_wait(in);
	state_close(s);
}

static void
only_streamable_left(struct state *s, const struct owned *own)
{
	struct session_counts counts;
	struct session_info info;
	uint64_t process;

	session_count(s, &counts);
	assert_int_equal(counts.processes, 1);
	assert_int_equal(counts.sessions, 1);
	assert_int_equal(counts.calls, 0);
	assert_int_equal(session_find(s, own->sse, &info), ERR_NOT_FOUND);
	assert_int_equal(session_find(s, own->streamable, &info), ERR_OK);
	assert_true(info.owner == 0);
	assert_int_equal(session_call_find(s, own->streamable, "1", &process),
	    ERR_NOT_FOUND);
	assert_int_equal(metric_sum(s, METRIC_calls), 5);
	must_hold(s);
}

static void
a_process_that_ends_leaves_streamable_sessions(void **state)
{
	struct state *s = must_open(*state);
	struct session_info info;
	struct session_counts counts;
	struct owned own;
	struct child c = child_start(*state, own_sessions, NULL);

	child_read(&c, &own, sizeof(own));
	assert_int_equal(session_find(s, own.sse, &info), ERR_OK);
	assert_true(info.owner == own.process);
	session_count(s, &counts);
	assert_int_equal(counts.processes, 2);
	assert_int_equal(counts.calls, 2);
	assert_int_equal(metric_sum(s, METRIC_calls), 5);
	assert_int_equal(child_end(&c), 0);
	only_streamable_left(s, &own);
	state_close(s);
}

static void
a_killed_owner_is_known_at_once(void **state)
{
	struct state *s = must_open(*state);
	struct session_info info;
	struct owned own;
	uint64_t before;

	/* once never seen before its death, once watched */
	for (int seen = 0; seen < 2; seen++) {
		struct child c = child_start(*state, own_sessions, NULL);

		child_read(&c, &own, sizeof(own));
		if (seen)
			assert_int_equal(
			    session_find(s, own.sse, &info), ERR_OK);
		child_kill(&c);
		before = clock_ms();
		assert_int_equal(
		    session_find(s, own.sse, &info), ERR_NOT_FOUND);
		assert_true(clock_ms() - before < 50);
		assert_int_equal(
		    session_find(s, own.streamable, &info), ERR_OK);
		assert_true(info.owner == 0);
		assert_int_equal(child_end(&c), 128 + SIGKILL);
		assert_int_equal(session_end(s, own.streamable), ERR_OK);
		assert_int_equal(metric_sum(s, METRIC_calls), 5 * (seen + 1));
		must_hold(s);
	}
	state_close(s);
}

static void
a_tick_reclaims_what_the_dead_held(void **state)
{
	struct state *s = must_open(*state);
	struct owned own;
	struct child c = child_start(*state, own_sessions, NULL);
	char path[256];
	int fd;

	child_read(&c, &own, sizeof(own));
	snprintf(path, sizeof(path), "%s/%016llx.sock", state_run_dir(s),
	    (unsigned long long)own.process);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_false(state_tick(s));
	child_kill(&c);
	assert_false(state_tick(s));
	assert_int_equal(s->table->head->pools[POOL_PROCESS].used, 1);
	assert_int_equal(access(path, F_OK), -1);
	only_streamable_left(s, &own);
	assert_int_equal(child_end(&c), 128 + SIGKILL);
	state_close(s);
}

static void
a_pid_in_other_hands_is_a_dead_owner(void **state)
{
	struct state *s = must_open(*state);
	struct session_info info;
	struct owned own;
	struct child c = child_start(*state, own_sessions, NULL);
	uint32_t slot;

	/* as if the owner had died and its pid had been given away again */
	child_read(&c, &own, sizeof(own));
	slot = table_process_find(s->table, own.process);
	assert_true(slot != TABLE_NONE);
	table_process(s->table, slot)->start--;
	assert_int_equal(session_find(s, own.sse, &info), ERR_NOT_FOUND);
	must_hold(s);
	/* the child finds itself without a slot: closing harms nobody */
	assert_int_equal(child_end(&c), 0);
	must_hold(s);
	state_close(s);
}

int
main(void)
{
#define CASE(name) \
	cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_session_is_found_until_it_ends),
		CASE(an_id_must_have_its_form),
		CASE(a_long_client_name_is_cut),
		CASE(a_full_table_gives_the_slot_of_the_idlest),
		CASE(sessions_with_streams_make_no_room),
		CASE(calls_are_told_apart_by_their_raw_id),
		CASE(calls_are_bounded),
		CASE(a_process_that_ends_leaves_streamable_sessions),
		CASE(a_killed_owner_is_known_at_once),
		CASE(a_tick_reclaims_what_the_dead_held),
		CASE(a_pid_in_other_hands_is_a_dead_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
