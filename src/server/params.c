#include <string.h>

#include "server/params.h"

/* Reads one length, in one byte or in four; *at moves behind it. False while
 * bytes are missing. */
static bool
take_length(const struct params *params, size_t *at, size_t *ret_len)
{
	const uint8_t *p = params->lengths + *at;
	size_t have = params->have - *at;

	if (have == 0 || (p[0] >= 0x80 && have < 4))
		return false;
	if (p[0] < 0x80) {
		*ret_len = p[0];
		*at += 1;
		return true;
	}
	*ret_len = (size_t)(p[0] & 0x7f) << 24 | (size_t)p[1] << 16 |
	    (size_t)p[2] << 8 | p[3];
	*at += 4;
	return true;
}

/* One more byte of the lengths. */
static enum err
take_byte(struct params *params, uint8_t byte, size_t max)
{
	size_t at = 0, name, value;

	params->lengths[params->have++] = byte;
	if (!take_length(params, &at, &name) ||
	    !take_length(params, &at, &value))
		return ERR_OK;
	params->have = 0;
	if (name > max || value > max - name)
		return ERR_PARSE;
	params->left = name + value;
	return ERR_OK;
}

enum err
params_take(struct params *params, const uint8_t *data, size_t n, size_t max)
{
	enum err rc = ERR_OK;

	while (n > 0 && rc == ERR_OK) {
		size_t part = n < params->left ? n : params->left;

		if (part == 0) {
			rc = take_byte(params, *data, max);
			part = 1;
		} else if (memchr(data, '\0', part) != NULL) {
			rc = ERR_PARSE;
		} else {
			params->left -= part;
		}
		data += part;
		n -= part;
	}
	return rc;
}

bool
params_complete(const struct params *params)
{
	return params->have == 0 && params->left == 0;
}
