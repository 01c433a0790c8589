#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "server/record.h"

void
record_head_encode(
    uint8_t *ret_bytes, enum record_type type, unsigned id, size_t len)
{
	ret_bytes[0] = RECORD_VERSION;
	ret_bytes[1] = (uint8_t)type;
	ret_bytes[2] = (uint8_t)(id >> 8);
	ret_bytes[3] = (uint8_t)id;
	ret_bytes[4] = (uint8_t)(len >> 8);
	ret_bytes[5] = (uint8_t)len;
	ret_bytes[6] = 0;
	ret_bytes[7] = 0;
}

void
record_head_decode(const uint8_t *bytes, struct record_head *ret_head)
{
	ret_head->version = bytes[0];
	ret_head->type = bytes[1];
	ret_head->id = (unsigned)bytes[2] << 8 | bytes[3];
	ret_head->len = (unsigned)bytes[4] << 8 | bytes[5];
	ret_head->padding = bytes[6];
}

void
record_end(uint8_t *ret_bytes, unsigned id, enum record_status status)
{
	memset(ret_bytes, 0, RECORD_END_SIZE);
	record_head_encode(ret_bytes, RECORD_END_REQUEST, id, 8);
	ret_bytes[RECORD_HEAD + 4] = (uint8_t)status;
}

void
record_unknown(uint8_t *ret_bytes, unsigned type)
{
	memset(ret_bytes, 0, RECORD_END_SIZE);
	record_head_encode(ret_bytes, RECORD_UNKNOWN_TYPE, 0, 8);
	ret_bytes[RECORD_HEAD] = (uint8_t)type;
}

/* Reads one length of a name-value pair: one byte, or four with the highest
 * bit set. */
static bool
take_length(const uint8_t **at, const uint8_t *end, size_t *ret_len)
{
	const uint8_t *p = *at;

	if (p == end)
		return false;
	if ((p[0] & 0x80) == 0) {
		*ret_len = p[0];
		*at = p + 1;
		return true;
	}
	if (end - p < 4)
		return false;
	*ret_len = (size_t)(p[0] & 0x7f) << 24 | (size_t)p[1] << 16 |
	    (size_t)p[2] << 8 | p[3];
	*at = p + 4;
	return true;
}

static size_t
put_pair(uint8_t *out, const char *name, const char *value)
{
	size_t n = strlen(name), v = strlen(value);

	out[0] = (uint8_t)n;
	out[1] = (uint8_t)v;
	memcpy(out + 2, name, n);
	memcpy(out + 2 + n, value, v);
	return 2 + n + v;
}

size_t
record_values(
    uint8_t *ret_bytes, const uint8_t *names, size_t n, unsigned connections)
{
	static const char *const known[] = { "FCGI_MAX_CONNS", "FCGI_MAX_REQS",
		"FCGI_MPXS_CONNS" };
	const uint8_t *at = names, *end = n > 0 ? names + n : names;
	size_t name_len, value_len, len = 0;
	bool told[3] = { false, false, false };
	char number[8];

	snprintf(number, sizeof(number), "%u",
	    connections < 999999 ? connections : 999999);
	while (take_length(&at, end, &name_len) &&
	    take_length(&at, end, &value_len)) {
		if (name_len > (size_t)(end - at) ||
		    value_len > (size_t)(end - at) - name_len)
			break;
		for (size_t i = 0; i < 3; i++) {
			if (told[i] || strlen(known[i]) != name_len ||
			    memcmp(known[i], at, name_len) != 0)
				continue;
			told[i] = true;
			len += put_pair(ret_bytes + RECORD_HEAD + len, known[i],
			    i == 2 ? "0" : number);
		}
		at += name_len + value_len;
	}
	record_head_encode(ret_bytes, RECORD_GET_VALUES_RESULT, 0, len);
	return RECORD_HEAD + len;
}

enum err
record_stdout(struct evbuffer *out, unsigned id, const void *data, size_t n)
{
	const uint8_t *at = data;
	uint8_t head[RECORD_HEAD];

	while (n > 0) {
		size_t part = n < RECORD_CONTENT_MAX ? n : RECORD_CONTENT_MAX;

		record_head_encode(head, RECORD_STDOUT, id, part);
		if (evbuffer_add(out, head, sizeof(head)) != 0 ||
		    evbuffer_add(out, at, part) != 0)
			return ERR_NOMEM;
		at += part;
		n -= part;
	}
	return ERR_OK;
}

enum err
record_finish(struct evbuffer *out, unsigned id)
{
	uint8_t bytes[RECORD_HEAD + RECORD_END_SIZE];

	record_head_encode(bytes, RECORD_STDOUT, id, 0);
	record_end(bytes + RECORD_HEAD, id, RECORD_REQUEST_COMPLETE);
	return evbuffer_add(out, bytes, sizeof(bytes)) == 0 ? ERR_OK
							    : ERR_NOMEM;
}
