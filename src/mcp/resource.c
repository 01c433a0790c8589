#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/environment.h"
#include "mcp/identity.h"
#include "mcp/resource.h"

#define CODE_NOT_FOUND (-32002) /* until 2025-11-25, then CODE_PARAMS */
#define CODE_PARAMS (-32602)
#define URI_SHOWN 4096 /* bytes of a URI that are given back */
#define ANSWER_ROOM 8192

/* A resources/read under way: a worker has it, or it waits for the
 * environment. */
struct reading {
	TAILQ_ENTRY(reading) of_mcp, of_session;
	struct mcp *mcp;
	struct mcp_session *session; /* NULL once cut off; borrowed */
	struct rpc_message *message; /* owned */
	struct sink *sink;           /* owned; NULL once cut off */
	const char *uri;             /* inside message */
	char *base, *owner;          /* of the session, owned */
	enum revision revision;
	char id[ARTIFACT_ID_LEN + 1];
	bool waiting; /* for the environment */
	struct buf answer;
	enum err built;
};

/* ---- life ---------------------------------------------------------------- */

static void
reading_free(struct reading *reading)
{
	rpc_message_free(reading->message);
	buf_done(&reading->answer);
	free(reading->base);
	free(reading->owner);
	free(reading);
}

static void
reading_end(struct reading *reading)
{
	struct mcp *mcp = reading->mcp;

	TAILQ_REMOVE(&mcp->readings, reading, of_mcp);
	reading_free(reading);
	mcp_work_end(mcp);
}

static void
detach(struct reading *reading)
{
	TAILQ_REMOVE(&reading->session->readings, reading, of_session);
	reading->session->n_readings--;
	reading->session = NULL;
}

/* Takes what the request owns. NULL without memory. */
static struct reading *
reading_new(struct request *request, const char *uri)
{
	struct mcp_session *session = request->session;
	struct reading *reading = calloc(1, sizeof(*reading));

	if (reading == NULL)
		return NULL;
	reading->owner = strdup(session->owner);
	/* without it there is no address */
	reading->base = session->base != NULL ? strdup(session->base) : NULL;
	if (reading->owner == NULL) {
		reading_free(reading);
		return NULL;
	}
	reading->mcp = session->mcp;
	reading->session = session;
	reading->revision = session->revision;
	reading->uri = uri;
	buf_init(
	    &reading->answer, session->mcp->conf->result_max + ANSWER_ROOM);
	reading->message = STEAL_PTR(request->message);
	reading->sink = STEAL_PTR(request->sink);
	TAILQ_INSERT_TAIL(&session->mcp->readings, reading, of_mcp);
	TAILQ_INSERT_TAIL(&session->readings, reading, of_session);
	session->n_readings++;
	mcp_work_begin(session->mcp);
	return reading;
}

/* Sends the answer, if anybody is there. */
static void
deliver(void *arg)
{
	struct reading *reading = arg;
	struct sink *sink = STEAL_PTR(reading->sink);
	char poor[RPC_ID_MAX + 128];
	int n;

	if (reading->session != NULL) {
		detach(reading);
		n = snprintf(poor, sizeof(poor),
		    "{\"jsonrpc\":\"2.0\","
		    "\"id\":%s,\"error\":{\"code\":-32603,\"message\":\"%s\"}}",
		    reading->message->id, err_info(reading->built)->text);
		if (reading->built == ERR_OK)
			sink->ops->reply(
			    sink, reading->answer.data, reading->answer.len);
		else
			sink->ops->reply(sink, poor, (size_t)n);
	}
	reading_end(reading);
}

void
resource_cut(struct mcp_session *session)
{
	struct reading *reading;

	while ((reading = TAILQ_FIRST(&session->readings)) != NULL) {
		struct sink *sink = STEAL_PTR(reading->sink);
		bool waiting = reading->waiting;

		detach(reading);
		sink->ops->drop(sink);
		/* a worker that has it hands it to deliver() */
		if (waiting)
			reading_end(reading);
	}
}

/* ---- answers ------------------------------------------------------------- */

static int
not_found_code(enum revision revision)
{
	return revision >= REVISION_2026_07_28 ? CODE_PARAMS : CODE_NOT_FOUND;
}

/* Completes the result of a read as its revision wants it: what is read is the
 * reader's alone, and must not be kept longer than we do. */
static enum err
complete(struct buf *result, enum revision revision)
{
	enum err rc;

	if (revision < REVISION_2026_07_28)
		return ERR_OK;
	result->data[--result->len] = '\0';
	rc = buf_puts(result, ",\"ttlMs\":0,\"cacheScope\":\"private\"}");
	return rc != ERR_OK ? rc : identity_tail(result, 0, revision, false);
}

/* Appends an error answer that names the URI. */
static enum err
fail(struct buf *out, const char *id, const char *uri, int code,
    const char *text)
{
	CLEANUP_BUF struct buf data = { .max = 8 * URI_SHOWN };
	enum err rc;

	if (strlen(uri) > URI_SHOWN)
		return rpc_error(out, id, code, text, NULL);
	if ((rc = buf_puts(&data, "{\"uri\":")) != ERR_OK ||
	    (rc = json_quote(&data, uri, strlen(uri))) != ERR_OK ||
	    (rc = buf_puts(&data, "}")) != ERR_OK)
		return rc;
	return rpc_error(out, id, code, text, buf_str(&data));
}

