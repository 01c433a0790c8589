#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "mcp/core.h"
#include "mcp/environment.h"
#include "mcp/execute.h"
#include "mcp/identity.h"
#include "mcp/method.h"
#include "mcp/resource.h"
#include "mcp/tool.h"
#include "state/limit.h"
#include "state/metrics.h"

#define FIRST_SWEEP_MS 2000
#define TOOLS_MAX_BYTES 65536
#define ANSWER_MAX_BYTES (TOOLS_MAX_BYTES + 1024)

/* ---- the core ----------------------------------------------------------- */

static enum err
list_tools(struct mcp *mcp)
{
	struct buf out;
	enum err rc;

	for (unsigned i = REVISION_NONE + 1; i < REVISION_COUNT; i++) {
		buf_init(&out, TOOLS_MAX_BYTES);
		rc = tool_list(&out, mcp->conf, (enum revision)i);
		if (rc == ERR_OK)
			rc = identity_tail(&out, 0, (enum revision)i, true);
		if (rc == ERR_OK &&
		    (mcp->tools[i] = buf_steal(&out, NULL)) == NULL)
			rc = ERR_NOMEM;
		buf_done(&out);
		if (rc != ERR_OK)
			return rc;
	}
	return ERR_OK;
}

static enum err
tell_endpoints(struct mcp *mcp)
{
	unsigned n = snekbox_endpoints(mcp->snekbox);
	bool stops[LIMIT_ENDPOINTS_MAX];

	if (n > LIMIT_ENDPOINTS_MAX)
		return ERR_CONF;
	for (unsigned i = 0; i < n; i++)
		stops[i] = snekbox_stops(mcp->snekbox, i);
	return limit_endpoints(
	    mcp->state, n, (unsigned)mcp->conf->sandbox_workers, stops);
}

static enum err
open_artifacts(struct mcp *mcp)
{
	const char *why;
	enum err rc = artifacts_open(mcp->conf, &mcp->artifacts, &why);

	if (rc == ERR_OK && why != NULL)
		log_warn("artifact.none", "reason=\"%s\"", why);
	return rc;
}

enum err
mcp_open(const struct conf *conf, struct state *state, struct snekbox *snekbox,
    struct mcp_host *host, struct mcp **ret_mcp)
{
	struct mcp *mcp = calloc(1, sizeof(*mcp));
	enum err rc;

	if (mcp == NULL)
		return ERR_NOMEM;
	mcp->conf = conf;
	mcp->state = state;
	mcp->snekbox = snekbox;
	mcp->host = host;
	mcp->sweep_due = clock_ms() + FIRST_SWEEP_MS;
	TAILQ_INIT(&mcp->calls);
	TAILQ_INIT(&mcp->readings);
	if ((rc = open_artifacts(mcp)) != ERR_OK ||
	    (rc = environment_open(mcp, &mcp->environment)) != ERR_OK ||
	    (rc = list_tools(mcp)) != ERR_OK ||
	    (rc = tell_endpoints(mcp)) != ERR_OK) {
		mcp_close(mcp);
		return rc;
	}
	*ret_mcp = mcp;
	return ERR_OK;
}

void
mcp_close(struct mcp *mcp)
{
	if (mcp == NULL)
		return;
	environment_close(mcp->environment);
	for (unsigned i = 0; i < REVISION_COUNT; i++)
		free(mcp->tools[i]);
	artifacts_close(mcp->artifacts);
	free(mcp);
}

struct artifacts *
mcp_artifacts(const struct mcp *mcp)
{
	return mcp->artifacts;
}

static void
sweep_work(void *arg)
{
	struct mcp *mcp = arg;

	artifacts_sweep(mcp->artifacts);
}

static void
swept(void *arg)
{
	struct mcp *mcp = arg;

	mcp->sweep_due = clock_ms() + artifacts_sweep_ms(mcp->artifacts);
}

void
mcp_tick(struct mcp *mcp)
{
	environment_tick(mcp->environment);
	if (mcp->sweep_due == 0 || clock_ms() < mcp->sweep_due)
		return;
	mcp->sweep_due = 0;
	mcp->host->offload(mcp->host, sweep_work, swept, mcp);
}

unsigned
mcp_calls(const struct mcp *mcp)
{
	return mcp->n_calls;
}

void
mcp_work_begin(struct mcp *mcp)
{
	mcp->n_calls++;
}

void
mcp_work_end(struct mcp *mcp)
{
	mcp->n_calls--;
	if (mcp->n_calls == 0 && mcp->host->idle != NULL)
		mcp->host->idle(mcp->host);
}

