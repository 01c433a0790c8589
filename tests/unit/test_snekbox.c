/*
 * The sandbox client against a peer that misbehaves in every way. The peer is
 * a thread with a raw socket: each test tells it what to do with connections.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/snekbox.h"

/* ---- the peer ----------------------------------------------------------- */

struct peer {
	int listener;
	unsigned short port;
	char path[100]; /* of a Unix socket, or "" */
	void (*behave)(struct peer *peer, int fd);
	atomic_int connections, requests, closed;
	char *request; /* the last whole one, owned */
	size_t request_len;
	pthread_t thread;
};

/* Reads a request whole, as its Content-Length says; 0 when the peer closed
 * before. */
static size_t
read_request(struct peer *peer, int fd)
{
	size_t len = 0, want = SIZE_MAX, cap = 16 << 20;
	char *data = calloc(1, cap), *end, *length;

	while (len < want && len < cap - 1) {
		ssize_t n = read(fd, data + len, cap - 1 - len);

		if (n <= 0)
			break;
		len += (size_t)n;
		end = strstr(data, "\r\n\r\n");
		length = strcasestr(data, "\r\nContent-Length: ");
		if (end != NULL && length != NULL)
			want = (size_t)(end - data) + 4 +
			    strtoul(length + 18, NULL, 10);
	}
	free(peer->request);
	peer->request = data;
	peer->request_len = len;
	if (len < want)
		return 0;
	atomic_fetch_add(&peer->requests, 1);
	return len;
}

static void
say(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		ssize_t n = send(fd, text, left, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		text += n;
		left -= (size_t)n;
	}
}

static void *
peer_main(void *arg)
{
	struct peer *peer = arg;
	int fd;

	while ((fd = accept(peer->listener, NULL, NULL)) >= 0) {
		atomic_fetch_add(&peer->connections, 1);
		peer->behave(peer, fd);
		close(fd);
	}
	return NULL;
}

static void
peer_bind(struct peer *peer)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(in);

	if (peer->path[0] != '\0') {
		memcpy(un.sun_path, peer->path, strlen(peer->path) + 1);
		unlink(peer->path);
		peer->listener = socket(AF_UNIX, SOCK_STREAM, 0);
		assert_int_equal(
		    bind(peer->listener, (void *)&un, sizeof(un)), 0);
		return;
	}
	peer->listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(peer->listener, (void *)&in, sizeof(in)), 0);
	assert_int_equal(getsockname(peer->listener, (void *)&in, &len), 0);
	peer->port = ntohs(in.sin_port);
}

static void
peer_start(struct peer *peer, void (*behave)(struct peer *, int))
{
	peer->behave = behave;
	peer_bind(peer);
	assert_int_equal(listen(peer->listener, 16), 0);
	assert_int_equal(
	    pthread_create(&peer->thread, NULL, peer_main, peer), 0);
}

static void
peer_stop(struct peer *peer)
{
	shutdown(peer->listener, SHUT_RDWR);
	pthread_join(peer->thread, NULL);
	close(peer->listener);
	if (peer->path[0] != '\0')
		unlink(peer->path);
	free(peer->request);
}

/* ---- ways to behave ----------------------------------------------------- */

static void
answer_well(struct peer *peer, int fd)
{
	if (read_request(peer, fd) > 0)
		say(fd,
		    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
		    "Content-Length: 10\r\n\r\n{\"ok\":123}");
}

static void
answer_500(struct peer *peer, int fd)
{
	if (read_request(peer, fd) > 0)
		say(fd,
		    "HTTP/1.1 500 Internal Server Error\r\n"
		    "Content-Type: text/html\r\nConnection: close\r\n\r\n"
		    "<html>sorry</html>");
}

static void
answer_redirect(struct peer *peer, int fd)
{
	if (read_request(peer, fd) > 0)
		say(fd,
		    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
		    "Content-Length: 0\r\n\r\n");
}

static void
close_unanswered(struct peer *peer, int fd)
{
	read_request(peer, fd);
}

