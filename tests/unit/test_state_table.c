#include <sys/file.h>

#include "state_help.h"

static void
a_table_is_shared_and_outlives_its_processes(void **state)
{
	struct state *a = must_open(*state), *b = must_open(*state);
	char id[SESSION_ID_LEN + 1];
	struct session_info info;
	struct stat st;

	assert_true(state_process(a) != state_process(b));
	assert_true(state_process(a) != 0);
	assert_int_equal(
	    session_create(a, SESSION_STREAMABLE, "c", id), ERR_OK);
	assert_int_equal(session_find(b, id, &info), ERR_OK);
	metric_add(a, METRIC_requests, 2);
	metric_add(b, METRIC_requests, 3);
	assert_int_equal(metric_sum(a, METRIC_requests), 5);
	must_hold(b);
	state_close(a);
	state_close(b);
	a = must_open(*state);
	assert_int_equal(fstat(a->table->fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(session_find(a, id, &info), ERR_OK);
	assert_int_equal(metric_sum(a, METRIC_requests), 5);
	must_hold(a);
	state_close(a);
	state_close(NULL);
}

static void
wrong_settings_are_refused_with_the_cure(void **state)
{
	struct place *p = *state;
	struct state *s = NULL;

	place_set(p, "state_name", "a/b");
	assert_int_equal(state_open(&p->conf, &s), ERR_CONF);
	assert_non_null(strstr(state_fault(), "state_name"));
	place_set(p, "state_name", "ab");
	place_set(p, "run_dir", "/proc/self/fd");
	assert_int_equal(state_open(&p->conf, &s), ERR_CONF);
	assert_non_null(strstr(state_fault(), "run_dir"));
	assert_null(s);
}

static void
a_run_folder_that_others_may_write_to_is_refused(void **state)
{
	struct place *p = *state;
	struct state *s = NULL;
	char link[128];

	assert_int_equal(chmod(p->dir, 0777), 0);
	assert_int_equal(state_open(&p->conf, &s), ERR_CONF);
	assert_int_equal(chmod(p->dir, 0700), 0);
	/* nor is a symbolic link followed */
	snprintf(link, sizeof(link), "%s/link", p->dir);
	assert_int_equal(symlink(p->dir, link), 0);
	place_set(p, "run_dir", link);
	assert_int_equal(state_open(&p->conf, &s), ERR_CONF);
	assert_null(s);
}

static void
without_a_setting_a_run_folder_is_chosen(void **state)
{
	struct place *p = *state;
	struct state *s;
	struct stat st;

	place_set(p, "run_dir", "");
	s = must_open(p);
	assert_int_equal(lstat(state_run_dir(s), &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_mode & 022, 0);
	assert_true(strlen(state_run_dir(s)) <= 80);
	state_close(s);
}

/* Opens the segment's file itself. */
static int
raw_open(const struct place *p, int n, int flags)
{
	char name[160];
	int fd;

	place_segment(p, n, name, sizeof(name));
	fd = shm_open(name, flags, 0600);
	assert_true(fd >= 0);
	return fd;
}

static ino_t
inode(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void
spoilt_files_are_replaced(void **state)
{
	struct place *p = *state;
	static char page[8192];

	for (int kind = 0; kind < 6; kind++) {
		int fd = raw_open(p, 0, O_RDWR | O_CREAT | O_TRUNC);
		ino_t before = inode(fd);
		struct state *s;

		memset(page, kind == 1 ? 0xff : 'x', sizeof(page));
		if (kind == 2)
			memset(page, 0, sizeof(page));
		if (kind == 3) {
			/* a good one with a wrong size */
			s = must_open(p);
			before = inode(s->table->fd);
			state_close(s);
			assert_int_equal(ftruncate(fd, 4096), 0);
		} else if (kind == 4) {
			/* a good one that all may write to */
			s = must_open(p);
			before = inode(s->table->fd);
			state_close(s);
			assert_int_equal(fchmod(fd, 0666), 0);
		} else if (kind == 5) {
			/* of another layout that took the same name */
			s = must_open(p);
			before = inode(s->table->fd);
			s->table->head->version++;
			state_close(s);
		} else {
			assert_int_equal(
			    write(fd, page, sizeof(page)), sizeof(page));
		}
		s = must_open(p);
		assert_true(inode(s->table->fd) != before);
		must_hold(s);
		state_close(s);
		close(fd);
	}
}

static void
another_users_file_is_passed_by(void **state)
{
	struct place *p = *state;
	char name[160];
	struct state *a, *b;
	struct session_info info;
	char id[SESSION_ID_LEN + 1];
	int fd;

	if (geteuid() != 0) {
		print_message("not root: no file of another user\n");
		skip();
	}
	fd = raw_open(p, 0, O_RDWR | O_CREAT);
	assert_int_equal(fchown(fd, 65534, 65534), 0);
	assert_int_equal(fchmod(fd, 0666), 0);
	a = must_open(p);
	assert_true(inode(a->table->fd) != inode(fd));
	b = must_open(p);
	assert_true(inode(a->table->fd) == inode(b->table->fd));
	state_close(b);
	/* and when it goes, those who come still join us */
	place_segment(p, 0, name, sizeof(name));
	shm_unlink(name);
	b = must_open(p);
	assert_true(inode(a->table->fd) == inode(b->table->fd));
	assert_int_equal(session_create(a, SESSION_SSE, "c", id), ERR_OK);
	assert_int_equal(session_find(b, id, &info), ERR_OK);
	close(fd);
	state_close(a);
	state_close(b);
}

static void
nonsense_in_slots_is_mended(void **state)
{
	struct place *p = *state;
	struct state *s = must_open(p);
	char id[SESSION_ID_LEN + 1], good[SESSION_ID_LEN + 1];
	struct table *t = s->table;
	struct session_info info;
	unsigned seed = 7;
	struct state *b;

	assert_int_equal(
	    session_create(s, SESSION_STREAMABLE, "c", good), ERR_OK);
	assert_int_equal(session_create(s, SESSION_SSE, "c", id), ERR_OK);
	assert_int_equal(session_call_begin(s, id, "1"), ERR_OK);
	/* all slots but the good one and our own, and all that is derived */
	for (int kind = 0; kind < POOL_COUNT; kind++) {
		char *from = t->slots[kind] +
		    (kind <= POOL_SESSION ? table_stride[kind] : 0);
		char *to =
		    t->slots[kind] + t->sizes.slots[kind] * table_stride[kind];

		t->head->pools[kind].high = 99999;
		t->head->pools[kind].free = 12345;
		t->head->pools[kind].used = 4321;
		while (from < to) {
			seed = seed * 1103515245 + 12345;
			*from++ = (char)(seed >> 30);
		}
	}
	for (uint32_t i = 0; i < t->buckets; i++)
		t->index[i] = 2;
	t->head->waiting = 77;
	t->head->endpoint_count = 500;
	t->head->endpoint_next = 600;
	t->head->fold = 0x7fffffff;
	assert_int_equal(state_check(s), ERR_INTERNAL);
	b = must_open(p);
	must_hold(s);
	assert_int_equal(session_find(b, good, &info), ERR_OK);
	assert_int_equal(session_find(b, id, &info), ERR_NOT_FOUND);
	assert_int_equal(session_create(s, SESSION_SSE, "c", id), ERR_OK);
	assert_int_equal(session_find(b, id, &info), ERR_OK);
	must_hold(b);
	state_close(b);
	state_close(s);
}

static void
changed_sizes_hold_once_nobody_uses_the_old(void **state)
{
	struct place *p = *state;
	struct state *a = must_open(p), *b;

	place_set(p, "sessions_max", "200");
	b = must_open(p);
	assert_int_equal(b->table->sizes.slots[POOL_SESSION], 64);
	state_close(a);
	state_close(b);
	b = must_open(p);
	assert_int_equal(b->table->sizes.slots[POOL_SESSION], 200);
	must_hold(b);
	state_close(b);
}

static void
processes_are_bounded(void **state)
{
	struct place *p = *state;
	struct state *s[8], *more = NULL;

	for (int i = 0; i < 8; i++)
		s[i] = must_open(p);
	assert_int_equal(state_open(&p->conf, &more), ERR_SYS);
	assert_non_null(strstr(state_fault(), "processes_max"));
	assert_null(more);
	state_close(s[3]);
	s[3] = must_open(p);
	must_hold(s[0]);
	for (int i = 0; i < 8; i++)
		state_close(s[i]);
}

/* Waits for the start, registers, makes sessions, ends half of them. */
static void
register_and_work(const struct place *p, int in, int out, void *arg)
{
	char id[SESSION_ID_LEN + 1];
	struct state *s = NULL;
	uint64_t inode_seen;
	struct stat st;

	(void)arg;
	child_wait(in);
	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	for (int i = 0; i < 8; i++) {
		struct session_info info;

		CHILD_CHECK(session_create(s, SESSION_SSE, "c", id) == ERR_OK);
		CHILD_CHECK(session_find(s, id, &info) == ERR_OK);
		CHILD_CHECK(info.owner == state_process(s));
		if (i % 2 == 1)
			CHILD_CHECK(session_end(s, id) == ERR_OK);
		metric_add(s, METRIC_messages, 1);
	}
	CHILD_CHECK(fstat(s->table->fd, &st) == 0);
	inode_seen = st.st_ino;
	CHILD_CHECK(
	    write(out, &inode_seen, sizeof(inode_seen)) == sizeof(inode_seen));
	child_wait(in);
	state_close(s);
}

static void
processes_that_start_together_share_one_table(void **state)
{
	struct place *p = *state;
	struct child c[6];

	for (int round = 0; round < 20; round++) {
		struct session_counts counts;
		uint64_t first = 0, seen;
		struct state *s;
		char name[160];

		place_segment(p, 0, name, sizeof(name));
		shm_unlink(name);
		for (int i = 0; i < 6; i++)
			c[i] = child_start(p, register_and_work, NULL);
		for (int i = 0; i < 6; i++)
			assert_int_equal(write(c[i].out, "g", 1), 1);
		for (int i = 0; i < 6; i++) {
			child_read(&c[i], &seen, sizeof(seen));
			assert_true(i == 0 || seen == first);
			first = seen;
		}
		s = must_open(p);
		session_count(s, &counts);
		assert_int_equal(counts.processes, 7);
		assert_int_equal(counts.sessions, 24);
		must_hold(s);
		for (int i = 0; i < 6; i++)
			assert_int_equal(child_end(&c[i]), 0);
		session_count(s, &counts);
		assert_int_equal(counts.processes, 1);
		assert_int_equal(counts.sessions, 0);
		assert_int_equal(metric_sum(s, METRIC_messages), 48);
		must_hold(s);
		state_close(s);
	}
}

/* Keeps the creation lock of the segment and does nothing. */
static void
sit_on_the_lock(const struct place *p, int in, int out, void *arg)
{
	char name[160];
	int fd;

	(void)arg;
	place_segment(p, 0, name, sizeof(name));
	fd = shm_open(name, O_RDWR | O_CREAT, 0600);
	CHILD_CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
	CHILD_CHECK(write(out, "r", 1) == 1);
	child_wait(in);
}

static void
a_maker_that_stops_is_not_waited_for_long(void **state)
{
	struct child c = child_start(*state, sit_on_the_lock, NULL);
	uint64_t from = clock_ms();
	struct state *s;
	char ready;

	child_read(&c, &ready, 1);
	s = must_open(*state);
	assert_true(clock_ms() - from < 5000);
	must_hold(s);
	assert_int_equal(child_end(&c), 0);
	state_close(s);
}

/* Takes the lock of the table and stops there. */
static void
stop_in_the_lock(const struct place *p, int in, int out, void *arg)
{
	struct state *s = NULL;

	(void)arg;
	CHILD_CHECK(state_open(&p->conf, &s) == ERR_OK);
	CHILD_CHECK(table_lock(s->table) == ERR_OK);
	CHILD_CHECK(write(out, "r", 1) == 1);
	child_wait(in);
	table_unlock(s->table);
	state_close(s);
}

static void
a_process_stopped_in_the_lock_does_not_hang_others(void **state)
{
	struct state *s = must_open(*state);
	char id[SESSION_ID_LEN + 1];
	uint64_t from;
	struct child c;
	char ready;

	c = child_start(*state, stop_in_the_lock, NULL);
	child_read(&c, &ready, 1);
	from = clock_ms();
	assert_int_equal(session_create(s, SESSION_SSE, "c", id), ERR_TIMEOUT);
	assert_true(clock_ms() - from < 3000);
	assert_int_equal(child_end(&c), 0);
	assert_int_equal(session_create(s, SESSION_SSE, "c", id), ERR_OK);
	must_hold(s);
	state_close(s);
}

static void
an_unlinked_table_is_left_with_all_that_is_ours(void **state)
{
	static const bool stops[1] = { true };
	struct place *p = *state;
	struct state *a = must_open(p), *b = must_open(p), *c = must_open(p);
	char sse[SESSION_ID_LEN + 1], free_one[SESSION_ID_LEN + 1];
	char other[SESSION_ID_LEN + 1], name[160];
	struct limit_ticket run, wait;
	struct session_counts counts;
	struct session_info info;
	uint64_t process = 0, ring;
	unsigned position = 0;

	assert_int_equal(limit_endpoints(a, 1, 1, stops), ERR_OK);
	assert_int_equal(session_create(a, SESSION_SSE, "c", sse), ERR_OK);
	assert_int_equal(session_create(b, SESSION_SSE, "c", other), ERR_OK);
	assert_int_equal(
	    session_create(b, SESSION_STREAMABLE, "c", free_one), ERR_OK);
	assert_int_equal(session_touch(b, free_one, 4), ERR_OK);
	assert_int_equal(session_call_begin(a, sse, "\"k\""), ERR_OK);
	assert_int_equal(session_call_begin(b, free_one, "5"), ERR_OK);
	assert_int_equal(limit_enter(a, "c", &run), ERR_OK);
	assert_true(limit_try(a, &run, clock_ms() + 60000, &position));
	assert_int_equal(limit_enter(b, "d", &wait), ERR_OK);
	metric_add(a, METRIC_calls, 3);
	metric_add(b, METRIC_calls, 4);
	metric_add(c, METRIC_calls, 5);
	state_close(c);
	assert_false(state_tick(a));
	place_segment(p, 0, name, sizeof(name));
	assert_int_equal(shm_unlink(name), 0);
	/* until the next tick the old one still serves */
	assert_int_equal(session_find(b, sse, &info), ERR_OK);
	assert_true(state_tick(a));
	assert_true(state_tick(b));
	assert_false(state_tick(a));
	assert_true(inode(a->table->fd) == inode(b->table->fd));
	must_hold(a);
	session_count(a, &counts);
	assert_int_equal(counts.processes, 2);
	assert_int_equal(counts.sessions, 3);
	assert_int_equal(counts.calls, 2);
	assert_int_equal(counts.leases, 1);
	assert_int_equal(counts.waiters, 1);
	assert_int_equal(session_find(b, sse, &info), ERR_OK);
	assert_true(info.owner == state_process(a));
	assert_int_equal(session_find(a, other, &info), ERR_OK);
	assert_int_equal(session_find(a, free_one, &info), ERR_OK);
	assert_int_equal(info.revision, 4);
	assert_int_equal(session_call_find(b, sse, "\"k\"", &process), ERR_OK);
	assert_true(process == state_process(a));
	assert_int_equal(session_call_find(a, free_one, "5", &process), ERR_OK);
	assert_int_equal(metric_sum(a, METRIC_calls), 12);
	/* tickets mean the same as before */
	assert_false(limit_try(b, &wait, clock_ms() + 60000, &position));
	limit_leave(a, &run, false, &ring);
	assert_true(ring == state_process(b));
	assert_true(limit_try(b, &wait, clock_ms() + 60000, &position));
	must_hold(a);
	state_close(a);
	must_hold(b);
	state_close(b);
}

static void *
add_many(void *arg)
{
	for (int i = 0; i < 20000; i++)
		metric_add(arg, METRIC_messages, 1);
	return NULL;
}

static void
counters_are_added_from_any_thread(void **state)
{
	struct state *s = must_open(*state);
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, add_many, s), 0);
	for (int i = 0; i < 50; i++) {
		state_tick(s);
		assert_true(metric_sum(s, METRIC_messages) <= 60000);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(metric_sum(s, METRIC_messages), 60000);
	state_close(s);
}

int
main(void)
{
#define CASE(name) \
	cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_table_is_shared_and_outlives_its_processes),
		CASE(wrong_settings_are_refused_with_the_cure),
		CASE(a_run_folder_that_others_may_write_to_is_refused),
		CASE(without_a_setting_a_run_folder_is_chosen),
		CASE(spoilt_files_are_replaced),
		CASE(another_users_file_is_passed_by),
		CASE(nonsense_in_slots_is_mended),
		CASE(changed_sizes_hold_once_nobody_uses_the_old),
		CASE(processes_are_bounded),
		CASE(processes_that_start_together_share_one_table),
		CASE(a_maker_that_stops_is_not_waited_for_long),
		CASE(a_process_stopped_in_the_lock_does_not_hang_others),
		CASE(an_unlinked_table_is_left_with_all_that_is_ours),
		CASE(counters_are_added_from_any_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
