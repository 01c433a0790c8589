#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <event2/event.h>

#include "state/frame.h"
#include "state/inbox.h"
#include "state_help.h"

#define SESSION "00112233445566778899aabbccddeeff0123456789abcdef"

/* One process' inbox and what happened to it. */
struct box {
	struct state *state;
	struct inbox *inbox;
	struct event_base *base;
	bool hold; /* keep messages instead of acking them */
	enum inbox_ack answer;
	struct inbox_message *held[256];
	unsigned received, written, lost;
	char session[SESSION_ID_LEN + 1];
	enum inbox_type type;
	uint64_t hash;
	size_t len;
};

static void
on_written(void *arg)
{
	((struct box *)arg)->written++;
}

static void
on_lost(void *arg)
{
	((struct box *)arg)->lost++;
}

static void
on_received(
    void *arg, struct inbox_message *message, const struct inbox_view *view)
{
	struct box *b = arg;

	snprintf(b->session, sizeof(b->session), "%s", view->session);
	b->type = view->type;
	b->len = view->len;
	b->hash = table_hash(view->body, view->len);
	if (b->hold)
		b->held[b->received % 256] = message;
	b->received++;
	if (!b->hold)
		inbox_ack(message, b->answer, on_written, on_lost, b);
}

static const struct inbox_ops ops = { on_received };

static void
box_open(struct box *b, const struct place *p, struct event_base *base)
{
	*b = (struct box){ .base = base, .answer = INBOX_ACCEPTED };
	b->state = must_open(p);
	assert_int_equal(
	    inbox_open(b->state, base, &ops, b, &b->inbox), ERR_OK);
}

static void
box_close(struct box *b)
{
	inbox_close(b->inbox);
	state_close(b->state);
}

static void
box_path(const struct box *b, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "%s/%016llx.sock", state_run_dir(b->state),
	    (unsigned long long)state_process(b->state));
}

/* What came of sends. */
struct sends {
	unsigned done, ok, not_found, busy, closed;
	struct inbox_sent last;
};

static void
on_done(void *arg, struct inbox_sent sent)
{
	struct sends *s = arg;

	s->done++;
	s->ok += sent.err == ERR_OK;
	s->not_found += sent.err == ERR_NOT_FOUND;
	s->busy += sent.err == ERR_BUSY;
	s->closed += sent.err == ERR_CLOSED;
	s->last = sent;
}

/* Runs the loop until *count reaches n, for ms at most. */
static void
run_until(
    struct event_base *base, const unsigned *count, unsigned n, unsigned ms)
{
	uint64_t until = clock_ms() + ms;

	while (*count < n && clock_ms() < until) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		usleep(500);
	}
	assert_int_equal(*count, n);
}

static void
run_for(struct event_base *base, unsigned ms)
{
	uint64_t until = clock_ms() + ms;

	while (clock_ms() < until) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		usleep(500);
	}
}

static void
post(struct box *from, uint64_t to, const char *body, struct sends *sends)
{
	assert_int_equal(inbox_send(from->inbox, to, INBOX_POST, SESSION, body,
			     strlen(body), on_done, sends),
	    ERR_OK);
}

static void
a_message_goes_there_and_its_answer_back(void **state)
{
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	struct box a, b;

	box_open(&a, *state, base);
	box_open(&b, *state, base);
	post(&a, state_process(b.state), "{\"id\":1}", &sends);
	assert_int_equal(sends.done, 0);
	run_until(base, &sends.done, 1, 2000);
	assert_int_equal(sends.last.err, ERR_OK);
	assert_int_equal(sends.last.ack, INBOX_ACCEPTED);
	assert_int_equal(b.received, 1);
	assert_int_equal(b.written, 1);
	assert_int_equal(b.type, INBOX_POST);
	assert_string_equal(b.session, SESSION);
	assert_true(b.hash == table_hash("{\"id\":1}", 8));
	b.answer = INBOX_UNKNOWN;
	post(&a, state_process(b.state), "", &sends);
	run_until(base, &sends.done, 2, 2000);
	assert_int_equal(sends.last.ack, INBOX_UNKNOWN);
	assert_int_equal(b.len, 0);
	b.answer = INBOX_REFUSED;
	post(&a, state_process(b.state), "x", &sends);
	run_until(base, &sends.done, 3, 2000);
	assert_int_equal(sends.last.ack, INBOX_REFUSED);
	assert_int_equal(inbox_send(a.inbox, state_process(b.state), INBOX_RING,
			     "", NULL, 0, NULL, NULL),
	    ERR_OK);
	run_until(base, &b.received, 4, 2000);
	assert_int_equal(b.type, INBOX_RING);
	assert_string_equal(b.session, "");
	/* and to itself */
	post(&a, state_process(a.state), "me", &sends);
	run_until(base, &sends.done, 4, 2000);
	assert_int_equal(a.received, 1);
	box_close(&a);
	box_close(&b);
	event_base_free(base);
}

