#include "base/utf8.h"

size_t
utf8_put(char *out, uint32_t code)
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3f));
		out[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 0x3f));
	out[2] = (char)(0x80 | (code >> 6 & 0x3f));
	out[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* Begins a character. The bounds of the second byte shut out what is too long,
 * a surrogate, or beyond U+10FFFF. */
static enum utf8_step
begin(struct utf8_decoder *d, unsigned char byte)
{
	d->bytes[0] = byte;
	d->have = 1;
	d->low = 0x80;
	d->high = 0xbf;
	if (byte < 0x80)
		return UTF8_CHAR;
	d->need = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
	if (byte < 0xc2 || byte > 0xf4) {
		d->have = 0;
		return UTF8_BAD_BYTE;
	}
	if (byte == 0xe0)
		d->low = 0xa0;
	else if (byte == 0xed)
		d->high = 0x9f;
	else if (byte == 0xf0)
		d->low = 0x90;
	else if (byte == 0xf4)
		d->high = 0x8f;
	return UTF8_MORE;
}

enum utf8_step
utf8_feed(struct utf8_decoder *d, unsigned char byte)
{
	if (d->have == 0 || d->have == d->need || d->bytes[0] < 0x80)
		return begin(d, byte);
	if (byte < d->low || byte > d->high) {
		d->have = 0;
		return UTF8_BAD;
	}
	d->low = 0x80;
	d->high = 0xbf;
	d->bytes[d->have++] = byte;
	return d->have == d->need ? UTF8_CHAR : UTF8_MORE;
}

size_t
utf8_valid(const char *text, size_t n)
{
	struct utf8_decoder d = { .have = 0 };
	size_t good = 0;

	for (size_t i = 0; i < n; i++) {
		switch (utf8_feed(&d, (unsigned char)text[i])) {
		case UTF8_MORE:
			break;
		case UTF8_CHAR:
			good = i + 1;
			break;
		case UTF8_BAD:
		case UTF8_BAD_BYTE:
			return good;
		}
	}
	return good;
}

bool
utf8_has_surrogate(const char *text, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++) {
		if ((unsigned char)text[i] == 0xed &&
		    (unsigned char)text[i + 1] >= 0xa0)
			return true;
	}
	return false;
}
