#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/event.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "sandboxd/cgroup.h"
#include "sandboxd/channel.h"
#include "sandboxd/fonts.h"
#include "sandboxd/janitor.h"
#include "sandboxd/listen.h"
#include "sandboxd/plan.h"
#include "sandboxd/pool.h"
#include "sandboxd/serve.h"
#include "sandboxd/service.h"
#include "sandboxd/spawner.h"
#include "sandboxd/user.h"

#define BACKLOG 1024
#define PROBE_MS 30000

/* Everything that lives as long as the service, in the order of its birth. */
struct service {
	const struct conf *conf;
	unsigned slots;
	struct user user;
	struct listen listen;
	struct cgroup cgroup;
	struct janitor janitor;
	struct plan plan;
	struct spawner spawner;
	struct event_base *base;
	struct pool *pool;
	struct serve *serve;
	struct event *signals[2];
	struct event *spawner_end;
	bool failed; /* ended because it could not go on */
};

static unsigned
workers(const struct conf *conf)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (conf->sandboxd_workers > 0)
		return (unsigned)conf->sandboxd_workers;
	return cores > 0 ? (unsigned)cores : 1;
}

static void
raise_descriptors(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) != 0)
		return;
	rl.rlim_cur = rl.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &rl) != 0)
		log_warn(
		    "sandboxd.start", "RLIMIT_NOFILE: %s", strerror(errno));
}

/* ---- with the rights that we were started with ---- */

static enum err
open_privileged(struct service *sv, struct conf_fault *fault)
{
	/* the jail's own two processes count too */
	struct cgroup_limits limits = { sv->conf->jail_memory,
		sv->conf->jail_processes + 2 };
	enum err rc;

	if ((rc = user_find(&sv->user, sv->conf->sandboxd_user, fault)) !=
		ERR_OK ||
	    (rc = listen_open(&sv->listen, sv->conf->sandboxd_listen, BACKLOG,
		 sv->user.uid, sv->user.gid, fault)) != ERR_OK)
		return rc;
	cgroup_open(
	    &sv->cgroup, sv->slots, &limits, sv->user.uid, sv->user.gid);
	rc = janitor_open(&sv->janitor, &sv->listen, &sv->cgroup);
	if (rc == ERR_OK)
		rc = user_become(&sv->user);
	if (rc != ERR_OK)
		snprintf(fault->text, sizeof(fault->text),
		    "can't become %s: "
		    "%s",
		    sv->user.name, strerror(errno));
	return rc;
}

/* ---- as an ordinary user ---- */

/* Builds one jail and runs Python in it, so that a machine where that can't
 * work says so now and not to every caller. */
static enum err
probe(struct service *sv, struct conf_fault *fault)
{
	static const char body[] = "{\"input\": \"print(6 * 7)\"}";
	struct channel_job job = { CHANNEL_MAGIC, 0, sizeof(body) - 1 };
	struct channel_note note = { .text = "no answer" };
	CLEANUP_FD int control = -1, reply = -1;
	struct pollfd fd = { .events = POLLIN };
	char text[512] = "";

	if (spawner_spawn(&sv->spawner, 0, &control) != ERR_OK ||
	    channel_send(control, &job, sizeof(job), -1) != ERR_OK ||
	    channel_send(control, body, sizeof(body) - 1, -1) != ERR_OK)
		return ERR_SYS;
	fd.fd = control;
	while (note.kind != CHANNEL_REPLY) {
		if (poll(&fd, 1, PROBE_MS) != 1 ||
		    channel_receive(control, &note, sizeof(note), &reply) !=
			ERR_OK ||
		    note.kind == CHANNEL_FAILED) {
			note.text[CHANNEL_TEXT - 1] = '\0';
			spawner_explain(fault, note.text);
			return ERR_SYS;
		}
	}
	if (pread(reply, text, sizeof(text) - 1, 0) > 0 &&
	    strstr(text, "{\"stdout\": \"42\\n\", \"returncode\": 0,") != NULL)
		return ERR_OK;
	snprintf(fault->text, sizeof(fault->text),
	    "Python does not run in "
	    "the jail (see sandboxd_python and jail_paths): %.300s",
	    text);
	return ERR_SYS;
}

static enum err
open_jails(struct service *sv, struct conf_fault *fault)
{
	enum err rc;

	if ((rc = plan_make(&sv->plan, sv->conf, &sv->cgroup, fault)) !=
		ERR_OK ||
	    (rc = spawner_open(&sv->spawner, &sv->plan, fault)) != ERR_OK)
		return rc;
	return probe(sv, fault);
}

static void
on_signal(evutil_socket_t signal_number, short what, void *arg)
{
	struct service *sv = arg;

	(void)what;
	log_info("sandboxd.stop", "signal=%d", (int)signal_number);
	if (event_base_loopbreak(sv->base) != 0)
		_exit(0);
}

