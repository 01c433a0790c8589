/* Unguessable bytes from the kernel. */
#ifndef BASE_RND_H
#define BASE_RND_H

#include <stddef.h>

#include "base/err.h"

/* Fills n bytes. ERR_SYS where the kernel gives none; never fewer. */
enum err rnd_bytes(void *ret_bytes, size_t n) MUST_CHECK;

/* Writes 2 * n lower-case hexadecimal digits of n random bytes and a NUL. */
enum err rnd_hex(char *ret_hex, size_t n) MUST_CHECK;

#endif
