/* What decides on downloads: ranges, tags, names, addresses. The first line is
 * a header field, the second an address, the rest a name and the content of a
 * file. Whatever they say, parts lie within the file, heads and addresses are
 * safe, and a name survives its way through an address. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/artifact.h"
#include "sandbox/media.h"
#include "transport/http.h"

#define MUST(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

#define ID "0123456789abcdef0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_range(const char *field, uint64_t size)
{
	uint64_t at = 0, len = 0;

	if (http_range(field, size, &at, &len) != HTTP_RANGE_PART)
		return;
	MUST(len > 0 && at < size && len <= size - at);
}

static void
check_uri(const char *uri)
{
	char id[ARTIFACT_ID_LEN + 1];

	if (artifact_uri_parse(uri, id) != ERR_OK)
		return;
	MUST(artifact_is_id(id) && strlen(id) == ARTIFACT_ID_LEN);
	MUST(strncmp(uri, ARTIFACT_URI, strlen(ARTIFACT_URI)) == 0);
}

static void
check_head(const char *name)
{
	CLEANUP_BUF struct buf value = { .max = 65536 };
	struct http_response response;
	const char *p;
	int quotes = 0;

	http_response_init(&response);
	MUST(http_disposition(&value, false, name) == ERR_OK);
	for (p = value.data; *p != '\0'; p++) {
		MUST((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7f);
		quotes += *p == '"';
	}
	MUST(quotes == 2);
	MUST(strchr(value.data, '/') == NULL);
	/* a name too long for a head is refused, not cut */
	if (http_header(&response, "Content-Disposition", value.data) == ERR_OK)
		MUST(strchr(buf_str(&response.head), '\n') ==
		    response.head.data + response.head.len - 1);
	http_response_done(&response);
}

/* The address of a name, taken as a path, stays as it is and keeps one
 * segment behind the id. */
static void
check_address(const char *name)
{
	CLEANUP_BUF struct buf ref = { .max = 4096 };
	CLEANUP_BUF struct buf path = { .max = HTTP_PATH_MAX };
	CLEANUP_BUF struct buf uri = { .max = 8192 };
	char id[ARTIFACT_ID_LEN + 1];

	MUST(artifact_ref(&ref, ID, name) == ERR_OK);
	MUST(ref.len < HTTP_PATH_MAX - 128);
	MUST(buf_printf(&uri, ARTIFACT_URI "%s", ref.data) == ERR_OK);
	MUST(artifact_uri_parse(uri.data, id) == ERR_OK);
	MUST(strcmp(id, ID) == 0);
	uri.len = 0;
	MUST(buf_printf(&uri, ARTIFACT_PATH "%s", ref.data) == ERR_OK);
	MUST(http_path_normal(uri.data, &path) == ERR_OK);
	MUST(strcmp(path.data, uri.data) == 0);
}

static void
check_media(const char *name, const uint8_t *data, size_t size)
{
	struct media media = media_sniff(name, data, size);
	const char *p;

	MUST(media.type != NULL && strchr(media.type, '/') != NULL);
	for (p = media.type; *p != '\0'; p++)
		MUST(*p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\');
	MUST(!media.raster || (media.width > 0 && media.height > 0));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *parts[3];

	if (data == NULL)
		return 0;
	for (int i = 0; i < 3; i++) {
		const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
		size_t n = end != NULL ? (size_t)(end - data) : size;

		parts[i] = calloc(1, n + 1);
		MUST(parts[i] != NULL);
		if (n > 0)
			memcpy(parts[i], data, n);
		data += end != NULL ? n + 1 : n;
		size -= end != NULL ? n + 1 : n;
	}
	check_range(parts[0], size);
	check_range(parts[0], UINT64_MAX);
	(void)http_etag_listed(parts[0], "\"a\"");
	check_uri(parts[1]);
	check_address(parts[2]);
	check_head(parts[2]);
	check_media(parts[2], data, size);
	for (int i = 0; i < 3; i++)
		free(parts[i]);
	return 0;
}