static void
large_bodies_arrive_whole(void **state)
{
	size_t len = 5 * 1024 * 1024 + 7;
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	char *body = malloc(len);
	struct box a, b;

	assert_non_null(body);
	for (size_t i = 0; i < len; i++)
		body[i] = (char)(i * 2654435761u >> 13);
	box_open(&a, *state, base);
	box_open(&b, *state, base);
	assert_int_equal(inbox_send(a.inbox, state_process(b.state), INBOX_POST,
			     SESSION, body, len, on_done, &sends),
	    ERR_OK);
	run_until(base, &sends.done, 1, 10000);
	assert_int_equal(sends.last.err, ERR_OK);
	assert_int_equal(b.len, len);
	assert_true(b.hash == table_hash(body, len));
	free(body);
	box_close(&a);
	box_close(&b);
	event_base_free(base);
}

static void
what_does_not_fit_is_not_sent(void **state)
{
	struct place *p = *state;
	struct event_base *base = event_base_new();
	char body[70000] = "";
	struct box a;

	place_set(p, "body_max", "1024");
	box_open(&a, p, base);
	assert_int_equal(inbox_send(a.inbox, state_process(a.state), INBOX_POST,
			     SESSION, body, 1024 + INBOX_EXTRA + 1, NULL, NULL),
	    ERR_LIMIT);
	assert_int_equal(inbox_send(a.inbox, state_process(a.state), INBOX_POST,
			     SESSION, body, 1024 + INBOX_EXTRA, NULL, NULL),
	    ERR_OK);
	assert_int_equal(inbox_send(a.inbox, state_process(a.state), INBOX_POST,
			     "no id", "", 0, NULL, NULL),
	    ERR_PARSE);
	assert_int_equal(inbox_send(a.inbox, state_process(a.state), INBOX_POST,
			     SESSION SESSION, "", 0, NULL, NULL),
	    ERR_PARSE);
	assert_int_equal(inbox_send(a.inbox, state_process(a.state), INBOX_RING,
			     "", "x", 1, NULL, NULL),
	    ERR_PARSE);
	run_until(base, &a.received, 1, 2000);
	box_close(&a);
	event_base_free(base);
}

/* A process with an inbox; acks all, and tells at its end how many were
 * written and lost. */
static void
serve(const struct place *p, int in, int out, void *arg)
{
	struct event_base *base = event_base_new();
	struct box b = { .base = base, .answer = INBOX_ACCEPTED };
	unsigned result[3];
	uint64_t process;

	b.hold = arg != NULL;
	CHILD_CHECK(state_open(&p->conf, &b.state) == ERR_OK);
	CHILD_CHECK(inbox_open(b.state, base, &ops, &b, &b.inbox) == ERR_OK);
	process = state_process(b.state);
	CHILD_CHECK(write(out, &process, sizeof(process)) == sizeof(process));
	CHILD_CHECK(fcntl(in, F_SETFL, O_NONBLOCK) == 0);
	while (!child_wait(in)) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		usleep(500);
		/* dies with a message in its hands */
		if (b.hold && b.received > 0)
			raise(SIGKILL);
	}
	result[0] = b.received;
	result[1] = b.written;
	result[2] = b.lost;
	CHILD_CHECK(write(out, result, sizeof(result)) == sizeof(result));
	inbox_close(b.inbox);
	state_close(b.state);
	event_base_free(base);
}

static void
a_dead_owner_is_known_at_once(void **state)
{
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	struct child c = child_start(*state, serve, NULL);
	uint64_t process, from;
	char path[256];
	struct box a;

	box_open(&a, *state, base);
	child_read(&c, &process, sizeof(process));
	post(&a, process, "1", &sends);
	run_until(base, &sends.done, 1, 2000);
	assert_int_equal(sends.last.err, ERR_OK);
	snprintf(path, sizeof(path), "%s/%016llx.sock", state_run_dir(a.state),
	    (unsigned long long)process);
	assert_int_equal(access(path, F_OK), 0);
	child_kill(&c);
	from = clock_ms();
	post(&a, process, "2", &sends);
	run_until(base, &sends.done, 2, 2000);
	assert_int_equal(sends.last.err, ERR_NOT_FOUND);
	assert_true(clock_ms() - from < 50);
	/* what it left behind is gone */
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(child_end(&c), 128 + SIGKILL);
	post(&a, 12345, "3", &sends);
	run_until(base, &sends.done, 3, 2000);
	assert_int_equal(sends.not_found, 2);
	box_close(&a);
	event_base_free(base);
}

