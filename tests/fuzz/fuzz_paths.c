/* The input is an input file's path: either it is refused by name, or it stays
 * within the working folder, apart from what is the runner's, and reaches the
 * request as it is. The same bytes as a result's path never break the way
 * back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/rpc.h"
#include "mcp/tool.h"
#include "sandbox/outcome.h"

#define MUST(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct conf conf;
static const struct sandbox_limits limits = { .time_ms = 6000,
	.output_bytes = 1000000 };

/* What must hold of a path that was taken, said in another way than the code
 * says it. */
static void
check_path(const char *path)
{
	size_t n = strlen(path);

	MUST(n > 0 && path[0] != '/' && path[n - 1] != '/');
	MUST(strncmp(path, "../", 3) != 0 && strcmp(path, "..") != 0);
	MUST(strstr(path, "/../") == NULL && strstr(path, "//") == NULL);
	MUST(n < 3 || strcmp(path + n - 3, "/..") != 0);
	MUST(strchr(path, '\n') == NULL);
	MUST(strcmp(path, "main.py") != 0 && strcmp(path, ".sandbox") != 0);
	MUST(strncmp(path, ".sandbox/", 9) != 0);
}

static void
check_request(const struct sandbox_job *job)
{
	CLEANUP_BUF struct buf out = { .max = 1 << 20 };

	MUST(outcome_request(&out, job, &conf, &limits) == ERR_OK);
	MUST(json_check(out.data, out.len, 16, NULL) == ERR_OK);
}

static void
as_argument(const char *path, size_t n)
{
	CLEANUP_BUF struct buf text = { .max = 1 << 20 };
	struct tool_fault fault = { "" };
	struct rpc_message *message = NULL;
	struct rpc_fault rpc_fault;
	struct sandbox_job job;
	enum err rc;

	MUST(buf_puts(&text,
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
		 "\"params\":{\"name\":\"execute_python_code\",\"arguments\":"
		 "{\"python_code\":\"1\",\"files\":[{\"text\":\"x\","
		 "\"path\":") == ERR_OK);
	if (json_quote(&text, path, n) != ERR_OK)
		return;
	MUST(buf_puts(&text, "}]}}}") == ERR_OK);
	if (rpc_parse(text.data, text.len, &conf, &message, &rpc_fault) !=
	    ERR_OK)
		return;
	rc = tool_arguments(message, &conf, &job, &fault);
	if (rc == ERR_OK) {
		MUST(job.n_files == 1 && job.files[0].len == 1);
		check_path(job.files[0].path);
		check_request(&job);
		sandbox_job_done(&job);
	} else {
		MUST(rc == ERR_RPC_PARAMS);
		MUST(strncmp(fault.text, "files[0].path: ", 15) == 0);
	}
	rpc_message_free(message);
}

static void
as_result(const char *path, size_t n)
{
	CLEANUP_BUF struct buf text = { .max = 1 << 20 };
	struct sandbox_reply reply = { .http_status = 200 };
	struct outcome outcome;

	MUST(buf_puts(&text,
		 "{\"stdout\":\"\",\"returncode\":0,\"files\":["
		 "{\"path\":\"a\",\"size\":1,\"content\":\"eA==\"},"
		 "{\"size\":1,\"content\":\"eA==\",\"path\":") == ERR_OK);
	if (json_quote(&text, path, n) != ERR_OK)
		return;
	MUST(buf_puts(&text, "}]}") == ERR_OK);
	reply.body = text.data;
	reply.body_len = text.len;
	MUST(outcome_parse(&reply, &conf, &limits, &outcome) == ERR_OK);
	for (size_t i = 0; i < outcome.n_files; i++) {
		const char *name = outcome.files[i].path;

		MUST(name != NULL);
		for (; *name != '\0'; name++)
			MUST((unsigned char)*name >= 0x20);
	}
	outcome_done(&outcome);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (conf.json_depth == 0)
		MUST(conf_init(&conf) == ERR_OK);
	as_argument((const char *)data, size);
	as_result((const char *)data, size);
	return 0;
}
