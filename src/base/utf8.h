/* UTF-8, written and decoded byte by byte. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Writes a code point (surrogates too) in 1 to 4 bytes; returns how many. */
size_t utf8_put(char *out, uint32_t code);

/* How many bytes from the start are valid UTF-8: n when all are. */
size_t utf8_valid(const char *text, size_t n);

/* Whether text, decoded with such, holds a lone surrogate. */
bool utf8_has_surrogate(const char *text, size_t n);

/* Decoding byte by byte. Zero-initialise. */
struct utf8_decoder {
	unsigned char bytes[4];
	unsigned have;           /* bytes of an unfinished character */
	unsigned need;           /* bytes that it will have */
	unsigned char low, high; /* bounds of the next byte */
};

enum utf8_step {
	UTF8_MORE,     /* the character is not complete */
	UTF8_CHAR,     /* decoder->bytes holds one of ->have bytes */
	UTF8_BAD,      /* a broken one ended before this byte: feed it
				 * again */
	UTF8_BAD_BYTE, /* this byte begins nothing */
};

/* Feeds one byte. After UTF8_CHAR the decoder is to be fed on; its bytes are
 * borrowed until then. */
enum utf8_step utf8_feed(struct utf8_decoder *decoder, unsigned char byte);

#endif