static void
reset(struct peer *peer, int fd)
{
	struct linger linger = { 1, 0 };

	read_request(peer, fd);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void
close_in_the_middle(struct peer *peer, int fd)
{
	if (read_request(peer, fd) > 0)
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
}

static void
close_in_the_header(struct peer *peer, int fd)
{
	if (read_request(peer, fd) > 0)
		say(fd, "HTTP/1.1 200 OK\r\nContent-Le");
}

static void
stay_silent(struct peer *peer, int fd)
{
	char c;

	if (read_request(peer, fd) > 0 && read(fd, &c, 1) <= 0)
		atomic_fetch_add(&peer->closed, 1);
}

static void
never_read(struct peer *peer, int fd)
{
	struct timeval tv = { 1, 0 };

	(void)peer;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	usleep(600 * 1000);
}

static void
speak_no_http(struct peer *peer, int fd)
{
	if (read_request(peer, fd) > 0)
		say(fd, "SSH-2.0-OpenSSH_9.2\r\nwhat?\r\n\r\n");
}

static void
announce_too_much(struct peer *peer, int fd)
{
	if (read_request(peer, fd) > 0)
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nx");
}

static void
send_too_much(struct peer *peer, int fd)
{
	char chunk[1025];

	memset(chunk, 'x', sizeof(chunk) - 1);
	chunk[1024] = '\0';
	if (read_request(peer, fd) == 0)
		return;
	say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 200; i++) {
		say(fd, "400\r\n");
		say(fd, chunk);
		say(fd, "\r\n");
	}
	say(fd, "0\r\n\r\n");
}

static void
answer_in_pieces(struct peer *peer, int fd)
{
	const char *text = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npart";

	if (read_request(peer, fd) == 0)
		return;
	for (; *text != '\0'; text++) {
		char one[2] = { *text, '\0' };

		say(fd, one);
		usleep(1000);
	}
}

/* Keeps the connection open after the first answer, then closes it unanswered:
 * the trap in which a client repeats a POST. */
static void
keep_alive_then_close(struct peer *peer, int fd)
{
	if (read_request(peer, fd) == 0)
		return;
	if (atomic_load(&peer->requests) > 1)
		return;
	say(fd,
	    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
	    "Content-Length: 2\r\n\r\n{}");
	read_request(peer, fd);
}

static void
refuse_early(struct peer *peer, int fd)
{
	struct linger linger = { 1, 2 };
	char data[1024];

	(void)peer;
	if (read(fd, data, sizeof(data)) <= 0)
		return;
	say(fd,
	    "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n"
	    "Connection: close\r\n\r\nbig");
	shutdown(fd, SHUT_WR);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	while (read(fd, data, sizeof(data)) > 0)
		;
}

/* ---- the client --------------------------------------------------------- */

struct client {
	struct conf conf;
	struct event_base *base;
	struct snekbox *snekbox;
	struct snekbox_run *run;
	bool submitting;
	int started, done;
	enum err transport;
	long status;
	char type[64], text[256], body[256];
	size_t body_len;
	uint64_t duration_ms;
	struct buf back; /* the request's body, taken back */
	void (*then)(struct client *client);
};

static void
on_started(void *arg)
{
	struct client *c = arg;

	assert_false(c->submitting);
	assert_int_equal(c->done, c->started);
	c->started++;
}

static void
on_done(void *arg, const struct sandbox_reply *reply, struct buf *body)
{
	struct client *c = arg;

	assert_false(c->submitting);
	c->done++;
	c->transport = reply->transport;
	c->status = reply->http_status;
	c->duration_ms = reply->duration_ms;
	c->body_len = reply->body_len;
	assert_non_null(reply->transport_text);
	snprintf(c->type, sizeof(c->type), "%s",
	    reply->content_type != NULL ? reply->content_type : "");
	snprintf(c->text, sizeof(c->text), "%s", reply->transport_text);
	snprintf(c->body, sizeof(c->body), "%s", buf_str(body));
	if (reply->transport == ERR_NOT_FOUND)
		snekbox_take_body(c->run, &c->back);
	c->run = NULL;
	if (c->then != NULL)
		c->then(c);
	else
		event_base_loopbreak(c->base);
}

static const struct snekbox_callbacks callbacks = { on_started, on_done };

static void
set(struct client *c, const char *name, const char *value)
{
	assert_int_equal(conf_set(&c->conf, name, value, NULL), ERR_OK);
}

static void
client_init(struct client *c, const char *url)
{
	struct conf_fault fault = { "" };

	*c = (struct client){ .transport = ERR_INTERNAL };
	assert_int_equal(conf_init(&c->conf), ERR_OK);
	set(c, "snekbox_url", url);
	set(c, "sandbox_reply_max", "65536");
	set(c, "sandbox_connect_timeout", "300ms");
	c->base = event_base_new();
	if (snekbox_open(&c->conf, c->base, &fault, &c->snekbox) != ERR_OK)
		fail_msg("%s", fault.text);
}

static void
client_done(struct client *c)
{
	snekbox_close(c->snekbox);
	event_base_free(c->base);
	conf_done(&c->conf);
	buf_done(&c->back);
}

