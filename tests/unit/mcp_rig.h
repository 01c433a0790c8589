/*
 * What the tests of the core share: a core with a table of its own, real
 * workers, and a sandbox that the test leads: an HTTP server in the same loop.
 */
#ifndef TESTS_MCP_RIG_H
#define TESTS_MCP_RIG_H

#include "state_help.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/mcp.h"
#include "state/limit.h"
#include "state/session.h"

/* ---- the sandbox --------------------------------------------------------- */

enum fake_way { FAKE_ANSWER, FAKE_WAIT, FAKE_BUSY, FAKE_CLOSE };

#define FAKE_OUTPUT "{\"stdout\":\"hi\\n\",\"returncode\":0,\"files\":[]}"

struct fake {
	struct evhttp *http;
	enum fake_way way;
	const char *answer;
	int requests, gone; /* gone: closed by us before an answer */
	struct {
		struct evhttp_request *request;
		struct evhttp_connection *connection;
	} waiting[32];
	int n_waiting;
	char url[128], path[100];
};

static void
fake_send(struct fake *peer, struct evhttp_request *request)
{
	struct evbuffer *body = evbuffer_new();

	evbuffer_add_printf(body, "%s", peer->answer);
	evhttp_add_header(evhttp_request_get_output_headers(request),
	    "Content-Type", "application/json");
	evhttp_send_reply(request, 200, "OK", body);
	evbuffer_free(body);
}

static void
fake_closed(struct evhttp_connection *connection, void *arg)
{
	struct fake *peer = arg;

	for (int i = 0; i < peer->n_waiting; i++) {
		if (peer->waiting[i].connection != connection)
			continue;
		/* cut off from its connection, it is ours to free */
		if (evhttp_request_get_connection(peer->waiting[i].request) ==
		    NULL)
			evhttp_request_free(peer->waiting[i].request);
		peer->waiting[i] = peer->waiting[--peer->n_waiting];
		peer->gone++;
		return;
	}
}

static void
fake_request(struct evhttp_request *request, void *arg)
{
	struct fake *peer = arg;
	struct evhttp_connection *connection =
	    evhttp_request_get_connection(request);

	peer->requests++;
	switch (peer->way) {
	case FAKE_ANSWER:
		fake_send(peer, request);
		break;
	case FAKE_WAIT:
		evhttp_connection_set_closecb(connection, fake_closed, peer);
		/* evhttp reads no further, and so would not see the end */
		bufferevent_enable(
		    evhttp_connection_get_bufferevent(connection), EV_READ);
		peer->waiting[peer->n_waiting].connection = connection;
		peer->waiting[peer->n_waiting++].request = request;
		break;
	case FAKE_BUSY:
		evhttp_send_error(request, 503, "busy");
		break;
	case FAKE_CLOSE:
		shutdown(bufferevent_getfd(
			     evhttp_connection_get_bufferevent(connection)),
		    SHUT_RDWR);
		break;
	}
}

/* Answers all that wait. */
static UNUSED void
fake_release(struct fake *peer)
{
	while (peer->n_waiting > 0) {
		struct evhttp_request *r =
		    peer->waiting[--peer->n_waiting].request;

		evhttp_connection_set_closecb(
		    evhttp_request_get_connection(r), NULL, NULL);
		fake_send(peer, r);
	}
}

static int
fake_listen(struct fake *peer, const char *dir, int n)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd;

	if (dir != NULL) {
		snprintf(peer->path, sizeof(peer->path), "%s/peer%d", dir, n);
		snprintf(peer->url, sizeof(peer->url), "unix:%s", peer->path);
		memcpy(un.sun_path, peer->path, strlen(peer->path) + 1);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		assert_int_equal(bind(fd, (void *)&un, sizeof(un)), 0);
	} else {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		assert_int_equal(bind(fd, (void *)&in, sizeof(in)), 0);
		assert_int_equal(getsockname(fd, (void *)&in, &len), 0);
		snprintf(peer->url, sizeof(peer->url),
		    "http://127.0.0.1:%u/eval", ntohs(in.sin_port));
	}
	assert_int_equal(listen(fd, 64), 0);
	return fd;
}

