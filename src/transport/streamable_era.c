/* Which era a request is of, and what 2026-07-28 demands of its envelope and
 * headers. Pure functions: in a worker. */
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/envelope.h"
#include "transport/streamable_internal.h"

#define VALUE_MAX 4096

enum { CODE_REQUEST = -32600, CODE_HEADER = -32020 };

static bool
is_modern_version(const char *version)
{
	return strcmp(version, revision_name(REVISION_2026_07_28)) >= 0 &&
	    strncmp(version, "20", 2) == 0;
}

bool
era_is_modern(const struct exchange *exchange)
{
	const struct rpc_message *message = exchange->message;
	char version[64], session[64];

	if (message != NULL && envelope_is_there(message))
		return true;
	if (message != NULL && message->kind == RPC_REQUEST &&
	    strcmp(message->method, "initialize") == 0)
		return false;
	if (streamable_header(exchange, "HTTP_MCP_PROTOCOL_VERSION", version,
		sizeof(version)) == NULL ||
	    !is_modern_version(version))
		return false;
	/* a session with a version that we do not know: an older client's */
	return strcmp(version, revision_name(REVISION_2026_07_28)) == 0 ||
	    streamable_header(exchange, "HTTP_MCP_SESSION_ID", session,
		sizeof(session)) == NULL;
}

static enum err
fault(struct exchange *exchange, int code, const char *text, const char *data)
{
	streamable_error(exchange, 400, code, text, data);
	return ERR_HTTP_BAD_REQUEST;
}

static enum err
refuse(struct exchange *exchange, struct envelope_fault *why)
{
	enum err rc = fault(exchange, why->code, why->text,
	    why->data.len > 0 ? why->data.data : NULL);

	buf_done(&why->data);
	return rc;
}

static enum err
check_version(struct exchange *exchange)
{
	const char *wanted = envelope_version(exchange->message);
	struct envelope_fault why;
	char header[VALUE_MAX];

	if (streamable_header(exchange, "HTTP_MCP_PROTOCOL_VERSION", header,
		sizeof(header)) == NULL)
		return fault(exchange, CODE_HEADER,
		    "Header mismatch: MCP-Protocol-Version is missing", NULL);
	if (strcmp(header, wanted) != 0)
		return fault(exchange, CODE_HEADER,
		    "Header mismatch: MCP-Protocol-Version is not the "
		    "version of the body",
		    NULL);
	if (envelope_check_version(exchange->message, &why) != ERR_OK)
		return refuse(exchange, &why);
	return ERR_OK;
}

/* The value that a header stands for: =?base64?…?= is decoded. */
static enum err
decode(const char *header, struct buf *out)
{
	static const char mark[] = "=?base64?";
	size_t n = strlen(header), before = strlen(mark);

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)header[i];

		if (c >= 0x7f || (c < 0x20 && c != '\t'))
			return ERR_PARSE;
	}
	if (n < before + 2 || strncmp(header, mark, before) != 0 ||
	    strcmp(header + n - 2, "?=") != 0)
		return buf_append(out, header, n);
	n -= before + 2;
	/* the decoder passes over blanks: there are none to be */
	if (memchr(header + before, ' ', n) != NULL ||
	    memchr(header + before, '\t', n) != NULL || n % 4 != 0)
		return ERR_PARSE;
	return base64_decode(out, header + before, n);
}

/* Compares a header with a string of the body. */
static enum err
check_header(struct exchange *exchange, const char *field, const char *name,
    const char *wanted, bool encoded)
{
	CLEANUP_BUF struct buf value = { .max = VALUE_MAX };
	char header[VALUE_MAX], text[128];
	const char *found =
	    streamable_header(exchange, field, header, sizeof(header));

	if (found == NULL) {
		snprintf(
		    text, sizeof(text), "Header mismatch: %s is missing", name);
		return fault(exchange, CODE_HEADER, text, NULL);
	}
	if ((encoded ? decode(found, &value) : buf_puts(&value, found)) ==
		ERR_OK &&
	    value.len == strlen(wanted) &&
	    memcmp(buf_str(&value), wanted, value.len) == 0)
		return ERR_OK;
	snprintf(text, sizeof(text),
	    "Header mismatch: %s does not match the body", name);
	return fault(exchange, CODE_HEADER, text, NULL);
}

/* The methods whose requests repeat a parameter in Mcp-Name. */
static const struct {
	const char *method, *param;
} named[] = {
	{ "tools/call", "name" },
	{ "prompts/get", "name" },
	{ "resources/read", "uri" },
};

static enum err
check_headers(struct exchange *exchange)
{
	const struct rpc_message *message = exchange->message;
	enum err rc;

	if ((rc = check_header(exchange, "HTTP_MCP_METHOD", "Mcp-Method",
		 message->method, false)) != ERR_OK)
		return rc;
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		const char *value;

		if (strcmp(named[i].method, message->method) != 0)
			continue;
		value = json_get_string(message->params, named[i].param);
		if (value != NULL)
			return check_header(
			    exchange, "HTTP_MCP_NAME", "Mcp-Name", value, true);
	}
	return ERR_OK;
}

enum err
era_check(struct exchange *exchange)
{
	const struct rpc_message *message = exchange->message;
	struct envelope_fault why;
	enum err rc;

	if (message == NULL)
		return fault(exchange, CODE_REQUEST,
		    "Invalid Request: there are no batches", NULL);
	if (message->kind == RPC_RESPONSE)
		return fault(exchange, CODE_REQUEST,
		    "Invalid Request: responses are not accepted", NULL);
	if (message->kind == RPC_NOTIFICATION)
		return ERR_OK;
	if (envelope_check(message, &why) != ERR_OK)
		return refuse(exchange, &why);
	if ((rc = check_version(exchange)) != ERR_OK)
		return rc;
	return check_headers(exchange);
}
