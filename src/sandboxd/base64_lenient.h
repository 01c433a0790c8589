/* Base64 as Python's b64decode reads it without "validate". */
#ifndef SANDBOXD_BASE64_LENIENT_H
#define SANDBOXD_BASE64_LENIENT_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes n characters in place. Characters outside the alphabet are passed
 * over, everything behind a complete padding is ignored. False (text is then
 * of no use) for a wrong padding or a byte that is not ASCII. */
bool base64_lenient(char *text, size_t n, size_t *ret_len);

#endif
