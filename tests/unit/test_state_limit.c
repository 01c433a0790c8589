#include "state_help.h"

static const uint64_t later = 1ull << 62;
static const bool stops_all[4] = { true, true, true, true };
static const bool stops_none[4] = { false, false, false, false };

static struct limit_ticket
enter(struct state *s, const char *client)
{
	struct limit_ticket t;

	assert_int_equal(limit_enter(s, client, &t), ERR_OK);
	return t;
}

static bool
asks(struct state *s, struct limit_ticket *t)
{
	unsigned position = 0;

	return limit_try(s, t, later, &position);
}

static unsigned
position_of(struct state *s, struct limit_ticket *t)
{
	unsigned position = 0;

	assert_false(limit_try(s, t, later, &position));
	return position;
}

static uint64_t
leave(struct state *s, struct limit_ticket *t)
{
	uint64_t ring = 99;

	limit_leave(s, t, false, &ring);
	return ring;
}

static void
as_many_run_as_there_are_workers(void **state)
{
	struct state *s = must_open(*state);
	struct limit_ticket t[6];
	struct session_counts counts;
	unsigned on[2] = { 0, 0 };

	assert_int_equal(limit_endpoints(s, 2, 2, stops_all), ERR_OK);
	for (int i = 0; i < 6; i++)
		t[i] = enter(s, "c");
	for (int i = 0; i < 6; i++)
		assert_int_equal(asks(s, &t[i]), i < 4);
	for (int i = 0; i < 4; i++)
		on[t[i].endpoint]++;
	assert_int_equal(on[0], 2);
	assert_int_equal(on[1], 2);
	/* in turn, not one full before the other */
	assert_int_not_equal(t[0].endpoint, t[1].endpoint);
	assert_int_equal(position_of(s, &t[4]), 1);
	assert_int_equal(position_of(s, &t[5]), 2);
	session_count(s, &counts);
	assert_int_equal(counts.leases, 4);
	assert_int_equal(counts.waiters, 2);
	assert_true(leave(s, &t[1]) == state_process(s));
	/* first come, first served */
	assert_false(asks(s, &t[5]));
	assert_true(asks(s, &t[4]));
	assert_int_equal(t[4].endpoint, t[1].endpoint);
	must_hold(s);
	state_close(s);
}

static void
the_queue_is_bounded(void **state)
{
	struct state *s = must_open(*state);
	struct limit_ticket t[10], more;

	assert_int_equal(limit_endpoints(s, 1, 2, stops_all), ERR_OK);
	for (int i = 0; i < 10; i++) {
		t[i] = enter(s, "c");
		asks(s, &t[i]);
	}
	/* two run, eight wait */
	assert_int_equal(limit_enter(s, "d", &more), ERR_BUSY);
	assert_true(leave(s, &t[9]) == 0);
	assert_int_equal(limit_enter(s, "d", &more), ERR_OK);
	must_hold(s);
	state_close(s);
}

static void
without_a_queue_free_places_are_given(void **state)
{
	struct place *p = *state;
	struct limit_ticket t, more;
	struct state *s;

	place_set(p, "queue_max", "0");
	s = must_open(p);
	assert_int_equal(limit_enter(s, "c", &t), ERR_BUSY);
	assert_int_equal(limit_endpoints(s, 1, 1, stops_all), ERR_OK);
	t = enter(s, "c");
	assert_int_equal(limit_enter(s, "c", &more), ERR_BUSY);
	assert_true(asks(s, &t));
	assert_int_equal(limit_enter(s, "c", &more), ERR_BUSY);
	leave(s, &t);
	t = enter(s, "c");
	state_close(s);
}

static void
a_client_with_many_calls_does_not_shut_out_others(void **state)
{
	struct state *s = must_open(*state);
	struct limit_ticket many[6], one, two;

	assert_int_equal(limit_endpoints(s, 1, 1, stops_all), ERR_OK);
	for (int i = 0; i < 6; i++)
		many[i] = enter(s, "many");
	assert_true(asks(s, &many[0]));
	one = enter(s, "one");
	/* who has nothing running comes before who has */
	assert_int_equal(position_of(s, &one), 1);
	assert_int_equal(position_of(s, &many[1]), 2);
	two = enter(s, "two");
	assert_int_equal(position_of(s, &two), 2);
	assert_int_equal(position_of(s, &many[1]), 3);
	assert_int_equal(position_of(s, &many[5]), 7);
	leave(s, &many[0]);
	assert_false(asks(s, &many[1]));
	assert_true(asks(s, &one));
	leave(s, &one);
	/* equal now; "two" has waited longest since its last grant */
	assert_false(asks(s, &many[1]));
	assert_true(asks(s, &two));
	/* a client that comes back at once does not go before those who
	 * waited meanwhile */
	one = enter(s, "one");
	leave(s, &two);
	assert_false(asks(s, &one));
	assert_true(asks(s, &many[1]));
	leave(s, &many[1]);
	assert_false(asks(s, &many[2]));
	assert_true(asks(s, &one));
	must_hold(s);
	state_close(s);
}

