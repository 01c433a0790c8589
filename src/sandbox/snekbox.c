/*
 * How libcurl sits in the loop: it tells us by two callbacks which sockets to
 * watch and when to call again; we tell it by curl_multi_socket_action what
 * happened. Inside its callbacks nothing of libcurl may be called, so what
 * they learn is only noted, and told to our caller afterwards by deliver().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/un.h>

#include <curl/curl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/snekbox.h"

#define ENDPOINTS_MAX 16
/* below the size from which malloc maps and unmaps memory each time */
#define BUFFER_BYTES (96L * 1024)

struct endpoint {
	char *url;    /* owned */
	char *socket; /* path of a Unix socket, owned, or NULL */
	char *name;   /* for people, owned */
};

TAILQ_HEAD(run_list, snekbox_run);

struct snekbox {
	const struct conf *conf; /* borrowed */
	struct event_base *base; /* borrowed */
	struct endpoint endpoints[ENDPOINTS_MAX];
	unsigned n_endpoints;
	CURLM *multi;               /* owned */
	struct event *timer;        /* owned; libcurl's one timer */
	struct curl_slist *headers; /* owned; the same for all requests */
	struct run_list runs;
};

struct snekbox_run {
	TAILQ_ENTRY(snekbox_run) entry;
	struct snekbox *snekbox;
	const struct snekbox_callbacks *callbacks; /* borrowed */
	void *arg;
	CURL *easy;       /* owned; set up before the run is in
					 * the list, never changed */
	struct buf body;  /* what is sent */
	struct buf reply; /* what came */
	uint64_t begun_ms;
	bool sent; /* connected; from here on it may have run */
	bool told; /* started() was called */
	bool too_large;
	bool headed; /* the answer's header came to its end */
	char text[CURL_ERROR_SIZE];
};

/* ---- endpoints ---------------------------------------------------------- */

static enum err
fault(struct conf_fault *f, enum err err, const char *text, const char *item)
{
	if (f != NULL)
		snprintf(f->text, sizeof(f->text), "%s%s", text, item);
	return err;
}

static enum err
parse_unix(struct endpoint *e, const char *path, struct conf_fault *f)
{
	struct sockaddr_un address;

	while (path[0] == '/' && path[1] == '/')
		path++;
	if (*path != '/' || strlen(path) >= sizeof(address.sun_path))
		return fault(f, ERR_CONF,
		    "snekbox_url: unix: needs an "
		    "absolute path of at most 107 bytes, not ",
		    path);
	e->socket = strdup(path);
	e->url = strdup("http://localhost/eval");
	if (e->socket == NULL || e->url == NULL ||
	    asprintf(&e->name, "unix:%s", path) < 0)
		return ERR_NOMEM;
	return ERR_OK;
}

/* One part of a URL, owned, or NULL. libcurl's own strings need its own
 * free. */
static char *
url_part(CURLU *url, CURLUPart part, unsigned flags)
{
	char *text = NULL, *copy = NULL;

	if (curl_url_get(url, part, &text, flags) == CURLUE_OK)
		copy = strdup(text);
	curl_free(text);
	return copy;
}

static enum err
parse_http(
    struct endpoint *e, CURLU *url, const char *item, struct conf_fault *f)
{
	CLEANUP_FREE char *scheme = NULL, *path = NULL;

