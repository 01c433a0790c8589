#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

enum err
json_parse(const char *text, size_t len, unsigned max_depth, cJSON **ret_json,
    struct json_fault *ret_fault)
{
	enum err rc = json_check(text, len, max_depth, ret_fault);
	cJSON *json;

	if (rc != ERR_OK)
		return rc;
	if ((json = cJSON_ParseWithLength(text, len)) == NULL) {
		/* what json_check lets pass, cJSON accepts: memory it is */
		if (ret_fault != NULL)
			*ret_fault = (struct json_fault){ 0, "out of memory" };
		return ERR_NOMEM;
	}
	*ret_json = json;
	return ERR_OK;
}

/* The helpers from here to json_item trust the grammar: json_check has run. */

static const char *
skip_space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

/* From an opening quote to behind the closing one. */
static const char *
skip_string(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++) {
		if (*p == '\\')
			p++;
	}
	return p < end ? p + 1 : end;
}

static const char *
skip_scalar(const char *p, const char *end)
{
	while (p < end && strchr(",]} \n\r\t", *p) == NULL)
		p++;
	return p;
}

static const char *
skip_value(const char *p, const char *end)
{
	size_t depth = 0;

	if (p < end && *p != '"' && *p != '{' && *p != '[')
		return skip_scalar(p, end);
	while (p < end) {
		if (*p == '"') {
			p = skip_string(p, end);
		} else {
			if (*p == '{' || *p == '[')
				depth++;
			else if (*p == '}' || *p == ']')
				depth--;
			p++;
		}
		if (depth == 0)
			break;
	}
	return p;
}

bool
json_equal(struct json_span span, const char *text)
{
	const char *p, *end;

	if (span.len < 2 || *span.at != '"')
		return false;
	end = span.at + span.len - 1;
	for (p = span.at + 1; p < end;) {
		char utf8[4];
		size_t n = 1;

		if (*p == '\\')
			n = json_unescape(&p, utf8);
		else
			utf8[0] = *p++;
		/* not strncmp alone: it takes two NULs for equal */
		if (utf8[0] == '\0' || strncmp(text, utf8, n) != 0)
			return false;
		text += n;
	}
	return *text == '\0';
}

/* Finds the value of one key in the object at p. */
static enum err
find_member(
    const char *p, const char *end, const char *key, struct json_span *ret_span)
{
	if (p == end || *p != '{')
		return ERR_NOT_FOUND;
	p = skip_space(p + 1, end);
	while (p < end && *p == '"') {
		const char *name = p, *value;
		size_t len;

		p = skip_string(p, end);
		len = (size_t)(p - name);
		/* behind the colon */
		value = skip_space(skip_space(p, end) + 1, end);
		p = skip_value(value, end);
		if (json_equal((struct json_span){ name, len }, key)) {
			*ret_span =
			    (struct json_span){ value, (size_t)(p - value) };
			return ERR_OK;
		}
		p = skip_space(p, end);
		if (p < end && *p == ',')
			p = skip_space(p + 1, end);
	}
	return ERR_NOT_FOUND;
}

enum err
json_find(const char *text, size_t len, const char *const *path,
    struct json_span *ret_span)
{
	const char *end = text + len, *first = skip_space(text, end);
	struct json_span span = { first,
		(size_t)(skip_value(first, end) - first) };
	enum err rc;

	for (; *path != NULL; path++) {
		rc = find_member(span.at, span.at + span.len, *path, &span);
		if (rc != ERR_OK)
			return rc;
	}
	*ret_span = span;
	return ERR_OK;
}

