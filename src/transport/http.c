#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "transport/http.h"

void
http_request_init(
    struct http_request *request, size_t fields_max, size_t body_max)
{
	buf_init(&request->fields, fields_max);
	buf_init(&request->body, body_max);
	buf_init(&request->path, HTTP_PATH_MAX);
	request->method = "";
	request->query = "";
}

void
http_request_done(struct http_request *request)
{
	buf_done(&request->fields);
	buf_done(&request->body);
	buf_done(&request->path);
	request->method = "";
	request->query = "";
}

enum err
http_request_add(struct http_request *request, const char *field)
{
	return buf_append(&request->fields, field, strlen(field) + 1);
}

const char *
http_field(const struct http_request *request, const char *name)
{
	const char *at = request->fields.data;
	const char *end = at != NULL ? at + request->fields.len : at;
	size_t n = strlen(name);

	while (at < end) {
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			return at + n + 1;
		at += strlen(at) + 1;
	}
	return NULL;
}

/* Some web servers give no REQUEST_URI (it is in no CGI standard). */
static enum err
path_from_parts(struct http_request *request)
{
	const char *script = http_field(request, "SCRIPT_NAME");
	const char *info = http_field(request, "PATH_INFO");
	CLEANUP_BUF struct buf uri = { 0 };
	enum err rc;

	buf_init(&uri, HTTP_PATH_MAX);
	if ((rc = buf_puts(&uri, script != NULL ? script : "")) != ERR_OK ||
	    (rc = buf_puts(&uri, info != NULL ? info : "")) != ERR_OK)
		return rc;
	return http_path_normal(buf_str(&uri), &request->path);
}

enum err
http_request_ready(struct http_request *request)
{
	const char *method = http_field(request, "REQUEST_METHOD");
	const char *uri = http_field(request, "REQUEST_URI");
	const char *query = http_field(request, "QUERY_STRING");
	const char *mark;

	request->method = method != NULL ? method : "";
	if (uri == NULL || uri[0] == '\0') {
		request->query = query != NULL ? query : "";
		return path_from_parts(request);
	}
	mark = strchr(uri, '?');
	request->query = mark != NULL ? mark + 1 : "";
	return http_path_normal(uri, &request->path);
}

enum err
http_check_length(const struct http_request *request)
{
	const char *text = http_field(request, "CONTENT_LENGTH");
	unsigned long long n;
	char *end;

	if (text == NULL || text[0] == '\0')
		return ERR_OK;
	if (text[0] < '0' || text[0] > '9')
		return ERR_PARSE;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0')
		return ERR_PARSE;
	return n == request->body.len ? ERR_OK : ERR_TRUNCATED;
}
