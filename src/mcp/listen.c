#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/listen.h"

#define SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

static bool
is_flag(const cJSON *filter, const char *name)
{
	const cJSON *item = json_get(filter, name);

	return item == NULL || cJSON_IsBool(item);
}

bool
listen_is_valid(const struct rpc_message *message)
{
	const cJSON *filter = json_get(message->params, "notifications");
	const cJSON *uris = json_get(filter, "resourceSubscriptions");

	return cJSON_IsObject(filter) && is_flag(filter, "toolsListChanged") &&
	    is_flag(filter, "promptsListChanged") &&
	    is_flag(filter, "resourcesListChanged") &&
	    (uris == NULL || cJSON_IsArray(uris));
}

enum err
listen_acknowledged(struct buf *out, const char *id)
{
	CLEANUP_BUF struct buf params = { .max = 1024 };
	enum err rc = buf_printf(&params,
	    "{\"_meta\":{\"" SUBSCRIPTION "\":%s},\"notifications\":{}}", id);

	return rc != ERR_OK
	    ? rc
	    : rpc_notification(out, "notifications/subscriptions/acknowledged",
		  buf_str(&params));
}

enum err
listen_concluded(struct buf *out, const char *id)
{
	CLEANUP_BUF struct buf result = { .max = 1024 };
	enum err rc = buf_printf(&result,
	    "{\"resultType\":\"complete\",\"_meta\":{\"" SUBSCRIPTION "\":%s}}",
	    id);

	return rc != ERR_OK ? rc : rpc_result(out, id, buf_str(&result));
}