void
mcp_ring(struct mcp *mcp)
{
	execute_ring(mcp);
}

void
mcp_drain(struct mcp *mcp)
{
	mcp->draining = true;
	environment_drain(mcp->environment);
}

/* ---- sessions ----------------------------------------------------------- */

enum err
mcp_session_new(struct mcp *mcp, const char *id, const char *client,
    struct mcp_session **ret_session)
{
	struct mcp_session *session = calloc(1, sizeof(*session));
	struct session_info info;

	if (session == NULL)
		return ERR_NOMEM;
	session->mcp = mcp;
	TAILQ_INIT(&session->calls);
	TAILQ_INIT(&session->readings);
	session->id = strdup(id);
	session->client = strdup(client);
	session->owner = strdup("");
	if (session->id == NULL || session->client == NULL ||
	    session->owner == NULL) {
		mcp_session_free(session);
		return ERR_NOMEM;
	}
	if (mcp->conf->public_url[0] != '\0')
		mcp_session_prefix(session, "");
	/* a session that another process, or an earlier request, has
	 * initialized */
	if (session_find(mcp->state, id, &info) == ERR_OK &&
	    info.revision < REVISION_COUNT)
		session->revision = (enum revision)info.revision;
	*ret_session = session;
	return ERR_OK;
}

void
mcp_session_prefix(struct mcp_session *session, const char *prefix)
{
	const char *public = session->mcp->conf->public_url;
	size_t n = strlen(public);

	free(session->base);
	while (n > 0 && public[n - 1] == '/')
		n--;
	session->base = n > 0 ? strndup(public, n) : strdup(prefix);
}

void
mcp_session_free(struct mcp_session *session)
{
	if (session == NULL)
		return;
	execute_cancel_all(session);
	resource_cut(session);
	free(session->base);
	free(session->owner);
	free(session->id);
	free(session->client);
	free(session);
}

void
mcp_session_stateless(struct mcp_session *session)
{
	session->revision = REVISION_2026_07_28;
}

enum revision
mcp_session_revision(const struct mcp_session *session)
{
	return session->revision;
}

bool
mcp_cancel(struct mcp *mcp, const char *session_id, const char *raw_id)
{
	return execute_cancel_of(mcp, session_id, raw_id);
}

bool
mcp_session_busy(const struct mcp_session *session)
{
	return session->n_calls > 0;
}

void
mcp_handle(
    struct mcp_session *session, struct rpc_message *message, struct sink *sink)
{
	struct request request = { session, message, sink };
	struct state *state = session->mcp->state;

	metric_add(state, METRIC_messages, 1);
	if (session_touch(state, session->id, session->revision) != ERR_OK) {
		/* a peer without a slot (standard input) */
	}
	if (message->kind == RPC_REQUEST) {
		method_request(&request);
		return;
	}
	/* answers are passed over: we ask nothing */
	if (message->kind == RPC_NOTIFICATION)
		method_notification(session, message);
	rpc_message_free(message);
}

/* ---- answers ------------------------------------------------------------ */

static void
send_answer(struct request *request, enum err built, const struct buf *out)
{
	struct rpc_message *message = request->message;
	struct sink *sink = request->sink;
	char poor[RPC_ID_MAX + 128];
	int n;

	request->message = NULL;
	request->sink = NULL;
	if (built == ERR_OK) {
		sink->ops->reply(sink, out->data, out->len);
	} else {
		n = snprintf(poor, sizeof(poor),
		    "{\"jsonrpc\":\"2.0\","
		    "\"id\":%s,\"error\":{\"code\":-32603,"
		    "\"message\":\"out of memory\"}}",
		    message->id);
		sink->ops->reply(sink, poor, (size_t)n);
	}
	rpc_message_free(message);
}

void
request_raw(struct request *request, enum err built, const struct buf *message)
{
	send_answer(request, built, message);
}

void
request_result(struct request *request, const char *result)
{
	CLEANUP_BUF struct buf out = { .max = ANSWER_MAX_BYTES };
	enum err rc;

	rc = rpc_result(&out, request->message->id, result);
	send_answer(request, rc, &out);
}

void
request_error(struct request *request, enum err err, const char *fmt, ...)
{
	CLEANUP_BUF struct buf out = { .max = ANSWER_MAX_BYTES };
	char text[512];
	va_list ap;
	enum err rc;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rc = rpc_error(
	    &out, request->message->id, err_info(err)->rpc_code, text, NULL);
	send_answer(request, rc, &out);
}
