/* The first lines are header fields of a request to /mcp, what follows the
 * empty line is its body: the worker either refuses it with a JSON-RPC error
 * or lets it run, and every event id is split without harm. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "transport/event_log.h"
#include "transport/route.h"

#define MUST(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct conf conf;
static struct transport transport;

static void
start(void)
{
	struct conf_fault fault;

	if (transport.conf != NULL)
		return;
	MUST(conf_init(&conf) == ERR_OK);
	MUST(transport_init(&transport, &conf, &fault) == ERR_OK);
}

/* Adds lines such as "HTTP_ACCEPT=x" up to an empty one; returns what they
 * take. */
static size_t
add_fields(struct http_request *request, const char *text, size_t size)
{
	size_t at = 0;

	while (at < size) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t n = end != NULL ? (size_t)(end - text) - at : size - at;
		CLEANUP_FREE char *line = strndup(text + at, n);

		at += n + (end != NULL);
		MUST(line != NULL);
		if (n == 0)
			return at;
		if (strncmp(line, "HTTP_", 5) == 0)
			(void)!http_request_add(request, line);
	}
	return at;
}

static void
check_refusal(const struct http_response *response)
{
	CLEANUP_JSON cJSON *json = NULL;
	const cJSON *code;

	MUST(response->status >= 400);
	MUST(json_parse(buf_str(&response->body), response->body.len, 100,
		 &json, NULL) == ERR_OK);
	code = json_get(json_get(json, "error"), "code");
	MUST(cJSON_IsNumber(code) && code->valuedouble <= -32020);
}

static void
ask(const char *method, const char *text, size_t size)
{
	struct exchange *exchange = exchange_new(&transport);
	size_t at;

	MUST(exchange != NULL);
	MUST(http_request_add(&exchange->request, method) == ERR_OK);
	MUST(
	    http_request_add(&exchange->request, "REQUEST_URI=/mcp") == ERR_OK);
	at = add_fields(&exchange->request, text, size);
	MUST(buf_append(&exchange->request.body, text + at, size - at) ==
	    ERR_OK);
	route_prepare(exchange);
	if (exchange->run == NULL)
		check_refusal(&exchange->response);
	else if (strcmp(method, "REQUEST_METHOD=POST") == 0)
		MUST(exchange->message != NULL || exchange->batch != NULL);
	exchange_free(exchange);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *text = strndup((const char *)data, size);
	char name[EVENT_LOG_NAME + 1];
	unsigned number;

	start();
	MUST(text != NULL);
	if (event_log_id(text, name, &number) == ERR_OK)
		MUST(strlen(name) == EVENT_LOG_NAME);
	ask("REQUEST_METHOD=POST", (const char *)data, size);
	ask("REQUEST_METHOD=GET", (const char *)data, size);
	return 0;
}