static void
submit(struct client *c, size_t body_len, uint64_t timeout_ms)
{
	struct buf body;

	buf_init(&body, 16 << 20);
	assert_int_equal(buf_reserve(&body, body_len), ERR_OK);
	for (size_t i = 0; i < body_len; i++)
		assert_int_equal(buf_putc(&body, 'b'), ERR_OK);
	c->submitting = true;
	assert_int_equal(snekbox_submit(c->snekbox, 0, &body, timeout_ms,
			     &callbacks, c, &c->run),
	    ERR_OK);
	c->submitting = false;
	assert_int_equal(body.len, 0);
	assert_null(body.data);
}

/* Runs the loop at most ms. */
static void
run_for(struct client *c, long ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	event_base_loopexit(c->base, &tv);
	event_base_dispatch(c->base);
}

static void
url_of(const struct peer *peer, char *out, size_t size)
{
	if (peer->path[0] != '\0')
		snprintf(out, size, "unix:%s", peer->path);
	else
		snprintf(out, size, "http://127.0.0.1:%u/eval", peer->port);
}

/* One request to a peer that behaves so. */
static void
exchange(struct peer *peer, struct client *c,
    void (*behave)(struct peer *, int), size_t body_len, uint64_t timeout_ms)
{
	char url[200];

	peer_start(peer, behave);
	url_of(peer, url, sizeof(url));
	client_init(c, url);
	submit(c, body_len, timeout_ms);
	run_for(c, 10000);
	assert_int_equal(c->done, 1);
}

static void
end(struct peer *peer, struct client *c)
{
	client_done(c);
	peer_stop(peer);
}

/* ---- tests -------------------------------------------------------------- */

static void
check_well_answered(struct peer *peer, struct client *c)
{
	exchange(peer, c, answer_well, 1000, 5000);
	assert_int_equal(c->transport, ERR_OK);
	assert_int_equal(c->started, 1);
	assert_int_equal(c->status, 200);
	assert_string_equal(c->type, "application/json");
	assert_string_equal(c->body, "{\"ok\":123}");
	assert_int_equal(c->body_len, 10);
	assert_ptr_equal(
	    strstr(peer->request, "POST /eval HTTP/1.1\r\n"), peer->request);
	assert_non_null(strstr(peer->request, "Content-Length: 1000\r\n"));
	assert_non_null(strstr(peer->request, "Accept: application/json\r\n"));
	assert_non_null(
	    strstr(peer->request, "Content-Type: application/json\r\n"));
	assert_null(strcasestr(peer->request, "Expect:"));
	assert_null(strcasestr(peer->request, "Transfer-Encoding:"));
	assert_null(strcasestr(peer->request, "Accept-Encoding:"));
	end(peer, c);
}

static void
a_good_answer_comes_whole(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	check_well_answered(&peer, &c);
}

static void
unix_sockets_work_alike(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	snprintf(peer.path, sizeof(peer.path), "/tmp/test-snekbox-%ld.sock",
	    (long)getpid());
	check_well_answered(&peer, &c);
}

static void
a_large_body_arrives_whole(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	exchange(&peer, &c, answer_well, 5 << 20, 5000);
	assert_int_equal(c.transport, ERR_OK);
	assert_true(peer.request_len > 5 << 20);
	end(&peer, &c);
}

static void
http_errors_are_answers(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	exchange(&peer, &c, answer_500, 10, 5000);
	assert_int_equal(c.transport, ERR_OK);
	assert_int_equal(c.status, 500);
	assert_string_equal(c.type, "text/html");
	assert_string_equal(c.body, "<html>sorry</html>");
	end(&peer, &c);
}

static void
an_early_refusal_of_a_large_body_is_read(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	exchange(&peer, &c, refuse_early, 5 << 20, 5000);
	assert_int_equal(c.transport, ERR_OK);
	assert_int_equal(c.status, 413);
	assert_string_equal(c.body, "big");
	end(&peer, &c);
}

static void
redirects_are_not_followed(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	exchange(&peer, &c, answer_redirect, 10, 5000);
	assert_int_equal(c.transport, ERR_OK);
	assert_int_equal(c.status, 302);
	assert_int_equal(atomic_load(&peer.connections), 1);
	end(&peer, &c);
}

static void
answers_in_pieces_are_put_together(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	exchange(&peer, &c, answer_in_pieces, 10, 5000);
	assert_int_equal(c.transport, ERR_OK);
	assert_string_equal(c.body, "part");
	end(&peer, &c);
}

/* Whatever breaks after the request was sent is ERR_CLOSED, and it was sent
 * once. */