enum err
json_item(struct json_span array, size_t *at, struct json_span *ret_item)
{
	const char *end = array.at + array.len, *p;

	if (array.len == 0 || *array.at != '[' || *at >= array.len)
		return ERR_NOT_FOUND;
	/* *at is at '[' or at the ',' before the item, or at ']' */
	if (*at > 0 && array.at[*at] != ',')
		return ERR_NOT_FOUND;
	p = skip_space(array.at + *at + 1, end);
	if (p == end || *p == ']')
		return ERR_NOT_FOUND;
	ret_item->at = p;
	p = skip_value(p, end);
	ret_item->len = (size_t)(p - ret_item->at);
	*at = (size_t)(skip_space(p, end) - array.at);
	return ERR_OK;
}

static uint32_t
hex4(const char *p)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++) {
		char c = p[i];

		value = value << 4 |
		    (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return value;
}

size_t
json_unescape(const char **at, char *ret_utf8)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
	const char *p = *at + 1, *known;
	uint32_t code;

	if (*p != 'u') {
		known = strchr(from, *p);
		*ret_utf8 = known != NULL ? to[known - from] : *p;
		*at = p + 1;
		return 1;
	}
	code = hex4(p + 1);
	p += 5;
	if (code >= 0xd800 && code <= 0xdbff) {
		code =
		    0x10000 + ((code - 0xd800) << 10) + (hex4(p + 2) - 0xdc00);
		p += 6;
	}
	*at = p;
	return utf8_put(ret_utf8, code);
}

enum err
json_string(struct json_span span, struct buf *out)
{
	size_t before = out->len;
	const char *p, *end;
	enum err rc;

	if (span.len < 2 || *span.at != '"')
		return ERR_PARSE;
	end = span.at + span.len - 1;
	for (p = span.at + 1; p < end;) {
		const char *slash = memchr(p, '\\', (size_t)(end - p));
		size_t run = (size_t)((slash != NULL ? slash : end) - p);
		char utf8[4];
		size_t n;

		if ((rc = buf_append(out, p, run)) != ERR_OK)
			goto undo;
		if ((p += run) == end)
			break;
		n = json_unescape(&p, utf8);
		if ((rc = buf_append(out, utf8, n)) != ERR_OK)
			goto undo;
	}
	return ERR_OK;
undo:
	out->len = before;
	if (out->data != NULL)
		out->data[before] = '\0';
	return rc;
}

/* The escape of a byte that may not stand in a string as it is. */
static size_t
escape(unsigned char c, char *out)
{
	static const char hex[] = "0123456789abcdef";
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *known = c != '\0' ? strchr(from, c) : NULL;

	out[0] = '\\';
	if (known != NULL) {
		out[1] = to[known - from];
		return 2;
	}
	memcpy(out + 1, "u00", 3);
	out[4] = hex[c >> 4];
	out[5] = hex[c & 15];
	return 6;
}

enum err
json_quote(struct buf *out, const char *text, size_t n)
{
	const char *p = text, *end = text + n;
	size_t before = out->len;
	enum err rc;

	if ((rc = buf_putc(out, '"')) != ERR_OK)
		return rc;
	while (p < end) {
		const char *run = p;
		char code[6];

		while (p < end && (unsigned char)*p >= 0x20 && *p != '"' &&
		    *p != '\\')
			p++;
		if ((rc = buf_append(out, run, (size_t)(p - run))) != ERR_OK)
			goto undo;
		if (p == end)
			break;
		rc = buf_append(out, code, escape((unsigned char)*p++, code));
		if (rc != ERR_OK)
			goto undo;
	}
	if ((rc = buf_putc(out, '"')) == ERR_OK)
		return ERR_OK;
undo:
	out->len = before;
	if (out->data != NULL)
		out->data[before] = '\0';
	return rc;
}

const cJSON *
json_get(const cJSON *object, const char *key)
{
	return cJSON_IsObject(object)
	    ? cJSON_GetObjectItemCaseSensitive(object, key)
	    : NULL;
}

const char *
json_get_string(const cJSON *object, const char *key)
{
	const cJSON *item = json_get(object, key);

	return cJSON_IsString(item) ? item->valuestring : NULL;
}