	if (curl_url_set(url, CURLUPART_URL, item, 0) != CURLUE_OK ||
	    (scheme = url_part(url, CURLUPART_SCHEME, 0)) == NULL ||
	    (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
		return fault(f, ERR_CONF,
		    "snekbox_url: neither http://host:"
		    "port/eval nor unix:/path: ",
		    item);
	path = url_part(url, CURLUPART_PATH, 0);
	if ((path == NULL || strcmp(path, "/") == 0) &&
	    curl_url_set(url, CURLUPART_PATH, "/eval", 0) != CURLUE_OK)
		return ERR_NOMEM;
	e->url = url_part(url, CURLUPART_URL, 0);
	/* names are shown to clients: without user and password */
	if (curl_url_set(url, CURLUPART_USER, NULL, 0) != CURLUE_OK ||
	    curl_url_set(url, CURLUPART_PASSWORD, NULL, 0) != CURLUE_OK)
		return ERR_NOMEM;
	e->name = url_part(url, CURLUPART_URL, 0);
	return e->url != NULL && e->name != NULL ? ERR_OK : ERR_NOMEM;
}

struct parse {
	struct snekbox *snekbox;
	struct conf_fault *fault;
};

static enum err
parse_endpoint(const char *item, void *arg)
{
	struct parse *parse = arg;
	struct snekbox *s = parse->snekbox;
	struct endpoint *e;
	enum err rc = ERR_NOMEM;
	CURLU *url;

	if (s->n_endpoints == ENDPOINTS_MAX)
		return fault(parse->fault, ERR_CONF,
		    "snekbox_url: more than 16 addresses, from ", item);
	e = &s->endpoints[s->n_endpoints++];
	if (strncmp(item, "unix:", 5) == 0)
		return parse_unix(e, item + 5, parse->fault);
	if ((url = curl_url()) != NULL)
		rc = parse_http(e, url, item, parse->fault);
	curl_url_cleanup(url);
	return rc;
}

static enum err
parse_endpoints(struct snekbox *s, struct conf_fault *f)
{
	struct parse parse = { s, f };
	enum err rc = conf_each(s->conf->snekbox_url, parse_endpoint, &parse);

	if (rc == ERR_OK && s->n_endpoints == 0)
		return fault(f, ERR_CONF,
		    "snekbox_url is empty: set it to "
		    "the sandbox's address, http://host:8060/eval or unix:"
		    "/path/of/sandboxd.sock",
		    "");
	return rc;
}

const char *
snekbox_version(void)
{
	return curl_version_info(CURLVERSION_NOW)->version;
}

unsigned
snekbox_endpoints(const struct snekbox *snekbox)
{
	return snekbox->n_endpoints;
}

const char *
snekbox_name(const struct snekbox *snekbox, unsigned endpoint)
{
	return endpoint < snekbox->n_endpoints
	    ? snekbox->endpoints[endpoint].name
	    : "";
}

bool
snekbox_stops(const struct snekbox *snekbox, unsigned endpoint)
{
	return endpoint < snekbox->n_endpoints &&
	    snekbox->endpoints[endpoint].socket != NULL;
}

/* ---- the end of a run --------------------------------------------------- */

static void
run_free(struct snekbox_run *run)
{
	if (run == NULL)
		return;
	curl_easy_cleanup(run->easy);
	buf_done(&run->body);
	buf_done(&run->reply);
	free(run);
}

static void
run_unlink(struct snekbox_run *run)
{
	TAILQ_REMOVE(&run->snekbox->runs, run, entry);
	curl_multi_remove_handle(run->snekbox->multi, run->easy);
}

void
snekbox_cancel(struct snekbox_run *run)
{
	run_unlink(run);
	run_free(run);
}

void
snekbox_take_body(struct snekbox_run *run, struct buf *ret_body)
{
	*ret_body = run->body;
	buf_init(&run->body, ret_body->max);
}

/* What a failure of libcurl means to us. Before the connection stood nothing
 * was sent, so nothing ran: the one case in which another endpoint may be
 * tried. */
static enum err
transport_err(const struct snekbox_run *run, CURLcode code)
{
	/* libcurl takes a header that breaks off for a whole answer */
	if (code == CURLE_OK)
		return run->headed ? ERR_OK : ERR_CLOSED;
	if (!run->sent)
		return ERR_NOT_FOUND;
	if (run->too_large || code == CURLE_FILESIZE_EXCEEDED)
		return ERR_LIMIT;
	return code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_CLOSED;
}

/* libcurl's words, but where they mislead: of a Unix socket it says that
 * "localhost port 80" was not reached. */
static const char *
transport_text(struct snekbox_run *run, CURLcode code)
{
	const char *text = NULL;
	long number = 0;

	if (code == CURLE_OK && !run->headed)
		return "the answer ended within its header";
	if (code == CURLE_COULDNT_CONNECT &&
	    curl_easy_getinfo(run->easy, CURLINFO_OS_ERRNO, &number) ==
		CURLE_OK &&
	    number != 0)
		text = strerrordesc_np((int)number);
	if (text != NULL)
		return text;
	return run->text[0] != '\0' ? run->text : curl_easy_strerror(code);
}

static void
finish(struct snekbox_run *run, CURLcode code)
{
	struct sandbox_reply reply = {
		.transport = transport_err(run, code),
		.transport_text = transport_text(run, code),
		.duration_ms = clock_ms() - run->begun_ms,
	};
	char *type = NULL;

	curl_easy_getinfo(
	    run->easy, CURLINFO_RESPONSE_CODE, &reply.http_status);
	if (curl_easy_getinfo(run->easy, CURLINFO_CONTENT_TYPE, &type) ==
	    CURLE_OK)
		reply.content_type = type;
	reply.body = buf_str(&run->reply);
	reply.body_len = run->reply.len;
	run_unlink(run);
	run->callbacks->done(run->arg, &reply, &run->reply);
	run_free(run);
}

static struct snekbox_run *
find_untold(struct snekbox *s)
{
	struct snekbox_run *run;

	TAILQ_FOREACH(run, &s->runs, entry)
	{
		if (run->sent && !run->told)
			return run;
	}
	return NULL;
}

/* Tells what happened. A callback may submit and cancel runs, so nothing is
 * kept from one round to the next. libcurl does not work meanwhile: no run is
 * done before it was told to have started. */
static void
deliver(struct snekbox *s)
{
	struct snekbox_run *run;
	CURLMsg *message;
	int left;

	while ((run = find_untold(s)) != NULL) {
		run->told = true;
		if (run->callbacks->started != NULL)
			run->callbacks->started(run->arg);
	}
	while ((message = curl_multi_info_read(s->multi, &left)) != NULL) {
		CURLcode code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		run = NULL;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &run);
		if (run != NULL)
			finish(run, code);
	}
}

/* ---- the loop ----------------------------------------------------------- */

static void
action(struct snekbox *s, curl_socket_t fd, int what)
{
	int running;

	curl_multi_socket_action(s->multi, fd, what, &running);
	deliver(s);
}

static void
on_socket(evutil_socket_t fd, short events, void *arg)
{
	int what = 0;

	if (events & EV_READ)
		what |= CURL_CSELECT_IN;
	if (events & EV_WRITE)
		what |= CURL_CSELECT_OUT;
	action(arg, fd, what);
}

static void
on_timer(evutil_socket_t fd, short events, void *arg)
{
	(void)fd;
	(void)events;
	action(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int
watch_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct snekbox *s = arg;
	struct timeval tv = { timeout_ms / 1000, timeout_ms % 1000 * 1000 };

	(void)multi;
	if (timeout_ms < 0)
		return event_del(s->timer);
	return event_add(s->timer, &tv);
}

/* libcurl's word: watch fd for what. The event is kept with the socket. */
static int
watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *watch)
{
	struct snekbox *s = arg;
	struct event *event = watch;
	short events = EV_PERSIST;

	(void)easy;
	if (event != NULL)
		event_free(event);
	curl_multi_assign(s->multi, fd, NULL);
	if (what == CURL_POLL_REMOVE)
		return 0;
	if (what & CURL_POLL_IN)
		events |= EV_READ;
	if (what & CURL_POLL_OUT)
		events |= EV_WRITE;
	event = event_new(s->base, fd, events, on_socket, s);
	if (event == NULL || event_add(event, NULL) != 0) {
		if (event != NULL)
			event_free(event);
		return -1;
	}
	curl_multi_assign(s->multi, fd, event);
	return 0;
}

static enum err
open_multi(struct snekbox *s)
{
	struct curl_slist *more;

	/* an empty Expect: no wait for 100-continue, which costs a second on a
	 * peer that does not know it */
	static const char *const headers[] = { "Content-Type: application/json",
		"Accept: application/json", "Expect:" };

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return ERR_INTERNAL;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		if ((more = curl_slist_append(s->headers, headers[i])) == NULL)
			return ERR_NOMEM;
		s->headers = more;
	}
	s->timer = evtimer_new(s->base, on_timer, s);
	if (s->timer == NULL || (s->multi = curl_multi_init()) == NULL)
		return ERR_NOMEM;
	curl_multi_setopt(s->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(s->multi, CURLMOPT_SOCKETDATA, s);
	curl_multi_setopt(s->multi, CURLMOPT_TIMERFUNCTION, watch_timer);
	curl_multi_setopt(s->multi, CURLMOPT_TIMERDATA, s);
	return ERR_OK;
}

enum err
snekbox_open(const struct conf *conf, struct event_base *base,
    struct conf_fault *ret_fault, struct snekbox **ret_snekbox)
{
	struct snekbox *s = calloc(1, sizeof(*s));
	enum err rc;

