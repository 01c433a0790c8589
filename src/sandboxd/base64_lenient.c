#include <stdint.h>

#include "sandboxd/base64_lenient.h"

static int
digit(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Writes what a group of digits (2, 3 or 4) holds; returns how many bytes. */
static size_t
put(char *out, uint32_t bits, unsigned digits)
{
	bits <<= 6 * (4 - digits);
	out[0] = (char)(bits >> 16);
	if (digits > 2)
		out[1] = (char)(bits >> 8);
	if (digits > 3)
		out[2] = (char)bits;
	return digits - 1;
}

bool
base64_lenient(char *text, size_t n, size_t *ret_len)
{
	uint32_t bits = 0;
	unsigned digits = 0, pads = 0;
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if ((unsigned char)text[i] >= 0x80)
			return false;
	}
	for (size_t i = 0; i < n; i++) {
		int d = digit((unsigned char)text[i]);

		if (text[i] == '=' && digits >= 2 && digits + ++pads >= 4)
			break;
		if (d < 0)
			continue;
		pads = 0;
		bits = bits << 6 | (uint32_t)d;
		if (++digits < 4)
			continue;
		len += put(text + len, bits, 4);
		digits = 0;
		bits = 0;
	}
	if (digits == 1 || (digits > 1 && digits + pads < 4))
		return false;
	if (digits > 1)
		len += put(text + len, bits, digits);
	*ret_len = len;
	return true;
}
