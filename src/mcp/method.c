#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/environment.h"
#include "mcp/execute.h"
#include "mcp/identity.h"
#include "mcp/method.h"
#include "mcp/resource.h"
#include "mcp/tool.h"

#define NAME_SHOWN 64 /* bytes of a foreign name that are quoted back */

struct method {
	const char *name;
	enum revision since, until; /* the revisions that know it */
	bool early;                 /* also before initialize */
	void (*handle)(struct request *request);
};

struct notification {
	const char *name;
	void (*handle)(
	    struct mcp_session *session, const struct rpc_message *message);
};

/* How much of a foreign name is quoted: whole characters only, the answer
 * must stay UTF-8. */
static int
shown(const char *name)
{
	size_t n = strlen(name);

	if (n > NAME_SHOWN) {
		n = NAME_SHOWN;
		while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
			n--;
	}
	return (int)n;
}

/* ---- requests ----------------------------------------------------------- */

/* What is known of the sandbox, as the end of the instructions; the first who
 * comes makes it known to those after him. */
static enum err
append_facts(struct request *request, struct buf *out)
{
	struct environment *environment = request->session->mcp->environment;

	environment_need(environment);
	return environment_brief(environment, out);
}

/* An unknown version, also one newer than us, gets our newest: the client
 * decides whether it can live with that. */
static void
handle_initialize(struct request *request)
{
	struct mcp_session *session = request->session;
	CLEANUP_BUF struct buf out = { .max = 8192 };
	CLEANUP_BUF struct buf facts = { .max = 4096 };
	const char *version;
	enum revision revision;
	enum err rc;

	version = json_get_string(request->message->params, "protocolVersion");
	if (session->revision != REVISION_NONE) {
		request_error(request, ERR_RPC_REQUEST,
		    "Invalid Request: the session is initialized already");
		return;
	}
	if (version == NULL) {
		request_error(request, ERR_RPC_PARAMS,
		    "Invalid params: "
		    "protocolVersion must be a string such as \"%s\"",
		    revision_name(REVISION_NEWEST));
		return;
	}
	if (revision_parse(version, &revision) != ERR_OK ||
	    revision > REVISION_NEWEST)
		revision = REVISION_NEWEST;
	if ((rc = append_facts(request, &facts)) != ERR_OK ||
	    (rc = identity_initialized(&out, revision, buf_str(&facts))) !=
		ERR_OK) {
		request_error(request, rc, "%s", err_info(rc)->text);
		return;
	}
	session->revision = revision;
	if (session_touch(session->mcp->state, session->id, revision) !=
	    ERR_OK) {
		/* a peer without a slot (standard input): nobody else looks
		 * its revision up */
	}
	request_result(request, buf_str(&out));
}

static void
handle_ping(struct request *request)
{
	request_result(request, "{}");
}

/* There is one page, so every cursor is an invalid one. */
static void
handle_tools_list(struct request *request)
{
	const cJSON *cursor = json_get(request->message->params, "cursor");
	struct mcp_session *session = request->session;

	if (cursor != NULL && !cJSON_IsNull(cursor))
		request_error(request, ERR_RPC_PARAMS,
		    "Invalid params: unknown cursor, the list has one page");
	else
		request_result(request, session->mcp->tools[session->revision]);
}

static void
handle_tools_call(struct request *request)
{
	static const char *const path[] = { "params", "name", NULL };
	const struct rpc_message *m = request->message;
	const cJSON *arguments = json_get(m->params, "arguments");
	const char *name = json_get_string(m->params, "name");
	struct json_span span;

	if (name == NULL ||
	    json_find(m->text, m->text_len, path, &span) != ERR_OK)
		request_error(request, ERR_RPC_PARAMS,
		    "Invalid params: name must be a string");
	else if (!json_equal(span, TOOL_NAME))
		request_error(request, ERR_RPC_PARAMS, "Unknown tool: %.*s",
		    shown(name), name);
	else if (arguments != NULL && !cJSON_IsNull(arguments) &&
	    !cJSON_IsObject(arguments))
		request_error(request, ERR_RPC_PARAMS,
		    "Invalid params: "
		    "arguments must be an object with python_code");
	else
		execute_call(request);
}

static void
handle_discover(struct request *request)
{
	CLEANUP_BUF struct buf out = { .max = 8192 };
	CLEANUP_BUF struct buf facts = { .max = 4096 };
	enum err rc = append_facts(request, &facts);

	if (rc == ERR_OK)
		rc = identity_discovered(&out, buf_str(&facts));
	if (rc != ERR_OK)
		request_error(request, rc, "%s", err_info(rc)->text);
	else
		request_result(request, buf_str(&out));
}

static const struct method methods[] = {
	{ "initialize", REVISION_2024_11_05, REVISION_2025_11_25, true,
	    handle_initialize },
	{ "ping", REVISION_2024_11_05, REVISION_2025_11_25, true, handle_ping },
	{ "server/discover", REVISION_2026_07_28, REVISION_2026_07_28, false,
	    handle_discover },
	{ "resources/list", REVISION_2024_11_05, REVISION_2026_07_28, false,
	    resource_list },
	{ "resources/templates/list", REVISION_2024_11_05, REVISION_2026_07_28,
	    false, resource_templates },
	{ "resources/read", REVISION_2024_11_05, REVISION_2026_07_28, false,
	    resource_read },
	{ "tools/list", REVISION_2024_11_05, REVISION_2026_07_28, false,
	    handle_tools_list },
	{ "tools/call", REVISION_2024_11_05, REVISION_2026_07_28, false,
	    handle_tools_call },
};

static const struct method *
find_method(const char *name, enum revision revision)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		const struct method *m = &methods[i];

		if (strcmp(m->name, name) == 0 &&
		    (revision == REVISION_NONE ||
			(revision >= m->since && revision <= m->until)))
			return m;
	}
	return NULL;
}

void
method_request(struct request *request)
{
	enum revision revision = request->session->revision;
	const char *name = request->message->method;
	const struct method *method = find_method(name, revision);

	if (method == NULL)
		request_error(request, ERR_RPC_METHOD, "Method not found: %.*s",
		    shown(name), name);
	else if (revision == REVISION_NONE && !method->early)
		request_error(request, ERR_RPC_REQUEST,
		    "Invalid Request: "
		    "the session is not initialized, send initialize first");
	else
		method->handle(request);
}

/* ---- notifications ------------------------------------------------------ */

static void
handle_initialized(
    struct mcp_session *session, const struct rpc_message *message)
{
	/* nothing waits for it: we send nothing unasked */
	(void)session;
	(void)message;
}

static void
handle_cancelled(struct mcp_session *session, const struct rpc_message *message)
{
	static const char *const path[] = { "params", "requestId", NULL };
	char id[RPC_ID_MAX + 1];
	struct json_span span;

	if (json_find(message->text, message->text_len, path, &span) !=
		ERR_OK ||
	    span.len > RPC_ID_MAX)
		return;
	memcpy(id, span.at, span.len);
	id[span.len] = '\0';
	execute_cancel(session, id);
}

static const struct notification notifications[] = {
	{ "notifications/initialized", handle_initialized },
	{ "notifications/cancelled", handle_cancelled },
};

void
method_notification(
    struct mcp_session *session, const struct rpc_message *message)
{
	for (size_t i = 0; i < sizeof(notifications) / sizeof(notifications[0]);
	     i++) {
		if (strcmp(notifications[i].name, message->method) == 0) {
			notifications[i].handle(session, message);
			return;
		}
	}
}
