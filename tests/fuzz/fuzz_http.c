/* Lines of input are the variables of a request: whatever they say, path and
 * headers come out safe, and the router answers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "transport/event_stream.h"
#include "transport/guard.h"
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
	MUST(conf_set(&conf, "allowed_hosts", "a.example", NULL) == ERR_OK);
	MUST(conf_set(&conf, "allowed_origins", "https://a.example", NULL) ==
	    ERR_OK);
	MUST(transport_init(&transport, &conf, &fault) == ERR_OK);
}

/* One "/" at the start, nothing that could end a header, a line, an attribute
 * or begin an authority. */
static void
check_path(const struct buf *path)
{
	MUST(path->len > 0 && path->data[0] == '/');
	MUST(strstr(path->data, "//") == NULL);
	MUST(strstr(path->data, "/./") == NULL);
	MUST(strstr(path->data, "/../") == NULL);
	for (size_t i = 0; i < path->len; i++) {
		unsigned char c = (unsigned char)path->data[i];

		MUST(c > 0x20 && c < 0x7f && strchr("<>\"'&\\?#", c) == NULL);
	}
}

static void
check_again(const struct buf *path)
{
	CLEANUP_BUF struct buf again = { 0 };
	enum err rc;

	buf_init(&again, HTTP_PATH_MAX);
	rc = http_path_normal(path->data, &again);
	MUST(rc == ERR_OK && strcmp(again.data, path->data) == 0);
}

static void
check_response(const struct http_response *response)
{
	const char *head = buf_str(&response->head);
	const char *p = head;

	for (; (p = strchr(p, '\n')) != NULL; p++)
		MUST(p > head && p[-1] == '\r');
	MUST(strstr(head, "\r\n\r\n") == NULL && head[0] != '\r');
	MUST(strchr(http_reason(response->status), 'U') == NULL ||
	    response->status == 415);
}

static void
add_fields(struct http_request *request, const uint8_t *data, size_t size)
{
	static const char *const names[] = { "REQUEST_URI=", "HTTP_ORIGIN=",
		"HTTP_HOST=", "HTTP_ACCEPT=", "CONTENT_TYPE=", "SERVER_ADDR=",
		"PATH_INFO=", "CONTENT_LENGTH=" };
	static const char *const methods[] = { "GET", "POST", "OPTIONS",
		"HEAD" };
	char field[1024];
	size_t i = 0;

	snprintf(field, sizeof(field), "REQUEST_METHOD=%s", methods[size % 4]);
	MUST(http_request_add(request, field) == ERR_OK);
	while (size > 0 && i < 8) {
		const uint8_t *end = memchr(data, '\n', size);
		size_t n = end != NULL ? (size_t)(end - data) : size;

		snprintf(field, sizeof(field), "%s%.*s", names[i++],
		    (int)(n < 900 ? n : 900), (const char *)data);
		MUST(http_request_add(request, field) == ERR_OK);
		data += end != NULL ? n + 1 : n;
		size -= end != NULL ? n + 1 : n;
	}
	if (size > conf.body_max)
		size = conf.body_max;
	MUST(buf_append(&request->body, data, size) == ERR_OK);
}

static void
check_event(const uint8_t *data, size_t size)
{
	CLEANUP_BUF struct buf out = { 0 };
	const char *p;

	buf_init(&out, 1 << 24);
	MUST(event_stream_event(&out, "message", (const char *)data, size) ==
	    ERR_OK);
	MUST(memchr(out.data, '\r', out.len) == NULL);
	for (p = out.data;
	     (p = memchr(p, '\n', out.len - (size_t)(p - out.data))) != NULL;
	     p++) {
		if (p + 2 >= out.data + out.len)
			break;
		MUST(strncmp(p + 1, "data: ", 6) == 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct exchange *exchange;
	char value[64];

	start();
	if (data == NULL || size == 0)
		return 0;
	exchange = exchange_new(&transport);
	MUST(exchange != NULL);
	add_fields(&exchange->request, data, size);
	route_prepare(exchange);
	if (exchange->response.status != 400 &&
	    exchange->response.status != 403) {
		check_path(&exchange->request.path);
		check_again(&exchange->request.path);
	}
	check_response(&exchange->response);
	(void)!http_query(exchange->request.query, "a", value, sizeof(value));
	check_event(data, size);
	exchange_free(exchange);
	return 0;
}
