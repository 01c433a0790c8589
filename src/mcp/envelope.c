#include <string.h>

#include "base/json.h"
#include "mcp/envelope.h"
#include "mcp/revision.h"

#define META "io.modelcontextprotocol/"
#define DATA_MAX 65536

enum { CODE_PARAMS = -32602, CODE_VERSION = -32022 };

static const cJSON *
member(const struct rpc_message *message, const char *key)
{
	return json_get(json_get(message->params, "_meta"), key);
}

bool
envelope_is_there(const struct rpc_message *message)
{
	return member(message, META "protocolVersion") != NULL ||
	    member(message, META "clientCapabilities") != NULL;
}

const char *
envelope_version(const struct rpc_message *message)
{
	return cJSON_GetStringValue(member(message, META "protocolVersion"));
}

static enum err
refuse(struct envelope_fault *fault, int code, const char *text)
{
	fault->code = code;
	fault->text = text;
	buf_init(&fault->data, DATA_MAX);
	return ERR_RPC_PARAMS;
}

enum err
envelope_check(const struct rpc_message *message, struct envelope_fault *fault)
{
	const cJSON *info = member(message, META "clientInfo");

	if (envelope_version(message) == NULL)
		return refuse(fault, CODE_PARAMS,
		    "Invalid params: _meta must have the string " META
		    "protocolVersion");
	if (!cJSON_IsObject(member(message, META "clientCapabilities")))
		return refuse(fault, CODE_PARAMS,
		    "Invalid params: _meta must have the object " META
		    "clientCapabilities");
	if (info != NULL && !cJSON_IsObject(info))
		return refuse(fault, CODE_PARAMS,
		    "Invalid params: " META "clientInfo must be an object");
	return ERR_OK;
}

enum err
envelope_check_version(
    const struct rpc_message *message, struct envelope_fault *fault)
{
	const char *served = revision_name(REVISION_2026_07_28);
	const char *wanted = envelope_version(message);
	enum err rc;

	if (strcmp(wanted, served) == 0)
		return ERR_OK;
	rc = refuse(fault, CODE_VERSION, "Unsupported protocol version");
	if (buf_printf(&fault->data,
		"{\"supported\":[\"%s\"],\"requested\":", served) != ERR_OK ||
	    json_quote(&fault->data, wanted, strlen(wanted)) != ERR_OK ||
	    buf_putc(&fault->data, '}') != ERR_OK)
		buf_done(&fault->data);
	return rc;
}