/* The spawner's socket only becomes readable when the spawner is gone. */
static void
on_spawner_end(evutil_socket_t socket, short what, void *arg)
{
	struct service *sv = arg;

	(void)socket;
	(void)what;
	log_error("sandboxd.stop", "the spawner died");
	sv->failed = true;
	if (event_base_loopbreak(sv->base) != 0)
		_exit(1);
}

static void
on_fonts(const struct pool_answer *answer, void *arg)
{
	struct service *sv = arg;

	if (answer->rc == ERR_OK)
		close(answer->fd);
	pool_renew(sv->pool);
	log_debug("sandboxd.fonts", "ready");
}

static enum err
make_fonts(struct service *sv)
{
	struct evbuffer *body = evbuffer_new();
	struct pool_job *job;
	enum err rc = ERR_NOMEM;

	if (body != NULL &&
	    evbuffer_add(body, FONTS_REQUEST, sizeof(FONTS_REQUEST) - 1) == 0)
		rc = pool_submit(
		    sv->pool, body, CHANNEL_FONTS, on_fonts, sv, &job);
	if (body != NULL)
		evbuffer_free(body);
	return rc;
}

static enum err
watch(struct service *sv)
{
	static const int numbers[] = { SIGTERM, SIGINT };

	for (int i = 0; i < 2; i++) {
		sv->signals[i] =
		    evsignal_new(sv->base, numbers[i], on_signal, sv);
		if (sv->signals[i] == NULL ||
		    event_add(sv->signals[i], NULL) != 0)
			return ERR_NOMEM;
	}
	sv->spawner_end = event_new(
	    sv->base, sv->spawner.socket, EV_READ, on_spawner_end, sv);
	if (sv->spawner_end == NULL || event_add(sv->spawner_end, NULL) != 0)
		return ERR_NOMEM;
	return ERR_OK;
}

static enum err
open_loop(struct service *sv, struct conf_fault *fault)
{
	enum err rc;

	snprintf(fault->text, sizeof(fault->text),
	    "the event loop could not "
	    "be made");
	if ((sv->base = event_base_new()) == NULL)
		return ERR_NOMEM;
	if ((rc = watch(sv)) != ERR_OK ||
	    (rc = pool_new(&sv->pool, sv->base, &sv->spawner, sv->slots,
		 (unsigned)sv->conf->sandboxd_queue)) != ERR_OK ||
	    (rc = serve_new(&sv->serve, sv->base, sv->conf, sv->pool,
		 sv->listen.fd)) != ERR_OK)
		return rc;
	sv->listen.fd = -1;
	return make_fonts(sv);
}

static void
tell_ready(const struct service *sv)
{
	static const char *const kinds[] = { "none", "v1", "v2" };

	if (!sv->cgroup.memory)
		log_warn("sandboxd.cgroup",
		    "no cgroup is delegated: the "
		    "memory of one program's processes is bounded each, not "
		    "in sum");
	log_info("sandboxd.ready",
	    "listen=%s workers=%u user=%s cgroup=%s "
	    "python=%s version=" VERSION,
	    sv->listen.name, sv->slots, sv->user.name, kinds[sv->cgroup.kind],
	    sv->plan.python);
}

/* Accepts everything that was built, and what was not. */
static void
close_all(struct service *sv)
{
	serve_free(sv->serve);
	pool_free(sv->pool);
	for (int i = 0; i < 2; i++) {
		if (sv->signals[i] != NULL)
			event_free(sv->signals[i]);
	}
	if (sv->spawner_end != NULL)
		event_free(sv->spawner_end);
	if (sv->base != NULL)
		event_base_free(sv->base);
	if (sv->listen.fd >= 0)
		close(sv->listen.fd);
	spawner_close(&sv->spawner);
	if (sv->janitor.pid <= 0)
		cgroup_close(&sv->cgroup);
	janitor_close(&sv->janitor);
	plan_done(&sv->plan);
}

enum err
service_run(const struct conf *conf, struct conf_fault *fault)
{
	struct service sv = { .conf = conf, .listen = { .fd = -1 } };
	enum err rc;

	signal(SIGPIPE, SIG_IGN);
	raise_descriptors();
	sv.slots = workers(conf);
	if ((rc = open_privileged(&sv, fault)) == ERR_OK &&
	    (rc = open_jails(&sv, fault)) == ERR_OK &&
	    (rc = open_loop(&sv, fault)) == ERR_OK) {
		tell_ready(&sv);
		if (event_base_dispatch(sv.base) < 0 || sv.failed) {
			snprintf(fault->text, sizeof(fault->text),
			    "the service can't go on");
			rc = ERR_INTERNAL;
		}
	}
	close_all(&sv);
	return rc;
}