static void
fake_open(struct fake *peer, struct event_base *base, const char *dir, int n)
{
	*peer = (struct fake){ .answer = FAKE_OUTPUT };
	peer->http = evhttp_new(base);
	evhttp_set_gencb(peer->http, fake_request, peer);
	assert_int_equal(
	    evhttp_accept_socket(peer->http, fake_listen(peer, dir, n)), 0);
}

/* Nobody listens at its address any more. */
static void
fake_close(struct fake *peer)
{
	if (peer->http == NULL)
		return;
	evhttp_free(peer->http);
	peer->http = NULL;
	if (peer->path[0] != '\0')
		unlink(peer->path);
}

/* ---- the host ------------------------------------------------------------ */

struct rig;

struct job {
	struct rig *rig;
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

struct rig {
	struct place *place;
	struct event_base *base;
	struct state *state;
	struct snekbox *snekbox;
	struct mcp *mcp;
	struct mcp_session *session;
	char sid[SESSION_ID_LEN + 1];
	struct mcp_host host;
	struct fake fakes[2];
	int pipe[2];
	struct event *piped;
	bool hold; /* keep done work back */
	struct job *held[64];
	int n_held;
	int jobs, idle;
};

static struct rig *
rig_of(struct mcp_host *host)
{
	return (struct rig *)((char *)host - offsetof(struct rig, host));
}

static void *
job_run(void *arg)
{
	struct job *job = arg;

	job->work(job->arg);
	if (write(job->rig->pipe[1], &job, sizeof(job)) != sizeof(job))
		abort();
	return NULL;
}

static void
host_offload(struct mcp_host *host, void (*work)(void *), void (*done)(void *),
    void *arg)
{
	struct job *job = malloc(sizeof(*job));
	pthread_t thread;

	*job = (struct job){ rig_of(host), work, done, arg };
	job->rig->jobs++;
	assert_int_equal(pthread_create(&thread, NULL, job_run, job), 0);
	pthread_detach(thread);
}

static void
job_done(struct job *job)
{
	struct job copy = *job;

	free(job);
	copy.rig->jobs--;
	copy.done(copy.arg);
}

static void
on_piped(evutil_socket_t fd, short events, void *arg)
{
	struct rig *rig = arg;
	struct job *job;

	(void)events;
	if (read(fd, &job, sizeof(job)) != sizeof(job))
		return;
	if (rig->hold)
		rig->held[rig->n_held++] = job;
	else
		job_done(job);
}

static UNUSED void
rig_release(struct rig *rig)
{
	rig->hold = false;
	while (rig->n_held > 0)
		job_done(rig->held[--rig->n_held]);
}

static void
host_ring(struct mcp_host *host, uint64_t process)
{
	struct rig *rig = rig_of(host);

	if (process == state_process(rig->state))
		mcp_ring(rig->mcp);
}

static void
host_idle(struct mcp_host *host)
{
	rig_of(host)->idle++;
}

/* ---- the rig ------------------------------------------------------------- */

/* Opens a core with peers (unix sockets where stops says so) and settings:
 * pairs of name and value, ended by NULL. */
static struct rig *
rig_open(int n_peers, bool stops, const char *const *settings)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct conf_fault fault = { "" };
	char urls[300] = "", store[80];
	void *place = NULL;

	assert_int_equal(place_setup(&place), 0);
	rig->place = place;
	rig->base = event_base_new();
	for (int i = 0; i < n_peers; i++) {
		fake_open(&rig->fakes[i], rig->base,
		    stops ? rig->place->dir : NULL, i);
		snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls),
		    "%s%s", i > 0 ? "," : "", rig->fakes[i].url);
	}
	place_set(rig->place, "snekbox_url", urls);
	snprintf(store, sizeof(store), "%s.files", rig->place->dir);
	place_set(rig->place, "artifact_dir", store);
	/* a test asks the sandbox itself, and counts */
	place_set(rig->place, "environment_refresh", "0s");
	for (; settings != NULL && *settings != NULL; settings += 2)
		place_set(rig->place, settings[0], settings[1]);
	assert_int_equal(state_open(&rig->place->conf, &rig->state), ERR_OK);
	if (snekbox_open(&rig->place->conf, rig->base, &fault, &rig->snekbox) !=
	    ERR_OK)
		fail_msg("%s", fault.text);
	assert_int_equal(pipe(rig->pipe), 0);
	rig->piped = event_new(
	    rig->base, rig->pipe[0], EV_READ | EV_PERSIST, on_piped, rig);
	event_add(rig->piped, NULL);
	rig->host =
	    (struct mcp_host){ rig->base, host_offload, host_ring, host_idle };
	assert_int_equal(mcp_open(&rig->place->conf, rig->state, rig->snekbox,
			     &rig->host, &rig->mcp),
	    ERR_OK);
	assert_int_equal(
	    session_create(rig->state, SESSION_SSE, "client", rig->sid),
	    ERR_OK);
	assert_int_equal(
	    mcp_session_new(rig->mcp, rig->sid, "client", &rig->session),
	    ERR_OK);
	return rig;
}