static void
broken_answers_are_closed_and_never_retried(void **state)
{
	static void (*const ways[])(struct peer *, int) = { close_unanswered,
		reset, close_in_the_middle, close_in_the_header,
		speak_no_http };

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct peer peer = { .listener = -1 };
		struct client c;

		exchange(&peer, &c, ways[i], 10, 5000);
		if (c.transport != ERR_CLOSED)
			fail_msg("way %zu: %s, %s", i,
			    err_info(c.transport)->name, c.text);
		assert_int_equal(c.started, 1);
		assert_true(c.text[0] != '\0');
		run_for(&c, 100);
		assert_int_equal(atomic_load(&peer.connections), 1);
		assert_int_equal(atomic_load(&peer.requests), 1);
		end(&peer, &c);
	}
}

static void
a_kept_connection_is_not_used_again(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	exchange(&peer, &c, keep_alive_then_close, 10, 5000);
	assert_int_equal(c.transport, ERR_OK);
	submit(&c, 10, 5000);
	run_for(&c, 5000);
	assert_int_equal(c.done, 2);
	assert_int_equal(c.transport, ERR_CLOSED);
	assert_int_equal(atomic_load(&peer.requests), 2);
	end(&peer, &c);
}

static void
silence_is_a_timeout(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;
	uint64_t begun = clock_ms();

	(void)state;
	exchange(&peer, &c, stay_silent, 10, 300);
	assert_int_equal(c.transport, ERR_TIMEOUT);
	assert_true(clock_ms() - begun >= 290);
	assert_true(clock_ms() - begun < 3000);
	assert_true(c.duration_ms >= 250 && c.duration_ms < 3000);
	assert_int_equal(c.started, 1);
	end(&peer, &c);
	assert_int_equal(atomic_load(&peer.requests), 1);
}

static void
a_peer_that_does_not_read_is_a_timeout(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	exchange(&peer, &c, never_read, 12 << 20, 300);
	assert_int_equal(c.transport, ERR_TIMEOUT);
	end(&peer, &c);
}

static void
too_large_answers_are_a_limit(void **state)
{
	static void (*const ways[])(
	    struct peer *, int) = { announce_too_much, send_too_much };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct peer peer = { .listener = -1 };
		struct client c;

		exchange(&peer, &c, ways[i], 10, 5000);
		assert_int_equal(c.transport, ERR_LIMIT);
		assert_true(c.body_len <= 65536);
		end(&peer, &c);
	}
}

static void
check_not_reached(const char *url, long at_most_ms)
{
	struct client c;
	uint64_t begun = clock_ms();

	client_init(&c, url);
	submit(&c, 1000, 20000);
	run_for(&c, 15000);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.started, 0);
	if (c.transport != ERR_NOT_FOUND)
		fail_msg("%s: %s", url, err_info(c.transport)->name);
	assert_true(clock_ms() - begun < (uint64_t)at_most_ms);
	/* and the program can be sent elsewhere */
	assert_int_equal(c.back.len, 1000);
	client_done(&c);
}

static void
no_connection_means_that_nothing_ran(void **state)
{
	struct peer peer = { .listener = -1 };
	char url[100];

	(void)state;
	peer_bind(&peer);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/eval", peer.port);
	close(peer.listener);
	check_not_reached(url, 2000);
	check_not_reached("unix:/tmp/there-is-no-such.sock", 2000);
	check_not_reached("http://no-such-name.invalid:1/eval", 12000);
}

/* A listener whose queue is full drops connection attempts. */
static void
a_connection_that_never_stands_times_out(void **state)
{
	struct peer peer = { .listener = -1 };
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char url[100];
	int fds[8];

	(void)state;
	peer_bind(&peer);
	assert_int_equal(listen(peer.listener, 0), 0);
	in.sin_port = htons(peer.port);
	for (int i = 0; i < 8; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(fds[i], (void *)&in, sizeof(in)) != 0)
			assert_int_equal(errno, EINPROGRESS);
	}
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/eval", peer.port);
	check_not_reached(url, 3000);
	for (int i = 0; i < 8; i++)
		close(fds[i]);
	close(peer.listener);
}

static void
the_environment_does_not_lead_elsewhere(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;

	(void)state;
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	exchange(&peer, &c, answer_well, 10, 5000);
	assert_int_equal(c.transport, ERR_OK);
	end(&peer, &c);
	unsetenv("http_proxy");
	unsetenv("ALL_PROXY");
}

static void
cancelling_closes_the_connection_and_calls_nobody(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;
	char url[200];

	(void)state;
	peer_start(&peer, stay_silent);
	url_of(&peer, url, sizeof(url));
	client_init(&c, url);
	submit(&c, 10, 5000);
	while (c.started == 0)
		run_for(&c, 20);
	while (atomic_load(&peer.requests) == 0)
		run_for(&c, 20);
	snekbox_cancel(c.run);
	run_for(&c, 50);
	assert_int_equal(c.done, 0);
	end(&peer, &c);
	assert_int_equal(atomic_load(&peer.closed), 1);
}

