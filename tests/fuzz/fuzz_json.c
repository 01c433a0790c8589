/* What json_check lets pass, cJSON must read and our own readers must walk
 * without a fault; a string that is quoted again must read the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

#define MUST(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_string(struct json_span span)
{
	CLEANUP_BUF struct buf plain = { 0 }, quoted = { 0 }, again = { 0 };

	buf_init(&plain, 1 << 20);
	buf_init(&quoted, 1 << 20);
	buf_init(&again, 1 << 20);
	if (json_string(span, &plain) != ERR_OK)
		return;
	MUST(json_quote(&quoted, buf_str(&plain), plain.len) == ERR_OK);
	MUST(json_check(quoted.data, quoted.len, 1, NULL) == ERR_OK);
	MUST(json_string((struct json_span){ quoted.data, quoted.len },
		 &again) == ERR_OK);
	MUST(again.len == plain.len);
	MUST(memcmp(buf_str(&again), buf_str(&plain), plain.len) == 0);
}

static void
check_members(const char *text, size_t len, const cJSON *json)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, json)
	{
		const char *path[2] = { item->string, NULL };
		struct json_span span;

		MUST(json_find(text, len, path, &span) == ERR_OK);
		MUST(json_check(span.at, span.len, 64, NULL) == ERR_OK);
		check_string(span);
	}
}

static void
check_items(const char *text, size_t len, const cJSON *json)
{
	static const char *const here[] = { NULL };
	struct json_span array, span;
	size_t at = 0;
	int n = 0;

	MUST(json_find(text, len, here, &array) == ERR_OK);
	while (json_item(array, &at, &span) == ERR_OK) {
		MUST(json_check(span.at, span.len, 64, NULL) == ERR_OK);
		check_string(span);
		n++;
	}
	MUST(n == cJSON_GetArraySize(json));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *text = malloc(size + 1);
	CLEANUP_JSON cJSON *json = NULL;
	struct json_fault fault = { 0, NULL };
	enum err rc;

	if (text == NULL)
		return 0;
	/* no NUL behind it: reading past the end must be seen */
	text = realloc(text, size > 0 ? size : 1);
	memcpy(text, data, size);
	rc = json_check(text, size, 64, &fault);
	MUST(rc == ERR_OK || (fault.reason != NULL && fault.offset <= size));
	if (rc != ERR_OK)
		return 0;
	MUST(json_parse(text, size, 64, &json, NULL) == ERR_OK);
	if (cJSON_IsObject(json))
		check_members(text, size, json);
	else if (cJSON_IsArray(json))
		check_items(text, size, json);
	return 0;
}