static void
tick_over(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	(void)arg;
}

/* Turns the loop once, for 5 ms at most. */
static void
rig_turn(struct rig *rig)
{
	struct timeval tv = { 0, 5000 };

	event_base_once(rig->base, -1, EV_TIMEOUT, tick_over, NULL, &tv);
	event_base_loop(rig->base, EVLOOP_ONCE);
}

static UNUSED void
rig_run_ms(struct rig *rig, uint64_t ms)
{
	uint64_t until = clock_ms() + ms;

	while (clock_ms() < until)
		rig_turn(rig);
}

/* Turns the loop until the condition holds; fails after 20 s. */
#define RIG_UNTIL(rig, condition) \
	do { \
		uint64_t rig_last = clock_ms() + 20000; \
		while (!(condition)) { \
			if (clock_ms() > rig_last) \
				fail_msg("never: %s", #condition); \
			rig_turn(rig); \
		} \
	} while (0)

static void
rig_end_session(struct rig *rig)
{
	struct mcp_session *session = rig->session;

	rig->session = NULL;
	mcp_session_free(session);
}

static UNUSED unsigned
rig_leases(struct rig *rig)
{
	struct session_counts counts;

	session_count(rig->state, &counts);
	return counts.leases;
}

/* Ends everything; nothing may be left over but what holds says. */
static void
rig_close(struct rig *rig, unsigned leases_held)
{
	struct session_counts counts;
	void *place = rig->place;

	rig_end_session(rig);
	rig_release(rig);
	RIG_UNTIL(rig, rig->jobs == 0);
	assert_int_equal(mcp_calls(rig->mcp), 0);
	session_count(rig->state, &counts);
	assert_int_equal(counts.calls, 0);
	assert_int_equal(counts.waiters, 0);
	assert_int_equal(counts.leases, leases_held);
	assert_int_equal(state_check(rig->state), ERR_OK);
	mcp_close(rig->mcp);
	snekbox_close(rig->snekbox);
	state_close(rig->state);
	for (int i = 0; i < 2; i++)
		fake_close(&rig->fakes[i]);
	event_free(rig->piped);
	event_base_free(rig->base);
	close(rig->pipe[0]);
	close(rig->pipe[1]);
	folder_remove(rig->place->conf.artifact_dir);
	place_teardown(&place);
	free(rig);
}

/* ---- a client ------------------------------------------------------------ */

struct ear {
	struct sink sink;
	struct rig *rig;
	char *reply; /* owned */
	int replies, drops, n_notes;
	char *notes[64]; /* owned */
	bool end_on_reply, end_on_note;
};

static struct ear *
ear_of(struct sink *sink)
{
	return (struct ear *)((char *)sink - offsetof(struct ear, sink));
}

static void
ear_notify(struct sink *sink, const char *json, size_t len)
{
	struct ear *ear = ear_of(sink);

	assert_int_equal(ear->replies + ear->drops, 0);
	assert_int_equal(json_check(json, len, 20, NULL), ERR_OK);
	assert_null(memchr(json, '\n', len));
	assert_true(ear->n_notes < 64);
	ear->notes[ear->n_notes++] = strndup(json, len);
	if (ear->end_on_note)
		rig_end_session(ear->rig);
}

static void
ear_reply(struct sink *sink, const char *json, size_t len)
{
	struct ear *ear = ear_of(sink);

	assert_int_equal(ear->replies + ear->drops, 0);
	assert_int_equal(json_check(json, len, 20, NULL), ERR_OK);
	assert_null(memchr(json, '\n', len));
	ear->replies++;
	ear->reply = strndup(json, len);
	if (ear->end_on_reply)
		rig_end_session(ear->rig);
}

static void
ear_drop(struct sink *sink)
{
	struct ear *ear = ear_of(sink);

	assert_int_equal(ear->replies + ear->drops, 0);
	ear->drops++;
}

static const struct sink_ops ear_ops = { ear_notify, ear_reply, ear_drop };

static void
ear_done(struct ear *ear)
{
	free(ear->reply);
	for (int i = 0; i < ear->n_notes; i++)
		free(ear->notes[i]);
	*ear = (struct ear){ .rig = ear->rig };
}

/* Gives the core a message; the ear hears what comes of it. */
static void
tell_core(struct rig *rig, struct ear *ear, const char *text)
{
	struct rpc_message *message = NULL;
	struct rpc_fault fault;
	bool end_on_reply = ear->end_on_reply, end_on_note = ear->end_on_note;

	ear->rig = rig;
	ear_done(ear);
	ear->end_on_reply = end_on_reply;
	ear->end_on_note = end_on_note;
	ear->sink.ops = &ear_ops;
	if (rpc_parse(text, strlen(text), &rig->place->conf, &message,
		&fault) != ERR_OK)
		fail_msg("%s: %s", fault.text, text);
	mcp_handle(rig->session, message,
	    message->kind == RPC_REQUEST ? &ear->sink : NULL);
}

static void
initialize(struct rig *rig, const char *version)
{
	struct ear ear = { .rig = rig };
	char text[256];

	snprintf(text, sizeof(text),
	    "{\"jsonrpc\":\"2.0\",\"id\":0,"
	    "\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\","
	    "\"capabilities\":{},\"clientInfo\":{\"name\":\"t\","
	    "\"version\":\"1\"}}}",
	    version);
	tell_core(rig, &ear, text);
	assert_int_equal(ear.replies, 1);
	ear_done(&ear);
}

/* A tools/call of this raw id with raw arguments; meta is raw JSON or NULL. */
static UNUSED void
call_tool(struct rig *rig, struct ear *ear, const char *id,
    const char *arguments, const char *meta)
{
	char text[4096];

	snprintf(text, sizeof(text),
	    "{\"jsonrpc\":\"2.0\",\"id\":%s,"
	    "\"method\":\"tools/call\",\"params\":{\"name\":"
	    "\"execute_python_code\",\"arguments\":%s%s%s}}",
	    id, arguments, meta != NULL ? ",\"_meta\":" : "",
	    meta != NULL ? meta : "");
	tell_core(rig, ear, text);
}

#define CODE "{\"python_code\":\"print('hi')\"}"
#define TOKEN "{\"progressToken\":\"t-1\"}"

/* The reply, parsed; owned. */
static cJSON *
reply_json(const struct ear *ear)
{
	cJSON *json = NULL;

	assert_int_equal(ear->replies, 1);
	assert_int_equal(
	    json_parse(ear->reply, strlen(ear->reply), 20, &json, NULL),
	    ERR_OK);
	return json;
}

static UNUSED void
assert_error(const struct ear *ear, int code, const char *word)
{
	CLEANUP_JSON cJSON *json = reply_json(ear);
	const cJSON *error = json_get(json, "error");

	if (error == NULL)
		fail_msg("no error: %s", ear->reply);
	assert_null(json_get(json, "result"));
	assert_int_equal(json_get(error, "code")->valueint, code);
	if (strstr(json_get_string(error, "message"), word) == NULL)
		fail_msg("no %s in %s", word, ear->reply);
}

/* A result that ended so ("" for success), saying word. */
static UNUSED void
assert_ended(const struct ear *ear, const char *error_type, const char *word)
{
	CLEANUP_JSON cJSON *json = reply_json(ear);
	const cJSON *s =
	    json_get(json_get(json, "result"), "structuredContent");
	const char *type = json_get_string(s, "error_type");

	if (s == NULL)
		fail_msg("no result: %s", ear->reply);
	assert_string_equal(type != NULL ? type : "", error_type);
	if (strstr(ear->reply, word) == NULL)
		fail_msg("no %s in %s", word, ear->reply);
}

#endif