static enum err
append_contents(struct buf *out, const char *uri, const char *type)
{
	enum err rc;

	if ((rc = buf_puts(out, "{\"contents\":[{\"uri\":")) != ERR_OK ||
	    (rc = json_quote(out, uri, strlen(uri))) != ERR_OK ||
	    (rc = buf_puts(out, ",\"mimeType\":")) != ERR_OK)
		return rc;
	return json_quote(out, type, strlen(type));
}

static bool
is_text(const char *type, const struct buf *data)
{
	static const char *const types[] = { "application/json",
		"application/xml", "application/yaml", "application/x-ndjson",
		"image/svg+xml" };
	bool text = strncmp(type, "text/", 5) == 0;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		text = text || strcmp(type, types[i]) == 0;
	return text && json_utf8(buf_str(data), data->len);
}

/* Appends the result with a file's content; ERR_LIMIT when it is too large for
 * one message. */
static enum err
append_file(struct buf *out, const char *uri, const struct artifact *artifact)
{
	CLEANUP_BUF struct buf data = { .max = out->max };
	enum err rc;

	if ((rc = artifact_read(artifact, &data)) != ERR_OK ||
	    (rc = append_contents(out, uri, artifact->type)) != ERR_OK)
		return rc;
	if (is_text(artifact->type, &data)) {
		if ((rc = buf_puts(out, ",\"text\":")) != ERR_OK ||
		    (rc = json_quote(out, buf_str(&data), data.len)) != ERR_OK)
			return rc;
		return buf_puts(out, "}]}");
	}
	if ((rc = buf_puts(out, ",\"blob\":\"")) != ERR_OK ||
	    (rc = base64_encode(out, buf_str(&data), data.len)) != ERR_OK)
		return rc;
	return buf_puts(out, "\"}]}");
}

static enum err
fail_limit(struct reading *reading, const struct artifact *artifact)
{
	CLEANUP_BUF struct buf text = { .max = ANSWER_ROOM };
	enum err rc;

	if ((rc = buf_printf(&text,
		 "The file has %llu bytes, more than fit into an answer "
		 "(setting result_max)",
		 (unsigned long long)artifact->len)) != ERR_OK)
		return rc;
	if (reading->base != NULL &&
	    ((rc = buf_printf(&text, "; fetch it from %s" ARTIFACT_PATH,
		  reading->base)) != ERR_OK ||
		(rc = artifact_ref(&text, reading->id, artifact->name)) !=
		    ERR_OK))
		return rc;
	return fail(&reading->answer, reading->message->id, reading->uri,
	    CODE_PARAMS, buf_str(&text));
}

static enum err
fail_missing(struct reading *reading, enum err why)
{
	const char *text = "Resource not found: it was never there, or its "
			   "time is over (setting artifact_time)";

	if (why != ERR_NOT_FOUND && why != ERR_EXPIRED)
		return why;
	if (why == ERR_EXPIRED)
		text = "Resource not found: its time is over (setting "
		       "artifact_time)";
	return fail(&reading->answer, reading->message->id, reading->uri,
	    not_found_code(reading->revision), text);
}

static enum err
build_file(struct reading *reading)
{
	CLEANUP_BUF struct buf result = { .max =
					      reading->mcp->conf->result_max };
	struct artifact artifact = { .fd = -1 };
	enum err rc =
	    artifact_get(reading->mcp->artifacts, reading->id, &artifact);

	/* what belongs to somebody else is not there */
	if (rc == ERR_OK && strcmp(artifact.owner, reading->owner) != 0)
		rc = ERR_NOT_FOUND;
	if (rc != ERR_OK) {
		artifact_done(&artifact);
		return fail_missing(reading, rc);
	}
	rc = append_file(&result, reading->uri, &artifact);
	if (rc == ERR_OK)
		rc = complete(&result, reading->revision);
	if (rc == ERR_OK)
		rc = rpc_result(
		    &reading->answer, reading->message->id, buf_str(&result));
	else if (rc == ERR_LIMIT)
		rc = fail_limit(reading, &artifact);
	artifact_done(&artifact);
	return rc;
}

/* In a worker. */
static void
read_work(void *arg)
{
	struct reading *reading = arg;

	reading->built = build_file(reading);
}

/* ---- the environment ----------------------------------------------------- */

static enum err
build_environment(struct reading *reading)
{
	size_t most = reading->mcp->conf->result_max;
	CLEANUP_BUF struct buf result = { .max = most };
	CLEANUP_BUF struct buf text = { .max = most };
	enum err rc;

	if ((rc = environment_json(reading->mcp->environment, &text)) !=
		ERR_OK ||
	    (rc = append_contents(&result, reading->uri, "application/json")) !=
		ERR_OK ||
	    (rc = buf_puts(&result, ",\"text\":")) != ERR_OK ||
	    (rc = json_quote(&result, buf_str(&text), text.len)) != ERR_OK ||
	    (rc = buf_puts(&result, "}]}")) != ERR_OK ||
	    (rc = complete(&result, reading->revision)) != ERR_OK)
		return rc;
	return rpc_result(
	    &reading->answer, reading->message->id, buf_str(&result));
}