static void
an_owner_that_dies_before_its_answer_is_gone(void **state)
{
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	struct child c = child_start(*state, serve, &sends);
	uint64_t process, from;
	struct box a;

	box_open(&a, *state, base);
	child_read(&c, &process, sizeof(process));
	from = clock_ms();
	post(&a, process, "1", &sends);
	run_until(base, &sends.done, 1, 3000);
	assert_int_equal(sends.last.err, ERR_NOT_FOUND);
	assert_true(clock_ms() - from < 1500);
	assert_int_equal(child_end(&c), 128 + SIGKILL);
	box_close(&a);
	event_base_free(base);
}

static void
a_full_inbox_is_tried_again(void **state)
{
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	struct child c = child_start(*state, serve, NULL);
	unsigned result[3];
	uint64_t process;
	struct box a;

	box_open(&a, *state, base);
	child_read(&c, &process, sizeof(process));
	kill(c.pid, SIGSTOP);
	for (int i = 0; i < 200; i++)
		post(&a, process, "1", &sends);
	run_for(base, 300);
	assert_int_equal(sends.done, 0);
	kill(c.pid, SIGCONT);
	run_until(base, &sends.done, 200, 5000);
	assert_int_equal(sends.ok, 200);
	assert_int_equal(write(c.out, "e", 1), 1);
	child_read(&c, result, sizeof(result));
	assert_int_equal(result[0], 200);
	assert_int_equal(result[1], 200);
	assert_int_equal(child_end(&c), 0);
	box_close(&a);
	event_base_free(base);
}

static void
who_gave_up_is_told_to_the_owner(void **state)
{
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	struct child c = child_start(*state, serve, NULL);
	uint64_t process, from;
	unsigned result[3];
	struct box a;

	box_open(&a, *state, base);
	child_read(&c, &process, sizeof(process));
	kill(c.pid, SIGSTOP);
	from = clock_ms();
	for (int i = 0; i < 100; i++)
		post(&a, process, "1", &sends);
	run_until(base, &sends.done, 100, 6000);
	assert_int_equal(sends.busy, 100);
	assert_true(clock_ms() - from >= 1900);
	kill(c.pid, SIGCONT);
	/* a later message is served after all that lay there before */
	post(&a, process, "2", &sends);
	run_until(base, &sends.done, 101, 5000);
	assert_int_equal(sends.last.err, ERR_OK);
	assert_int_equal(write(c.out, "e", 1), 1);
	child_read(&c, result, sizeof(result));
	/* nobody executes what its sender was told has failed */
	assert_int_equal(result[1], 1);
	assert_true(result[2] > 0);
	assert_int_equal(result[0], result[1] + result[2]);
	assert_int_equal(child_end(&c), 0);
	box_close(&a);
	event_base_free(base);
}

static void
messages_at_once_are_bounded(void **state)
{
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	struct box a, b;

	box_open(&a, *state, base);
	box_open(&b, *state, base);
	b.hold = true;
	for (int i = 0; i < 150; i++)
		post(&a, state_process(b.state), "x", &sends);
	run_until(base, &b.received, 64, 1000);
	run_for(base, 200);
	assert_int_equal(b.received, 64);
	assert_int_equal(sends.done, 0);
	b.hold = false;
	for (int i = 0; i < 64; i++)
		inbox_ack(b.held[i], INBOX_ACCEPTED, on_written, on_lost, &b);
	run_until(base, &sends.done, 150, 3000);
	assert_int_equal(sends.ok, 150);
	assert_int_equal(b.written, 150);
	box_close(&a);
	box_close(&b);
	event_base_free(base);
}

