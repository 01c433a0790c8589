#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/artifact.h"
#include "transport/files.h"
#include "transport/guard.h"
#include "transport/pages.h"
#include "transport/route.h"
#include "transport/sse.h"
#include "transport/streamable.h"

/* Headers that clients of any MCP transport send. */
#define ALLOW_HEADERS \
	"Content-Type, Authorization, Mcp-Session-Id, " \
	"MCP-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name, " \
	"Cache-Control"
#define CORS_MAX_AGE "600"

enum route_kind {
	ROUTE_END,  /* the path ends so; before it: the prefix */
	ROUTE_FILE, /* an id and a name follow; before it: the prefix */
	ROUTE_MOUNT /* the path is where we are mounted */
};

struct route {
	const char *method;
	const char *path;
	enum route_kind kind;
	bool json; /* the body must be JSON */
	void (*prepare)(struct exchange *exchange);
};

static const struct route routes[] = {
	{ "GET", ARTIFACT_PATH, ROUTE_FILE, false, files_get },
	{ "HEAD", ARTIFACT_PATH, ROUTE_FILE, false, files_get },
	{ "GET", "/sse", ROUTE_END, false, sse_get },
	{ "POST", "/messages/", ROUTE_END, true, sse_post },
	{ "POST", "/messages", ROUTE_END, true, sse_post },
	{ "GET", "/mcp", ROUTE_END, false, streamable_get },
	{ "POST", "/mcp", ROUTE_END, true, streamable_post },
	{ "DELETE", "/mcp", ROUTE_END, false, streamable_delete },
	{ "GET", "/mcp/", ROUTE_END, false, streamable_get },
	{ "POST", "/mcp/", ROUTE_END, true, streamable_post },
	{ "DELETE", "/mcp/", ROUTE_END, false, streamable_delete },
	{ "GET", "/", ROUTE_MOUNT, false, pages_index },
	{ "HEAD", "/", ROUTE_MOUNT, false, pages_index },
};

#define N_ROUTES (sizeof(routes) / sizeof(routes[0]))

/* It goes into JSON and pages as it is. */
static bool
is_public_url(const char *url)
{
	bool http = strncmp(url, "http://", 7) == 0;
	const char *host = url + (http ? 7 : 8);

	if (!http && strncmp(url, "https://", 8) != 0)
		return false;
	if (*host == '\0' || *host == '/')
		return false;
	for (; *url != '\0'; url++) {
		if (*url <= ' ' || *url >= 0x7f ||
		    strchr("\"'<>\\?#&", *url) != NULL)
			return false;
	}
	return true;
}

enum err
transport_init(struct transport *transport, const struct conf *conf,
    struct conf_fault *fault)
{
	CLEANUP_BUF struct buf path = { 0 };

	buf_init(&path, HTTP_PATH_MAX);
	transport->conf = conf;
	transport->base_path = NULL;
	if (conf->public_url[0] != '\0' && !is_public_url(conf->public_url)) {
		snprintf(fault->text, sizeof(fault->text),
		    "public_url must be an address such as "
		    "https://host/tools/python");
		return ERR_CONF;
	}
	if (conf->base_path[0] == '\0')
		return ERR_OK;
	if (conf->base_path[0] != '/' ||
	    http_path_normal(conf->base_path, &path) != ERR_OK) {
		snprintf(fault->text, sizeof(fault->text),
		    "base_path must be "
		    "a path such as /tools/python");
		return ERR_CONF;
	}
	while (path.len > 0 && path.data[path.len - 1] == '/')
		path.data[--path.len] = '\0';
	transport->base_path = buf_steal(&path, NULL);
	return transport->base_path != NULL ? ERR_OK : ERR_NOMEM;
}

void
transport_done(struct transport *transport)
{
	free(transport->base_path);
	transport->base_path = NULL;
}

static bool
is_mount(const struct exchange *exchange, const char *path)
{
	const char *base = exchange->transport->base_path;
	const char *info = http_field(&exchange->request, "PATH_INFO");

	if (strcmp(path, "/") == 0)
		return true;
	if (base != NULL && strncmp(path, base, strlen(base)) == 0 &&
	    strcmp(path + strlen(base) + (path[strlen(base)] == '/'), "") == 0)
		return true;
	/* only web servers that split the path tell where we are mounted */
	return info != NULL && strcmp(info, "/") == 0 &&
	    path[strlen(path) - 1] == '/';
}

/* Whether a path is one of a file, PREFIX/files/ID/NAME, whatever the name. */
static bool
is_file(const struct buf *path, size_t *ret_prefix)
{
	const char *slash = strrchr(buf_str(path), '/'), *at;
	size_t need = strlen(ARTIFACT_PATH) + ARTIFACT_ID_LEN;

	if (slash == NULL || slash[1] == '\0' ||
	    (size_t)(slash - path->data) < need)
		return false;
	at = slash - need;
	if (strncmp(at, ARTIFACT_PATH, strlen(ARTIFACT_PATH)) != 0 ||
	    !artifact_is_id(at + strlen(ARTIFACT_PATH)))
		return false;
	*ret_prefix = (size_t)(at - path->data);
	return true;
}

