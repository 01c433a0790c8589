/*
 * Files over HTTP. They come from programs that anybody may have written, so
 * none of them may act on our origin: the type is the one we found, nothing is
 * sniffed, only images and plain text are shown in place, and whatever a
 * browser shows is sandboxed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "mcp/artifact.h"
#include "transport/files.h"
#include "transport/route.h"

#define CSP "sandbox; default-src 'none'; style-src 'unsafe-inline'"
#define VALUE_MAX 2048
#define ETAG_MAX (ARTIFACT_ID_LEN + 3)
/* of the id, in the log: the whole is the permission */
#define ID_SHOWN 8

static bool
is_shown_inline(const char *type)
{
	static const char *const types[] = { "image/png", "image/jpeg",
		"image/gif", "image/webp", "text/plain" };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		size_t n = strlen(types[i]);

		if (strncmp(type, types[i], n) == 0 &&
		    (type[n] == '\0' || type[n] == ';'))
			return true;
	}
	return false;
}

static enum err
add_type(struct http_response *response, const char *type)
{
	CLEANUP_BUF struct buf value = { .max = VALUE_MAX };
	bool text = strncmp(type, "text/", 5) == 0 && strchr(type, ';') == NULL;
	enum err rc;

	if ((rc = buf_printf(&value, "%s%s", type,
		 text ? "; charset=utf-8" : "")) != ERR_OK)
		return rc;
	return http_header(response, "Content-Type", buf_str(&value));
}

static enum err
add_disposition(struct http_response *response, const struct artifact *artifact)
{
	CLEANUP_BUF struct buf value = { .max = VALUE_MAX };
	enum err rc;

	if ((rc = http_disposition(&value, is_shown_inline(artifact->type),
		 artifact_base_name(artifact->name))) != ERR_OK)
		return rc;
	return http_header(response, "Content-Disposition", buf_str(&value));
}

/* What a cache may do: it never changes, and is nobody else's. */
static enum err
add_caching(struct http_response *response, const struct artifact *artifact,
    const char *etag, uint64_t time_ms)
{
	int64_t left =
	    artifact->made + (int64_t)(time_ms / 1000) - clock_wall();
	char value[64];
	enum err rc;

	snprintf(value, sizeof(value), "private, max-age=%" PRId64,
	    left > 0 ? left : 0);
	if ((rc = http_header(response, "Cache-Control", value)) != ERR_OK)
		return rc;
	return http_header(response, "ETag", etag);
}

static enum err
add_head(struct http_response *response, const struct artifact *artifact)
{
	enum err rc;

	if ((rc = add_type(response, artifact->type)) != ERR_OK ||
	    (rc = add_disposition(response, artifact)) != ERR_OK ||
	    (rc = http_header(response, "X-Content-Type-Options", "nosniff")) !=
		ERR_OK ||
	    (rc = http_header(response, "Content-Security-Policy", CSP)) !=
		ERR_OK ||
	    (rc = http_header(response, "Referrer-Policy", "no-referrer")) !=
		ERR_OK)
		return rc;
	return http_header(response, "Accept-Ranges", "bytes");
}

/* ---- parts --------------------------------------------------------------- */

static enum err
add_range(
    struct http_response *response, uint64_t at, uint64_t len, uint64_t size)
{
	char value[80];

	response->status = 206;
	snprintf(value, sizeof(value), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
	    at, at + len - 1, size);
	response->file_at += at;
	response->file_len = len;
	return http_header(response, "Content-Range", value);
}

static void
answer_beyond(struct http_response *response, uint64_t size)
{
	char value[48];

	buf_done(&response->head);
	snprintf(value, sizeof(value), "bytes */%" PRIu64, size);
	if (http_header(response, "Content-Range", value) != ERR_OK)
		http_error_of(response, ERR_NOMEM, NULL);
	else
		http_error(response, 416, NULL, -32600,
		    "the range begins behind the end of the file");
}

/* The whole file, or the part that is asked for. */
static enum err
add_body(struct exchange *exchange, struct artifact *artifact, const char *etag)
{
	const struct http_request *request = &exchange->request;
	struct http_response *response = &exchange->response;
	const char *condition = http_field(request, "HTTP_IF_RANGE");
	const char *range = http_field(request, "HTTP_RANGE");
	uint64_t at, len;

	response->file = STEAL_FD(artifact->fd);
	response->file_at = artifact->at;
	response->file_len = artifact->len;
	/* a part makes sense only of what the client has already seen */
	if (response->head_only ||
	    (condition != NULL && strcmp(condition, etag) != 0))
		return ERR_OK;
	switch (http_range(range, artifact->len, &at, &len)) {
	case HTTP_RANGE_PART:
		return add_range(response, at, len, artifact->len);
	case HTTP_RANGE_BEYOND:
		answer_beyond(response, artifact->len);
		break;
	case HTTP_RANGE_NONE:
		break;
	}
	return ERR_OK;
}

/* ---- the whole ----------------------------------------------------------- */

static enum err
answer(struct exchange *exchange, struct artifact *artifact, const char *etag)
{
	const struct conf *conf = exchange->transport->conf;
	struct http_response *response = &exchange->response;
	enum err rc;

	if ((rc = add_caching(response, artifact, etag, conf->artifact_time)) !=
	    ERR_OK)
		return rc;
	if (http_etag_listed(
		http_field(&exchange->request, "HTTP_IF_NONE_MATCH"), etag)) {
		response->status = 304;
		return ERR_OK;
	}
	if ((rc = add_head(response, artifact)) != ERR_OK)
		return rc;
	return add_body(exchange, artifact, etag);
}

static void
refuse(struct http_response *response, enum err rc)
{
	const char *text = NULL;

	if (rc == ERR_NOT_FOUND)
		text = "there is no such file, or its time is over (setting "
		       "artifact_time)";
	else if (rc == ERR_EXPIRED)
		text = "this file's time is over (setting artifact_time)";
	/* 410 would be kept by caches */
	if (http_header(response, "Cache-Control", "no-store") != ERR_OK)
		rc = ERR_NOMEM;
	http_error_of(response, rc, text);
}

void
files_get(struct exchange *exchange)
{
	const char *id = exchange->request.path.data + exchange->prefix_len +
	    strlen(ARTIFACT_PATH);
	struct artifact artifact = { .fd = -1 };
	char key[ARTIFACT_ID_LEN + 1], etag[ETAG_MAX];
	enum err rc;

	exchange->shown =
	    exchange->prefix_len + strlen(ARTIFACT_PATH) + ID_SHOWN;
	snprintf(key, sizeof(key), "%s", id);
	snprintf(etag, sizeof(etag), "\"%s\"", key);
	rc = exchange->transport->artifacts == NULL
	    ? ERR_NOT_FOUND
	    : artifact_get(exchange->transport->artifacts, key, &artifact);
	if (rc != ERR_OK) {
		refuse(&exchange->response, rc);
		return;
	}
	if ((rc = answer(exchange, &artifact, etag)) != ERR_OK) {
		buf_done(&exchange->response.head);
		refuse(&exchange->response, rc);
	}
	artifact_done(&artifact);
}
