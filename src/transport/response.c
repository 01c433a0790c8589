/* Answers; declared in http.h. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "mcp/rpc.h"
#include "transport/http.h"

#define HEAD_MAX 16384
#define BODY_MAX ((size_t)1 << 30)

void
http_response_init(struct http_response *response)
{
	response->status = 200;
	response->head_only = false;
	buf_init(&response->head, HEAD_MAX);
	buf_init(&response->body, BODY_MAX);
	response->file = -1;
	response->file_at = response->file_len = 0;
}

void
http_response_done(struct http_response *response)
{
	buf_done(&response->head);
	buf_done(&response->body);
	if (response->file >= 0)
		close(response->file);
	response->file = -1;
}

static bool
is_clean(const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			return false;
	}
	return true;
}

enum err
http_header(struct http_response *response, const char *name, const char *value)
{
	if (!is_clean(name) || !is_clean(value))
		return ERR_PARSE;
	return buf_printf(&response->head, "%s: %s\r\n", name, value);
}

void
http_error(struct http_response *response, int status, const char *id, int code,
    const char *text)
{
	response->status = status;
	buf_done(&response->body);
	if (response->file >= 0)
		close(response->file);
	response->file = -1;
	if (rpc_error(&response->body, id, code, text, NULL) != ERR_OK ||
	    http_header(response, "Content-Type", "application/json") !=
		ERR_OK ||
	    http_header(response, "X-Content-Type-Options", "nosniff") !=
		ERR_OK)
		buf_done(&response->body);
}

void
http_error_of(struct http_response *response, enum err err, const char *text)
{
	const struct err_info *info = err_info(err);

	if (info->http_status == 503 &&
	    http_header(response, "Retry-After", "1") != ERR_OK)
		buf_done(&response->head);
	http_error(response, info->http_status, NULL, info->rpc_code,
	    text != NULL ? text : info->text);
}

const char *
http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} table[] = {
		{ 200, "OK" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 408, "Request Timeout" },
		{ 410, "Gone" },
		{ 413, "Content Too Large" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (table[i].status == status)
			return table[i].reason;
	}
	return "Unknown";
}

enum err
http_response_head(
    const struct http_response *response, bool stream, struct buf *out)
{
	uint64_t len =
	    response->file >= 0 ? response->file_len : response->body.len;
	enum err rc;

	if ((rc = buf_printf(out, "Status: %d %s\r\n", response->status,
		 http_reason(response->status))) != ERR_OK ||
	    (rc = buf_append(
		 out, buf_str(&response->head), response->head.len)) != ERR_OK)
		return rc;
	/* RFC 9110 forbids a length with 204, and with 304 one of another
	 * body */
	if (!stream && response->status != 204 && response->status != 304 &&
	    (rc = buf_printf(out, "Content-Length: %" PRIu64 "\r\n", len)) !=
		ERR_OK)
		return rc;
	return buf_puts(out, "\r\n");
}
