/* Base64 (RFC 4648, section 4) by nettle. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stddef.h>

#include "base/buf.h"

/* Appends the base64 of n bytes, padded, without line breaks. */
enum err base64_encode(struct buf *out, const void *data, size_t n) MUST_CHECK;

/* Appends what the n characters of text encode. White space is skipped;
 * anything else foreign, and a wrong padding, is ERR_PARSE (out untouched). */
enum err base64_decode(struct buf *out, const char *text, size_t n) MUST_CHECK;

#endif
