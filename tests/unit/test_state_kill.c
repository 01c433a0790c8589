/*
 * The table survives a kill inside the lock. A child does everything that can
 * be done to the table and is killed after its n-th store, for n = 1, 2, 3 …
 * until it gets through; after each death another process checks every
 * invariant, reclaims, goes on working, and counts that nothing leaked.
 */
#include "state_help.h"

#undef table_point

/* The thread sanitizer makes every fork so slow that only some deaths are
 * tried under it; KILL_STEP=n does the same under other tools. */
#ifdef __SANITIZE_THREAD__
#define STEP 23
#else
#define STEP 1
#endif

static unsigned long points, die_at;
static unsigned long step = STEP;

/* Called by state/ (built with STATE_KILL_POINTS) after every store. */
void table_point(void);

void
table_point(void)
{
	if (++points == die_at)
		raise(SIGKILL);
}

static struct child
child_dying(const struct place *p, unsigned long at,
    void (*run)(const struct place *p, int in, int out, void *arg))
{
	struct child c;

	points = 0;
	die_at = at;
	c = child_start(p, run, NULL);
	die_at = 0;
	return c;
}

static void
work_sessions(struct state *s)
{
	char id[20][SESSION_ID_LEN + 1];
	struct session_info info;
	uint64_t process;

	/* more than there are slots: the last ones push out others */
	for (int i = 0; i < 4; i++)
		CHILD_CHECK(
		    session_create(s, SESSION_SSE, "a", id[i]) == ERR_OK);
	for (int i = 4; i < 20; i++) {
		CHILD_CHECK(session_create(s, SESSION_STREAMABLE, "b", id[i]) ==
		    ERR_OK);
		if (i >= 17)
			CHILD_CHECK(session_stream(s, id[i], true) == ERR_OK);
	}
	CHILD_CHECK(session_find(s, id[19], &info) == ERR_OK);
	CHILD_CHECK(session_touch(s, id[0], 2) == ERR_OK);
	CHILD_CHECK(session_stream(s, id[18], false) == ERR_OK);
	for (int i = 0; i < 3; i++) {
		CHILD_CHECK(session_call_begin(s, id[i], "1") == ERR_OK);
		CHILD_CHECK(session_call_begin(s, id[i], "\"x\"") == ERR_OK);
	}
	CHILD_CHECK(session_call_begin(s, id[17], "7") == ERR_OK);
	CHILD_CHECK(session_call_find(s, id[1], "1", &process) == ERR_OK);
	session_call_end(s, id[0], "1");
	session_call_end(s, id[1], "\"x\"");
	CHILD_CHECK(session_end(s, id[2]) == ERR_OK);
	CHILD_CHECK(session_end(s, id[3]) == ERR_OK);
}

static void
work_limits(struct state *s)
{
	static const bool stops[2] = { true, false };
	uint64_t later = clock_ms() + 100000, ring;
	struct limit_ticket t[8];
	unsigned position;

	CHILD_CHECK(limit_endpoints(s, 2, 2, stops) == ERR_OK);
	for (int i = 0; i < 8; i++)
		CHILD_CHECK(
		    limit_enter(s, i % 3 == 0 ? "a" : "b", &t[i]) == ERR_OK);
	for (int i = 0; i < 8; i++)
		limit_try(s, &t[i], later, &position);
	limit_extend(s, &t[0], later + 1);
	limit_endpoint_down(s, 1, 1);
	for (int i = 0; i < 2; i++)
		limit_leave(s, &t[i], !stops[t[i].endpoint], &ring);
	for (int i = 2; i < 8; i++)
		limit_try(s, &t[i], later, &position);
	limit_endpoint_down(s, 1, 0);
	limit_leave(s, &t[7], false, &ring);
}

/* Everything, twice: the second time in the segment after an unlinked one. */
static void
work(const struct place *p, int in, int out, void *arg)
{
	struct state *s = NULL;
	char name[160];

	(void)in;
	(void)out;
	(void)arg;
	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	metric_add(s, METRIC_calls, 7);
	state_tick(s);
	work_sessions(s);
	work_limits(s);
	place_segment(p, 0, name, sizeof(name));
	shm_unlink(name);
	CHILD_CHECK(state_tick(s));
	work_limits(s);
	state_close(s);
}