/* Three clients, one of them with a flood: each gets its third. */
static void
turns_are_even_in_the_long_run(void **state)
{
	static const char *const names[3] = { "flood", "b", "c" };
	struct state *s = must_open(*state);
	struct limit_ticket t[6];
	int who[6] = { 0, 0, 0, 0, 1, 2 }, served[3] = { 0, 0, 0 };

	assert_int_equal(limit_endpoints(s, 1, 1, stops_all), ERR_OK);
	for (int i = 0; i < 6; i++)
		t[i] = enter(s, names[who[i]]);
	for (int round = 0; round < 300; round++) {
		int granted = -1;

		for (int i = 0; i < 6 && granted < 0; i++) {
			if (asks(s, &t[i]))
				granted = i;
		}
		assert_true(granted >= 0);
		served[who[granted]]++;
		leave(s, &t[granted]);
		t[granted] = enter(s, names[who[granted]]);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(served[i], 100);
	must_hold(s);
	state_close(s);
}

static void
who_leaves_tells_whose_turn_it_is(void **state)
{
	struct state *s = must_open(*state), *b = must_open(*state);
	struct limit_ticket run[2], wait[3];

	assert_int_equal(limit_endpoints(s, 1, 2, stops_all), ERR_OK);
	for (int i = 0; i < 2; i++) {
		run[i] = enter(s, "c");
		assert_true(asks(s, &run[i]));
	}
	wait[0] = enter(b, "c");
	wait[1] = enter(s, "c");
	wait[2] = enter(s, "c");
	/* two places, two calls told, even before the first has asked */
	assert_true(leave(s, &run[0]) == state_process(b));
	assert_true(leave(s, &run[1]) == state_process(s));
	assert_true(asks(s, &wait[1]));
	assert_true(asks(b, &wait[0]));
	assert_false(asks(s, &wait[2]));
	/* one who gives up waiting frees no place */
	assert_true(leave(s, &wait[2]) == 0);
	assert_true(leave(b, &wait[0]) == 0);
	must_hold(s);
	state_close(b);
	state_close(s);
}

static void
a_lease_ends_at_its_deadline(void **state)
{
	struct state *s = must_open(*state);
	struct limit_ticket t, next;
	unsigned position = 0;
	uint64_t ring;

	assert_int_equal(limit_endpoints(s, 1, 1, stops_none), ERR_OK);
	t = enter(s, "c");
	assert_true(limit_try(s, &t, clock_ms() + 60000, &position));
	next = enter(s, "c");
	assert_false(asks(s, &next));
	limit_extend(s, &t, clock_ms() - 1);
	assert_true(asks(s, &next));
	/* the old one means nothing any more */
	limit_extend(s, &t, clock_ms() + 60000);
	limit_leave(s, &t, false, &ring);
	assert_int_equal(s->table->head->endpoints[0].in_use, 1);
	must_hold(s);
	state_close(s);
}

static void
a_lease_may_be_held_after_leaving(void **state)
{
	struct state *s = must_open(*state);
	struct limit_ticket t, next;
	unsigned position = 0;
	uint64_t ring, until;

	assert_int_equal(limit_endpoints(s, 1, 1, stops_none), ERR_OK);
	t = enter(s, "c");
	until = clock_ms() + 120;
	assert_true(limit_try(s, &t, until, &position));
	next = enter(s, "c");
	limit_leave(s, &t, true, &ring);
	assert_true(ring == 0);
	must_hold(s);
	while (!asks(s, &next)) {
		assert_true(clock_ms() < until + 2000);
		usleep(5000);
	}
	assert_true(clock_ms() >= until);
	must_hold(s);
	state_close(s);
}

static void
an_endpoint_that_failed_is_set_aside_and_tried_again(void **state)
{
	struct state *s = must_open(*state);
	struct limit_ticket t[5];
	uint64_t retry = clock_ms() + 150;

	assert_int_equal(limit_endpoints(s, 2, 2, stops_all), ERR_OK);
	limit_endpoint_down(s, 0, retry);
	assert_int_equal(limit_endpoints_up(s), 1);
	for (int i = 0; i < 5; i++)
		t[i] = enter(s, "c");
	assert_true(asks(s, &t[0]));
	assert_true(asks(s, &t[1]));
	assert_int_equal(t[0].endpoint, 1);
	assert_int_equal(t[1].endpoint, 1);
	while (!asks(s, &t[2])) {
		assert_true(clock_ms() < retry + 2000);
		usleep(5000);
	}
	/* one trial at a time */
	assert_true(clock_ms() >= retry);
	assert_int_equal(t[2].endpoint, 0);
	assert_int_equal(limit_endpoints_up(s), 2);
	assert_false(asks(s, &t[3]));
	/* it failed: aside again */
	limit_endpoint_down(s, 0, clock_ms() + 60000);
	leave(s, &t[2]);
	assert_int_equal(limit_endpoints_up(s), 1);
	assert_false(asks(s, &t[3]));
	/* another trial, which succeeds */
	limit_endpoint_down(s, 0, 1);
	assert_true(asks(s, &t[3]));
	assert_false(asks(s, &t[4]));
	limit_endpoint_down(s, 0, 0);
	assert_true(asks(s, &t[4]));
	must_hold(s);
	state_close(s);
}

static void
more_workers_hold_at_once(void **state)
{
	struct state *s = must_open(*state);
	struct limit_ticket t[3];

	assert_int_equal(limit_endpoints(s, 1, 1, stops_all), ERR_OK);
	for (int i = 0; i < 3; i++)
		t[i] = enter(s, "c");
	assert_true(asks(s, &t[0]));
	assert_false(asks(s, &t[1]));
	assert_int_equal(limit_endpoints(s, 2, 1, stops_all), ERR_OK);
	assert_true(asks(s, &t[1]));
	assert_int_equal(limit_endpoints(s, 1, 1, stops_all), ERR_OK);
	leave(s, &t[0]);
	assert_true(asks(s, &t[2]));
	assert_int_equal(limit_endpoints(s, 17, 1, stops_all), ERR_LIMIT);
	must_hold(s);
	state_close(s);
}

/* A process with two leases and two waiters. */
static void
hold_places(const struct place *p, int in, int out, void *arg)
{
	const bool *stops = arg;
	struct limit_ticket t[4];
	struct state *s = NULL;
	unsigned position;

	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	CHILD_CHECK(limit_endpoints(s, 1, 2, stops) == ERR_OK);
	for (int i = 0; i < 4; i++)
		CHILD_CHECK(limit_enter(s, "child", &t[i]) == ERR_OK);
	CHILD_CHECK(limit_try(s, &t[0], clock_ms() + 400, &position));
	CHILD_CHECK(limit_try(s, &t[1], later, &position));
	CHILD_CHECK(write(out, "r", 1) == 1);
	child_wait(in);
	state_close(s);
}

static struct child
start_holder(const struct place *p, const bool *stops)
{
	bool own[4];
	struct child c;
	char ready;

	memcpy(own, stops, sizeof(own));
	c = child_start(p, hold_places, own);
	child_read(&c, &ready, 1);
	return c;
}

static void
a_killed_process_frees_places_that_stop(void **state)
{
	struct state *s = must_open(*state);
	struct child c = start_holder(*state, stops_all);
	struct limit_ticket t;
	struct session_counts counts;

	t = enter(s, "parent");
	session_count(s, &counts);
	assert_int_equal(counts.leases, 2);
	assert_int_equal(counts.waiters, 3);
	assert_false(asks(s, &t));
	child_kill(&c);
	s->reaped_ms = 0;
	assert_true(asks(s, &t));
	session_count(s, &counts);
	assert_int_equal(counts.leases, 1);
	assert_int_equal(counts.waiters, 0);
	must_hold(s);
	assert_int_equal(child_end(&c), 128 + SIGKILL);
	state_close(s);
}

static void
a_killed_process_keeps_other_places_until_the_deadline(void **state)
{
	struct state *s = must_open(*state);
	struct child c = start_holder(*state, stops_none);
	uint64_t from = clock_ms();
	struct limit_ticket t;
	struct session_counts counts;

	child_kill(&c);
	assert_int_equal(child_end(&c), 128 + SIGKILL);
	assert_false(state_tick(s));
	session_count(s, &counts);
	assert_int_equal(counts.processes, 1);
	assert_int_equal(counts.leases, 2);
	assert_int_equal(counts.waiters, 0);
	must_hold(s);
	t = enter(s, "parent");
	while (!asks(s, &t)) {
		assert_true(clock_ms() < from + 3000);
		usleep(5000);
	}
	/* the child's first lease was for 400 ms from its start */
	assert_true(clock_ms() >= table_ticket(s->table, 0)->deadline_ms);
	session_count(s, &counts);
	assert_int_equal(counts.leases, 2);
	must_hold(s);
	state_close(s);
}

/* Waits with one call at the head of the queue. */
static void
wait_first(const struct place *p, int in, int out, void *arg)
{
	struct limit_ticket t;
	struct state *s = NULL;
	unsigned position;

	(void)arg;
	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	CHILD_CHECK(limit_enter(s, "child", &t) == ERR_OK);
	CHILD_CHECK(!limit_try(s, &t, later, &position) && position == 1);
	CHILD_CHECK(write(out, "r", 1) == 1);
	CHILD_CHECK(child_wait(in));
	CHILD_CHECK(limit_try(s, &t, later, &position));
	CHILD_CHECK(write(out, "g", 1) == 1);
	child_wait(in);
	state_close(s);
}

static void
a_stopped_process_is_passed_over(void **state)
{
	struct state *s = must_open(*state);
	struct limit_ticket run, t;
	struct child c;
	uint64_t from;
	char byte;

	assert_int_equal(limit_endpoints(s, 1, 1, stops_all), ERR_OK);
	run = enter(s, "parent");
	assert_true(asks(s, &run));
	c = child_start(*state, wait_first, NULL);
	child_read(&c, &byte, 1);
	t = enter(s, "other");
	assert_int_equal(position_of(s, &t), 2);
	assert_true(leave(s, &run) != state_process(s));
	from = clock_ms();
	while (!asks(s, &t)) {
		assert_true(clock_ms() < from + 5000);
		usleep(20000);
	}
	assert_true(clock_ms() >= from + 800);
	/* it goes on: its place in the queue was kept */
	leave(s, &t);
	assert_int_equal(write(c.out, "x", 1), 1);
	child_read(&c, &byte, 1);
	must_hold(s);
	assert_int_equal(child_end(&c), 0);
	must_hold(s);
	state_close(s);
}

/* Calls that enter, run for a moment and leave, in several processes. */
static void
run_calls(const struct place *p, int in, int out, void *arg)
{
	atomic_int *running = arg;
	struct state *s = NULL;
	uint32_t most = 0;

	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	child_wait(in);
	for (int i = 0; i < 40; i++) {
		uint64_t ring, until = clock_ms() + 20000;
		struct limit_ticket t;
		unsigned position;
		uint32_t now;

		CHILD_CHECK(limit_enter(s, "c", &t) == ERR_OK);
		while (!limit_try(s, &t, later, &position)) {
			CHILD_CHECK(clock_ms() < until);
			usleep(500);
		}
		now = (uint32_t)atomic_fetch_add(running, 1) + 1;
		most = now > most ? now : most;
		usleep(300);
		atomic_fetch_sub(running, 1);
		limit_leave(s, &t, false, &ring);
	}
	CHILD_CHECK(write(out, &most, sizeof(most)) == sizeof(most));
	state_close(s);
}

static void
processes_together_never_run_too_many(void **state)
{
	struct state *s = must_open(*state);
	struct child c[4];
	struct session_counts counts;
	uint32_t most, all = 0;
	atomic_int *running = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(running, MAP_FAILED);
	assert_int_equal(limit_endpoints(s, 1, 2, stops_all), ERR_OK);
	for (int i = 0; i < 4; i++)
		c[i] = child_start(*state, run_calls, running);
	for (int i = 0; i < 4; i++)
		assert_int_equal(write(c[i].out, "g", 1), 1);
	for (int i = 0; i < 4; i++) {
		child_read(&c[i], &most, sizeof(most));
		all = most > all ? most : all;
		assert_int_equal(child_end(&c[i]), 0);
	}
	assert_int_equal(all, 2);
	session_count(s, &counts);
	assert_int_equal(counts.processes, 1);
	assert_int_equal(counts.leases + counts.waiters, 0);
	must_hold(s);
	munmap(running, 4096);
	state_close(s);
}

/* More clients than are remembered. */
static void
many_clients_fit(void **state)
{
	struct state *s = must_open(*state);
	char name[32];

	assert_int_equal(limit_endpoints(s, 1, 1, stops_all), ERR_OK);
	for (int i = 0; i < 1000; i++) {
		struct limit_ticket t;

		snprintf(name, sizeof(name), "client-%d", i);
		t = enter(s, name);
		assert_true(asks(s, &t));
		leave(s, &t);
	}
	must_hold(s);
	state_close(s);
}

int
main(void)
{
#define CASE(name) \
	cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
	const struct CMUnitTest tests[] = {
		CASE(as_many_run_as_there_are_workers),
		CASE(the_queue_is_bounded),
		CASE(without_a_queue_free_places_are_given),
		CASE(a_client_with_many_calls_does_not_shut_out_others),
		CASE(turns_are_even_in_the_long_run),
		CASE(who_leaves_tells_whose_turn_it_is),
		CASE(a_lease_ends_at_its_deadline),
		CASE(a_lease_may_be_held_after_leaving),
		CASE(an_endpoint_that_failed_is_set_aside_and_tried_again),
		CASE(more_workers_hold_at_once),
		CASE(a_killed_process_frees_places_that_stop),
		CASE(a_killed_process_keeps_other_places_until_the_deadline),
		CASE(a_stopped_process_is_passed_over),
		CASE(processes_together_never_run_too_many),
		CASE(many_clients_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