	if (s == NULL)
		return fault(ret_fault, ERR_NOMEM, "out of memory", "");
	s->conf = conf;
	s->base = base;
	TAILQ_INIT(&s->runs);
	if (ret_fault != NULL)
		snprintf(ret_fault->text, sizeof(ret_fault->text),
		    "the sandbox client could not be set up");
	if ((rc = open_multi(s)) != ERR_OK ||
	    (rc = parse_endpoints(s, ret_fault)) != ERR_OK) {
		snekbox_close(s);
		return rc;
	}
	*ret_snekbox = s;
	return ERR_OK;
}

void
snekbox_close(struct snekbox *snekbox)
{
	struct snekbox_run *run;

	if (snekbox == NULL)
		return;
	while ((run = TAILQ_FIRST(&snekbox->runs)) != NULL)
		snekbox_cancel(run);
	if (snekbox->multi != NULL)
		curl_multi_cleanup(snekbox->multi);
	if (snekbox->timer != NULL)
		event_free(snekbox->timer);
	curl_slist_free_all(snekbox->headers);
	for (unsigned i = 0; i < snekbox->n_endpoints; i++) {
		free(snekbox->endpoints[i].url);
		free(snekbox->endpoints[i].socket);
		free(snekbox->endpoints[i].name);
	}
	free(snekbox);
}

/* ---- one request -------------------------------------------------------- */

/* The connection stands and the request is about to be written. */
static int
on_connected(void *arg, char *ip, char *local_ip, int port, int local_port)
{
	struct snekbox_run *run = arg;

	(void)ip;
	(void)local_ip;
	(void)port;
	(void)local_port;
	run->sent = true;
	run->begun_ms = clock_ms();
	return CURL_PREREQFUNC_OK;
}

static size_t
on_header(char *line, size_t size, size_t n, void *arg)
{
	struct snekbox_run *run = arg;

	/* 100-continue has a header of its own; trailers have none */
	if (size * n >= 5 && memcmp(line, "HTTP/", 5) == 0)
		run->headed = false;
	else if (size * n <= 2 && (*line == '\r' || *line == '\n'))
		run->headed = true;
	return size * n;
}

static size_t
on_data(char *data, size_t size, size_t n, void *arg)
{
	struct snekbox_run *run = arg;
	enum err rc = buf_append(&run->reply, data, size * n);

	if (rc == ERR_OK)
		return size * n;
	run->too_large = rc == ERR_LIMIT;
	return size * n == 0 ? 1 : 0;
}

#define SET(option, value) \
	(ok = ok && curl_easy_setopt(run->easy, (option), (value)) == CURLE_OK)

/* A POST that libcurl finds broken on a kept connection is silently sent
 * again, and the program would run twice: so each has its own connection
 * (Snekbox closes them anyway). Nothing in the environment may lead programs
 * elsewhere: no proxy, no redirect. */
static enum err
set_connection(struct snekbox_run *run, const struct endpoint *e)
{
	const struct conf *conf = run->snekbox->conf;
	bool ok = true;

	SET(CURLOPT_URL, e->url);
	if (e->socket != NULL)
		SET(CURLOPT_UNIX_SOCKET_PATH, e->socket);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_FRESH_CONNECT, 1L);
	SET(CURLOPT_FORBID_REUSE, 1L);
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_NOSIGNAL, 1L);
	/* else the end of a request waits for a slow name look-up */
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)conf->sandbox_connect_timeout);
	return ok ? ERR_OK : ERR_NOMEM;
}