/* The lease of a process that died. */
struct held {
	uint64_t number;
	uint64_t endpoint;
};

/* Holds something of everything until it is killed. */
static void
hold(const struct place *p, int in, int out, void *arg)
{
	struct state *s = NULL;
	char id[SESSION_ID_LEN + 1];
	struct limit_ticket t;
	struct held held;
	unsigned position;

	(void)arg;
	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	CHILD_CHECK(session_create(s, SESSION_SSE, "h", id) == ERR_OK);
	CHILD_CHECK(session_call_begin(s, id, "1") == ERR_OK);
	CHILD_CHECK(limit_enter(s, "h", &t) == ERR_OK);
	CHILD_CHECK(limit_try(s, &t, clock_ms() + 100000, &position));
	held = (struct held){ t.number, t.endpoint };
	CHILD_CHECK(limit_enter(s, "h", &t) == ERR_OK);
	metric_add(s, METRIC_messages, 1);
	CHILD_CHECK(write(out, &held, sizeof(held)) == sizeof(held));
	child_wait(in);
}

/* A process died that held things, and nobody has looked since. */
static struct held
leave_a_dead_one(const struct place *p)
{
	struct child c = child_start(p, hold, NULL);
	struct held held;

	child_read(&c, &held, sizeof(held));
	child_kill(&c);
	assert_int_equal(child_end(&c), 128 + SIGKILL);
	return held;
}

/* The lease ended at once where runs stop, else it is still there, once. */
static void
the_lease_is_right(struct state *s, const struct held *held)
{
	struct table *t = s->table;
	unsigned n = 0;

	for (uint32_t i = 0; i < table_high(t, POOL_TICKET); i++) {
		if (table_ticket(t, i)->slot.state != SLOT_FREE &&
		    table_ticket(t, i)->number == held->number)
			n++;
	}
	assert_int_equal(n, t->head->endpoints[held->endpoint].stops ? 0 : 1);
}

/* Ends what may rightly be left: streamable sessions, and leases that only
 * their deadline ends. */
static void
end_the_rest(struct state *s)
{
	struct table *t = s->table;
	struct session_info info;

	for (uint32_t i = 0; i < table_high(t, POOL_SESSION); i++) {
		if (table_session(t, i)->slot.state == SLOT_FREE)
			continue;
		assert_int_equal(
		    session_find(s, t->texts[i].id, &info), ERR_OK);
		assert_int_equal(info.kind, SESSION_STREAMABLE);
		assert_true(info.owner == 0);
		assert_int_equal(session_end(s, info.id), ERR_OK);
	}
	for (uint32_t i = 0; i < table_high(t, POOL_TICKET); i++) {
		struct ticket_slot *k = table_ticket(t, i);

		if (k->slot.state == SLOT_FREE)
			continue;
		assert_int_equal(k->slot.state, SLOT_LEASED);
		assert_true(k->process == 0);
		assert_false(t->head->endpoints[k->endpoint].stops);
		k->deadline_ms = 1;
	}
}

static void
go_on_working(struct state *s)
{
	static const bool stops[2] = { true, false };
	struct limit_ticket ticket;
	char id[SESSION_ID_LEN + 1];
	unsigned position = 0;
	uint64_t ring;

	assert_int_equal(limit_endpoints(s, 2, 2, stops), ERR_OK);
	assert_int_equal(limit_enter(s, "p", &ticket), ERR_OK);
	assert_true(limit_try(s, &ticket, clock_ms() + 9999, &position));
	assert_int_equal(session_create(s, SESSION_SSE, "p", id), ERR_OK);
	assert_int_equal(session_call_begin(s, id, "1"), ERR_OK);
	must_hold(s);
	session_call_end(s, id, "1");
	assert_int_equal(session_end(s, id), ERR_OK);
	limit_leave(s, &ticket, false, &ring);
	limit_endpoint_down(s, 1, 0);
}

static void
nothing_leaked(struct state *s)
{
	static const unsigned used[POOL_COUNT] = { [POOL_PROCESS] = 1 };

	for (int kind = 0; kind < POOL_CLIENT; kind++)
		assert_int_equal(s->table->head->pools[kind].used, used[kind]);
	assert_int_equal(s->table->head->waiting, 0);
	must_hold(s);
}