static void
answer_environment(struct reading *reading)
{
	reading->built = build_environment(reading);
	deliver(reading);
}

void
resource_wake(struct mcp *mcp)
{
	struct reading *reading, *next;

	/* an answer may end a session, and other readings with it: so from
	 * the start again after each */
	do {
		next = NULL;
		TAILQ_FOREACH(reading, &mcp->readings, of_mcp)
		{
			if (reading->waiting && next == NULL)
				next = reading;
		}
		if (next != NULL) {
			next->waiting = false;
			answer_environment(next);
		}
	} while (next != NULL);
}

/* ---- the methods --------------------------------------------------------- */

static bool
refuse_cursor(struct request *request)
{
	const cJSON *cursor = json_get(request->message->params, "cursor");

	if (cursor == NULL || cJSON_IsNull(cursor))
		return false;
	request_error(request, ERR_RPC_PARAMS,
	    "Invalid params: unknown cursor, the list has one page");
	return true;
}

/* Sends a list, completed as the revision wants it. */
static void
send_list(struct request *request, const char *list)
{
	CLEANUP_BUF struct buf out = { .max = 4096 };
	enum revision revision = request->session->revision;
	enum err rc = buf_puts(&out, list);

	if (rc == ERR_OK)
		rc = identity_tail(&out, 0, revision, true);
	if (rc != ERR_OK)
		request_error(request, rc, "%s", err_info(rc)->text);
	else
		request_result(request, buf_str(&out));
}

void
resource_list(struct request *request)
{
	bool titled = request->session->revision >= REVISION_2025_06_18;
	char text[512];

	if (refuse_cursor(request))
		return;
	snprintf(text, sizeof(text),
	    "{\"resources\":[{\"uri\":\"" RESOURCE_ENVIRONMENT "\","
	    "\"name\":\"environment\",%s\"description\":\"What programs find "
	    "in the sandbox: Python's version, installed packages with "
	    "versions, limits, what is not possible.\","
	    "\"mimeType\":\"application/json\"}]}",
	    titled ? "\"title\":\"The sandbox\"," : "");
	send_list(request, text);
}

void
resource_templates(struct request *request)
{
	bool titled = request->session->revision >= REVISION_2025_06_18;
	char text[512];

	if (refuse_cursor(request))
		return;
	snprintf(text, sizeof(text),
	    "{\"resourceTemplates\":[{\"uriTemplate\":\"" ARTIFACT_URI
	    "{id}/{name}\",\"name\":\"file\",%s\"description\":\"A file or "
	    "figure that a program left behind, as the result of its call "
	    "names it; kept for a while.\"}]}",
	    titled ? "\"title\":\"File of a result\"," : "");
	send_list(request, text);
}

/* Answers a request with an error that names the URI. */
static void
refuse(struct request *request, const char *uri, int code, const char *text)
{
	CLEANUP_BUF struct buf out = { .max = 16 * URI_SHOWN };
	enum err rc = fail(&out, request->message->id, uri, code, text);

	request_raw(request, rc, &out);
}

static void
read_environment(struct request *request, const char *uri)
{
	struct mcp *mcp = request->session->mcp;
	struct reading *reading = reading_new(request, uri);

	if (reading == NULL) {
		request_error(request, ERR_NOMEM, "out of memory");
		return;
	}
	environment_need(mcp->environment);
	if (environment_pending(mcp->environment))
		reading->waiting = true;
	else
		answer_environment(reading);
}

static void
read_file(struct request *request, const char *uri, const char *id)
{
	struct mcp *mcp = request->session->mcp;
	struct reading *reading = reading_new(request, uri);

	if (reading == NULL) {
		request_error(request, ERR_NOMEM, "out of memory");
		return;
	}
	memcpy(reading->id, id, sizeof(reading->id));
	mcp->host->offload(mcp->host, read_work, deliver, reading);
}

void
resource_read(struct request *request)
{
	const struct mcp_session *session = request->session;
	const char *uri = json_get_string(request->message->params, "uri");
	char id[ARTIFACT_ID_LEN + 1];

	if (uri == NULL)
		request_error(request, ERR_RPC_PARAMS,
		    "Invalid params: uri must be a string");
	else if (session->n_readings >= session->mcp->conf->session_calls_max)
		request_error(request, ERR_BUSY,
		    "too many reads of this session are under way (setting "
		    "session_calls_max)");
	else if (strcmp(uri, RESOURCE_ENVIRONMENT) == 0)
		read_environment(request, uri);
	else if (artifact_uri_parse(uri, id) == ERR_OK)
		read_file(request, uri, id);
	else
		refuse(request, uri, not_found_code(session->revision),
		    "Resource not found: there is " RESOURCE_ENVIRONMENT
		    ", and what results name");
}