static void
cancelling_before_anything_happened_sends_nothing(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;
	char url[200];

	(void)state;
	peer_start(&peer, stay_silent);
	url_of(&peer, url, sizeof(url));
	client_init(&c, url);
	submit(&c, 10, 5000);
	snekbox_cancel(c.run);
	run_for(&c, 50);
	assert_int_equal(c.started + c.done, 0);
	assert_int_equal(atomic_load(&peer.connections), 0);
	end(&peer, &c);
}

static void
submit_once_more(struct client *c)
{
	c->then = NULL;
	c->started = 0;
	c->done = 0;
	submit(c, 20, 5000);
}

static void
a_callback_may_submit_the_next_run(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;
	char url[200];

	(void)state;
	peer_start(&peer, answer_well);
	url_of(&peer, url, sizeof(url));
	client_init(&c, url);
	c.then = submit_once_more;
	submit(&c, 10, 5000);
	run_for(&c, 5000);
	assert_int_equal(c.done, 1);
	assert_int_equal(c.transport, ERR_OK);
	assert_int_equal(atomic_load(&peer.requests), 2);
	end(&peer, &c);
}

static void
closing_drops_runs_without_a_word(void **state)
{
	struct peer peer = { .listener = -1 };
	struct client c;
	char url[200];

	(void)state;
	peer_start(&peer, stay_silent);
	url_of(&peer, url, sizeof(url));
	client_init(&c, url);
	submit(&c, 10, 5000);
	while (c.started == 0)
		run_for(&c, 20);
	submit(&c, 10, 5000);
	end(&peer, &c);
	assert_int_equal(c.done, 0);
}

static void
addresses_are_checked_and_named_without_secrets(void **state)
{
	static const char *const bad[] = { "", "ftp://h/eval", "127.0.0.1:1",
		"unix:relative.sock", "http://", "/path" };
	struct conf_fault fault;
	struct client c;

	(void)state;
	client_init(&c,
	    "http://u:secret@127.0.0.1:8060, unix:///run/a.sock,"
	    "http://h:1/x/eval");
	assert_int_equal(snekbox_endpoints(c.snekbox), 3);
	assert_string_equal(
	    snekbox_name(c.snekbox, 0), "http://127.0.0.1:8060/eval");
	assert_string_equal(snekbox_name(c.snekbox, 1), "unix:/run/a.sock");
	assert_string_equal(snekbox_name(c.snekbox, 2), "http://h:1/x/eval");
	assert_string_equal(snekbox_name(c.snekbox, 3), "");
	assert_false(snekbox_stops(c.snekbox, 0));
	assert_true(snekbox_stops(c.snekbox, 1));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct snekbox *none = NULL;

		set(&c, "snekbox_url", bad[i]);
		assert_int_equal(
		    snekbox_open(&c.conf, c.base, &fault, &none), ERR_CONF);
		assert_non_null(strstr(fault.text, "snekbox_url"));
		assert_null(none);
	}
	client_done(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_answer_comes_whole),
		cmocka_unit_test(unix_sockets_work_alike),
		cmocka_unit_test(a_large_body_arrives_whole),
		cmocka_unit_test(http_errors_are_answers),
		cmocka_unit_test(an_early_refusal_of_a_large_body_is_read),
		cmocka_unit_test(redirects_are_not_followed),
		cmocka_unit_test(answers_in_pieces_are_put_together),
		cmocka_unit_test(broken_answers_are_closed_and_never_retried),
		cmocka_unit_test(a_kept_connection_is_not_used_again),
		cmocka_unit_test(silence_is_a_timeout),
		cmocka_unit_test(a_peer_that_does_not_read_is_a_timeout),
		cmocka_unit_test(too_large_answers_are_a_limit),
		cmocka_unit_test(no_connection_means_that_nothing_ran),
		cmocka_unit_test(a_connection_that_never_stands_times_out),
		cmocka_unit_test(the_environment_does_not_lead_elsewhere),
		cmocka_unit_test(
		    cancelling_closes_the_connection_and_calls_nobody),
		cmocka_unit_test(
		    cancelling_before_anything_happened_sends_nothing),
		cmocka_unit_test(a_callback_may_submit_the_next_run),
		cmocka_unit_test(closing_drops_runs_without_a_word),
		cmocka_unit_test(
		    addresses_are_checked_and_named_without_secrets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