static int
raw_connect(const struct box *b)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct timeval limit = { 10, 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	box_path(b, sa.sun_path, sizeof(sa.sun_path));
	assert_true(fd >= 0);
	assert_int_equal(
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* Whether the other side closes within ms. */
static bool
closes(struct event_base *base, int fd, unsigned ms)
{
	uint64_t until = clock_ms() + ms;
	char c;

	while (clock_ms() < until) {
		ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return true;
		assert_int_equal(n, -1);
		event_base_loop(base, EVLOOP_NONBLOCK);
		usleep(500);
	}
	return false;
}

static void
a_sender_gone_before_the_answer_is_lost(void **state)
{
	struct event_base *base = event_base_new();
	struct frame frame = { .type = INBOX_POST, .session = SESSION };
	unsigned char head[FRAME_HEAD];
	struct box b;
	int fd;

	box_open(&b, *state, base);
	b.hold = true;
	fd = raw_connect(&b);
	assert_int_equal(frame_encode(&frame, head), ERR_OK);
	assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
	run_until(base, &b.received, 1, 2000);
	close(fd);
	inbox_ack(b.held[0], INBOX_ACCEPTED, on_written, on_lost, &b);
	assert_int_equal(b.written, 0);
	assert_int_equal(b.lost, 1);
	box_close(&b);
	event_base_free(base);
}

static void
wrong_bytes_end_the_connection_alone(void **state)
{
	struct event_base *base = event_base_new();
	struct frame frame = { .type = INBOX_POST, .session = SESSION };
	struct sends sends = { 0 };
	struct box b;

	box_open(&b, *state, base);
	for (int kind = 0; kind < 8; kind++) {
		/* place and value of the byte that is wrong */
		static const struct {
			int at;
			unsigned char value;
		} wrong[] = { { 0, 'G' }, { 5, 2 }, { 7, 9 }, { 7, 2 },
			{ 8, 0xff }, { 13, 1 }, { 16, 'X' }, { 63, 0 } };
		unsigned char head[FRAME_HEAD];
		int fd = raw_connect(&b);

		assert_int_equal(frame_encode(&frame, head), ERR_OK);
		head[wrong[kind].at] = wrong[kind].value;
		assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
		assert_true(closes(base, fd, 2000));
		close(fd);
		/* one that ends in the middle */
		fd = raw_connect(&b);
		assert_int_equal(write(fd, head, (size_t)kind), kind);
		assert_int_equal(shutdown(fd, SHUT_WR), 0);
		assert_true(closes(base, fd, 2000));
		close(fd);
	}
	assert_int_equal(b.received, 0);
	post(&b, state_process(b.state), "still here", &sends);
	run_until(base, &sends.done, 1, 2000);
	assert_int_equal(b.received, 1);
	box_close(&b);
	event_base_free(base);
}

static void
a_half_sent_message_is_dropped_in_time(void **state)
{
	struct event_base *base = event_base_new();
	struct frame frame = {
		.type = INBOX_POST, .session = SESSION, .len = 100
	};
	unsigned char head[FRAME_HEAD];
	uint64_t from = clock_ms();
	struct box b;
	int fd, trickling;

	box_open(&b, *state, base);
	assert_int_equal(frame_encode(&frame, head), ERR_OK);
	fd = raw_connect(&b);
	assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
	trickling = raw_connect(&b);
	assert_int_equal(write(trickling, head, sizeof(head)), sizeof(head));
	/* one byte now and then does not make it live longer */
	while (!closes(base, trickling, 300)) {
		assert_true(clock_ms() - from < 8000);
		send(trickling, "x", 1, MSG_NOSIGNAL);
	}
	assert_true(clock_ms() - from >= 4900);
	assert_true(closes(base, fd, 1000));
	assert_int_equal(b.received, 0);
	close(fd);
	close(trickling);
	box_close(&b);
	event_base_free(base);
}

/* Becomes another user and sends a good message. */
static void
send_as_other(const struct place *p, int in, int out, void *arg)
{
	struct frame frame = { .type = INBOX_POST, .session = SESSION };
	unsigned char bytes[FRAME_HEAD];
	ssize_t n;
	int fd;

	(void)p;
	child_wait(in);
	CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	fd = raw_connect(arg);
	CHILD_CHECK(frame_encode(&frame, bytes) == ERR_OK);
	CHILD_CHECK(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != 0);
	do
		n = recv(fd, bytes, sizeof(bytes), 0);
	while (n < 0 && errno == EINTR);
	/* closed without an answer */
	CHILD_CHECK(n == 0 || (n < 0 && errno == ECONNRESET));
	CHILD_CHECK(write(out, "r", 1) == 1);
}

static void
another_user_is_not_listened_to(void **state)
{
	struct place *p = *state;
	struct event_base *base;
	struct pollfd ready;
	struct child c;
	char path[256];
	struct box b;

	if (geteuid() != 0) {
		print_message("not root: nobody else to be\n");
		skip();
	}
	base = event_base_new();
	box_open(&b, p, base);
	/* folder and socket as if their modes had been lost */
	assert_int_equal(chmod(p->dir, 0755), 0);
	box_path(&b, path, sizeof(path));
	assert_int_equal(chmod(path, 0666), 0);
	c = child_start(p, send_as_other, &b);
	assert_int_equal(write(c.out, "g", 1), 1);
	ready = (struct pollfd){ .fd = c.in, .events = POLLIN };
	for (int i = 0; i < 5000 && poll(&ready, 1, 1) == 0; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(child_end(&c), 0);
	assert_int_equal(b.received, 0);
	box_close(&b);
	event_base_free(base);
}

/* Makes a socket file that nobody listens at. */
static void
dead_socket(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	close(fd);
}

static void
sockets_of_the_dead_are_swept(void **state)
{
	struct place *p = *state;
	struct event_base *base = event_base_new();
	char dead[128], foreign[128], live[256];
	struct stat st;
	struct box a, b;

	snprintf(dead, sizeof(dead), "%s/00000000deadbeef.sock", p->dir);
	snprintf(foreign, sizeof(foreign), "%s/other.sock", p->dir);
	dead_socket(dead);
	dead_socket(foreign);
	box_open(&a, p, base);
	box_path(&a, live, sizeof(live));
	assert_int_equal(lstat(live, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	box_open(&b, p, base);
	assert_int_equal(access(dead, F_OK), -1);
	assert_int_equal(access(foreign, F_OK), 0);
	assert_int_equal(access(live, F_OK), 0);
	box_close(&a);
	assert_int_equal(access(live, F_OK), -1);
	box_close(&b);
	event_base_free(base);
}

static void
a_cleared_run_folder_is_made_again(void **state)
{
	struct place *p = *state;
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	char path[256];
	uint64_t until;
	struct box a;

	box_open(&a, p, base);
	box_path(&a, path, sizeof(path));
	folder_remove(p->dir);
	assert_int_equal(access(p->dir, F_OK), -1);
	until = clock_ms() + 4000;
	while (access(path, F_OK) != 0) {
		assert_true(clock_ms() < until);
		event_base_loop(base, EVLOOP_NONBLOCK);
		usleep(1000);
	}
	post(&a, state_process(a.state), "x", &sends);
	run_until(base, &sends.done, 1, 2000);
	assert_int_equal(sends.ok, 1);
	box_close(&a);
	event_base_free(base);
}

static void
closing_ends_what_is_under_way(void **state)
{
	struct event_base *base = event_base_new();
	struct sends sends = { 0 };
	struct box a, b;

	box_open(&a, *state, base);
	box_open(&b, *state, base);
	b.hold = true;
	/* the owner closes with the message in its hands */
	post(&a, state_process(b.state), "1", &sends);
	run_until(base, &b.received, 1, 2000);
	box_close(&b);
	run_until(base, &sends.done, 1, 1000);
	assert_int_equal(sends.not_found, 1);
	/* the sender closes */
	box_open(&b, *state, base);
	b.hold = true;
	post(&a, state_process(b.state), "2", &sends);
	run_until(base, &b.received, 1, 2000);
	post(&a, state_process(b.state), "3", &sends);
	box_close(&a);
	assert_int_equal(sends.done, 3);
	assert_int_equal(sends.closed, 2);
	inbox_ack(b.held[0], INBOX_ACCEPTED, on_written, on_lost, &b);
	assert_int_equal(b.lost, 1);
	box_close(&b);
	inbox_close(NULL);
	event_base_free(base);
}

int
main(void)
{
#define CASE(name) \
	cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_message_goes_there_and_its_answer_back),
		CASE(large_bodies_arrive_whole),
		CASE(what_does_not_fit_is_not_sent),
		CASE(a_dead_owner_is_known_at_once),
		CASE(an_owner_that_dies_before_its_answer_is_gone),
		CASE(a_full_inbox_is_tried_again),
		CASE(who_gave_up_is_told_to_the_owner),
		CASE(messages_at_once_are_bounded),
		CASE(a_sender_gone_before_the_answer_is_lost),
		CASE(wrong_bytes_end_the_connection_alone),
		CASE(a_half_sent_message_is_dropped_in_time),
		CASE(another_user_is_not_listened_to),
		CASE(sockets_of_the_dead_are_swept),
		CASE(a_cleared_run_folder_is_made_again),
		CASE(closing_ends_what_is_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