static void
after_a_death(struct state *s)
{
	must_hold(s);
	state_tick(s);
	must_hold(s);
	end_the_rest(s);
	go_on_working(s);
	nothing_leaked(s);
}

/* The same, with the one that died before, too; holds is how many of those
 * there were: each counted one message. */
static void
after_two_deaths(struct state *s, const struct held *held, unsigned holds)
{
	must_hold(s);
	state_tick(s);
	the_lease_is_right(s, held);
	assert_int_equal(metric_sum(s, METRIC_messages), holds);
	after_a_death(s);
}

static void
small(struct place *p)
{
	place_set(p, "sessions_max", "16");
	place_set(p, "processes_max", "4");
	place_set(p, "sandbox_workers", "1");
	place_set(p, "queue_max", "32");
}

static void
a_kill_after_any_store_is_repaired(void **state)
{
	struct state *s;
	const struct table *table;
	uint64_t repairs = 0, last = 0;
	unsigned holds = 0;
	unsigned long n;
	int rc;

	small(*state);
	s = must_open(*state);
	table = s->table;
	go_on_working(s);
	for (n = 1;; n += step) {
		struct held held = leave_a_dead_one(*state);
		struct child c = child_dying(*state, n, work);

		holds++;
		if ((rc = child_end(&c)) != 128 + SIGKILL)
			break;
		after_two_deaths(s, &held, holds);
		/* a new segment counts from 0 */
		if (s->table->head->repairs != (s->table == table ? last : 0))
			repairs++;
		last = s->table->head->repairs;
		table = s->table;
	}
	assert_int_equal(rc, 0);
	after_a_death(s);
	print_message(
	    "%lu deaths, %lu in the lock\n", n - 1, (unsigned long)repairs);
	assert_true(n > 500);
	assert_true(repairs > n / step / 2);
	state_close(s);
}

/* A process that opens the table repairs it first. */
static void
open_and_close(const struct place *p, int in, int out, void *arg)
{
	struct state *s = NULL;

	(void)in;
	(void)out;
	(void)arg;
	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	state_close(s);
}

static void
a_kill_within_the_repair_is_repaired(void **state)
{
	struct state *s;
	unsigned long deaths = 0;
	unsigned holds = 0;

	small(*state);
	s = must_open(*state);
	go_on_working(s);
	/* a death in the middle of all kinds of things … */
	for (unsigned long n = 130; n < 700; n += 97) {
		struct held held = leave_a_dead_one(*state);
		struct child c = child_dying(*state, n, work);

		holds++;
		assert_int_equal(child_end(&c), 128 + SIGKILL);
		/* … and in every step of what the next ones do about it */
		for (unsigned long m = 1;; m += step) {
			int rc;

			c = child_dying(*state, m, open_and_close);
			if ((rc = child_end(&c)) == 0)
				break;
			assert_int_equal(rc, 128 + SIGKILL);
			deaths++;
		}
		after_two_deaths(s, &held, holds);
	}
	print_message("%lu deaths\n", deaths);
	assert_true(deaths > 300 / step);
	state_close(s);
}

static void
a_kill_while_the_segment_is_made_is_made_good(void **state)
{
	struct place *p = *state;
	char name[160];
	unsigned long n;

	small(p);
	place_segment(p, 0, name, sizeof(name));
	for (n = 1;; n += step) {
		struct state *s;
		struct child c;
		int rc;

		shm_unlink(name);
		c = child_dying(p, n, open_and_close);
		if ((rc = child_end(&c)) != 128 + SIGKILL) {
			assert_int_equal(rc, 0);
			break;
		}
		s = must_open(p);
		after_a_death(s);
		state_close(s);
	}
	assert_true(n > 60);
}

int
main(void)
{
#define CASE(name) \
	cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
	const char *text = getenv("KILL_STEP");
	const struct CMUnitTest tests[] = {
		CASE(a_kill_after_any_store_is_repaired),
		CASE(a_kill_within_the_repair_is_repaired),
		CASE(a_kill_while_the_segment_is_made_is_made_good),
	};

	if (text != NULL && strtoul(text, NULL, 10) > 0)
		step = strtoul(text, NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