/* Whether path is the route's; *ret_prefix is the length of what is before. */
static bool
matches(const struct exchange *exchange, const struct route *route,
    size_t *ret_prefix)
{
	const struct buf *path = &exchange->request.path;
	size_t n = strlen(route->path);

	/* a file may be called "sse" */
	if (is_file(path, ret_prefix))
		return route->kind == ROUTE_FILE;
	if (route->kind == ROUTE_FILE)
		return false;
	if (route->kind == ROUTE_MOUNT) {
		*ret_prefix = path->len > 0 ? path->len - 1 : 0;
		return is_mount(exchange, buf_str(path));
	}
	if (path->len < n ||
	    memcmp(path->data + path->len - n, route->path, n) != 0)
		return false;
	*ret_prefix = path->len - n;
	return true;
}

enum err
route_prefix(const struct exchange *exchange, struct buf *out)
{
	const char *base = exchange->transport->base_path;

	if (base != NULL)
		return buf_puts(out, base);
	return buf_append(
	    out, exchange->request.path.data, exchange->prefix_len);
}

/* What a page of a passed Origin may read. */
static enum err
cors(struct exchange *exchange)
{
	const char *origin = http_field(&exchange->request, "HTTP_ORIGIN");
	struct http_response *response = &exchange->response;
	enum err rc;

	if ((rc = http_header(response, "Vary", "Origin")) != ERR_OK ||
	    origin == NULL)
		return rc;
	if ((rc = http_header(
		 response, "Access-Control-Allow-Origin", origin)) != ERR_OK)
		return rc;
	return http_header(
	    response, "Access-Control-Expose-Headers", "Mcp-Session-Id");
}

/* Lists the methods of the routes that match, with OPTIONS; "" for none. */
static void
allowed(const struct exchange *exchange, char *ret_list, size_t size)
{
	size_t prefix, len = 0;

	ret_list[0] = '\0';
	for (size_t i = 0; i < N_ROUTES; i++) {
		if (matches(exchange, &routes[i], &prefix))
			len += (size_t)snprintf(ret_list + len, size - len,
			    "%s, ", routes[i].method);
	}
	if (len > 0)
		snprintf(ret_list + len, size - len, "OPTIONS");
}

static void
answer_options(struct exchange *exchange, const char *methods)
{
	struct http_response *response = &exchange->response;

	response->status = 204;
	if (http_header(response, "Allow", methods) != ERR_OK ||
	    (http_field(&exchange->request, "HTTP_ORIGIN") != NULL &&
		(http_header(response, "Access-Control-Allow-Methods",
		     methods) != ERR_OK ||
		    http_header(response, "Access-Control-Allow-Headers",
			ALLOW_HEADERS) != ERR_OK ||
		    http_header(response, "Access-Control-Max-Age",
			CORS_MAX_AGE) != ERR_OK)))
		http_error_of(response, ERR_NOMEM, NULL);
}

static void
answer_method(struct exchange *exchange, const char *methods)
{
	if (http_header(&exchange->response, "Allow", methods) != ERR_OK) {
		http_error_of(&exchange->response, ERR_NOMEM, NULL);
		return;
	}
	http_error_of(&exchange->response, ERR_HTTP_METHOD, NULL);
}

static void
dispatch(struct exchange *exchange)
{
	struct http_request *request = &exchange->request;
	char methods[128];

	for (size_t i = 0; i < N_ROUTES; i++) {
		const struct route *route = &routes[i];

		if (strcmp(route->method, request->method) != 0 ||
		    !matches(exchange, route, &exchange->prefix_len))
			continue;
		if (route->json &&
		    !http_type_is_json(http_field(request, "CONTENT_TYPE"))) {
			http_error_of(&exchange->response, ERR_HTTP_MEDIA_TYPE,
			    "Content-Type must be "
			    "application/json");
			return;
		}
		route->prepare(exchange);
		return;
	}
	allowed(exchange, methods, sizeof(methods));
	if (methods[0] == '\0')
		http_error_of(&exchange->response, ERR_NOT_FOUND,
		    "there is nothing at this path");
	else if (strcmp(request->method, "OPTIONS") == 0)
		answer_options(exchange, methods);
	else
		answer_method(exchange, methods);
}

void
route_prepare(struct exchange *exchange)
{
	const struct conf *conf = exchange->transport->conf;
	struct http_request *request = &exchange->request;
	struct http_response *response = &exchange->response;
	enum err path_rc = http_request_ready(request), rc;

	response->head_only = strcmp(request->method, "HEAD") == 0;
	if (!guard_origin(conf, http_field(request, "HTTP_ORIGIN")))
		http_error_of(response, ERR_HTTP_FORBIDDEN,
		    "this Origin is "
		    "not allowed (setting allowed_origins)");
	else if (!guard_host(conf, request))
		http_error_of(response, ERR_HTTP_FORBIDDEN,
		    "this Host is not "
		    "allowed (setting allowed_hosts)");
	else if ((rc = cors(exchange)) != ERR_OK)
		http_error_of(response, rc, NULL);
	else if (path_rc != ERR_OK)
		http_error_of(
		    response, ERR_HTTP_BAD_REQUEST, "the path is malformed");
	else if ((rc = http_check_length(request)) != ERR_OK)
		http_error_of(response, ERR_HTTP_BAD_REQUEST,
		    "Content-Length is not the length of the body");
	else
		dispatch(exchange);
}