static enum err
set_request(struct snekbox_run *run, uint64_t timeout_ms)
{
	const struct conf *conf = run->snekbox->conf;
	bool ok = true;

	SET(CURLOPT_HTTPHEADER, run->snekbox->headers);
	SET(CURLOPT_USERAGENT, "python-sandbox-mcp");
	SET(CURLOPT_POST, 1L);
	SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)run->body.len);
	SET(CURLOPT_POSTFIELDS, buf_str(&run->body));
	SET(CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)conf->sandbox_reply_max);
	SET(CURLOPT_BUFFERSIZE, BUFFER_BYTES);
	SET(CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
	SET(CURLOPT_ERRORBUFFER, run->text);
	SET(CURLOPT_PRIVATE, run);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, run);
	SET(CURLOPT_WRITEFUNCTION, on_data);
	SET(CURLOPT_WRITEDATA, run);
	SET(CURLOPT_PREREQFUNCTION, on_connected);
	SET(CURLOPT_PREREQDATA, run);
	return ok ? ERR_OK : ERR_NOMEM;
}

enum err
snekbox_submit(struct snekbox *snekbox, unsigned endpoint, struct buf *body,
    uint64_t timeout_ms, const struct snekbox_callbacks *callbacks, void *arg,
    struct snekbox_run **ret_run)
{
	struct snekbox_run *run = calloc(1, sizeof(*run));
	enum err rc = ERR_NOMEM;

	if (run == NULL || endpoint >= snekbox->n_endpoints) {
		buf_done(body);
		free(run);
		return run == NULL ? ERR_NOMEM : ERR_NOT_FOUND;
	}
	run->snekbox = snekbox;
	run->callbacks = callbacks;
	run->arg = arg;
	run->begun_ms = clock_ms();
	run->body = *body;
	buf_init(body, body->max);
	buf_init(&run->reply, snekbox->conf->sandbox_reply_max);
	if ((run->easy = curl_easy_init()) == NULL ||
	    (rc = set_connection(run, &snekbox->endpoints[endpoint])) !=
		ERR_OK ||
	    (rc = set_request(run, timeout_ms)) != ERR_OK)
		goto fail;
	rc = ERR_NOMEM;
	/* this only arms the timer: nothing is called back before we return */
	if (curl_multi_add_handle(snekbox->multi, run->easy) != CURLM_OK)
		goto fail;
	TAILQ_INSERT_TAIL(&snekbox->runs, run, entry);
	*ret_run = run;
	return ERR_OK;
fail:
	run_free(run);
	return rc;
}
