/* Whatever comes, a message or a fault comes out, and an answer to either is
 * JSON; arguments are read without a fault. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/rpc.h"
#include "mcp/tool.h"

#define MUST(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct conf conf;

static void
check_answer(const struct buf *out)
{
	MUST(json_check(out->data, out->len, 64, NULL) == ERR_OK);
}

static void
check_arguments(const struct rpc_message *message)
{
	struct tool_fault fault = { "" };
	struct sandbox_job job;
	enum err rc;

	if (!cJSON_IsObject(json_get(message->params, "arguments")))
		return;
	rc = tool_arguments(message, &conf, &job, &fault);
	MUST(rc == ERR_OK || rc == ERR_RPC_PARAMS);
	MUST(rc == ERR_OK || fault.text[0] != '\0');
	if (rc != ERR_OK)
		return;
	MUST(memchr(job.code, '\0', job.code_len) == NULL);
	sandbox_job_done(&job);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_BUF struct buf out = { 0 };
	struct rpc_message *message = NULL;
	struct rpc_fault fault;

	buf_init(&out, 1 << 20);
	if (conf.json_depth == 0)
		MUST(conf_init(&conf) == ERR_OK);
	if (rpc_parse((const char *)data, size, &conf, &message, &fault) !=
	    ERR_OK) {
		MUST(fault.text[0] != '\0');
		if (rpc_fault_answer(&out, &fault) == ERR_OK)
			check_answer(&out);
		return 0;
	}
	MUST((message->kind == RPC_REQUEST) ==
	    (message->id != NULL && message->method != NULL));
	MUST(rpc_result(&out, message->id, "{}") == ERR_OK);
	check_answer(&out);
	check_arguments(message);
	rpc_message_free(message);
	return 0;
}
