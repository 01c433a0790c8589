/*
 * A growable byte buffer with a maximum given at its birth. Holds any bytes;
 * one NUL always follows the last, so that ->data is a C string too.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/err.h"

struct buf {
	char *data; /* owned; NULL until the first byte */
	size_t len; /* bytes in use, without the NUL */
	size_t cap; /* bytes allocated */
	size_t max; /* most that len may become */
};

/* Makes an empty buffer that will hold at most max bytes. */
void buf_init(struct buf *buf, size_t max);

/* Releases what the buffer owns; it is empty afterwards and may be used
 * again. */
void buf_done(struct buf *buf);

/* Makes room for n more bytes. ERR_LIMIT beyond max, ERR_NOMEM. */
enum err buf_reserve(struct buf *buf, size_t n) MUST_CHECK;

/* Appends n bytes, or nothing at all: ERR_LIMIT, ERR_NOMEM. */
enum err buf_append(struct buf *buf, const void *data, size_t n) MUST_CHECK;
enum err buf_puts(struct buf *buf, const char *text) MUST_CHECK;
enum err buf_putc(struct buf *buf, char c) MUST_CHECK;
enum err buf_printf(struct buf *buf, const char *fmt, ...) MUST_CHECK
    __attribute__((format(printf, 2, 3)));
enum err buf_vprintf(struct buf *buf, const char *fmt, va_list ap) MUST_CHECK
    __attribute__((format(printf, 2, 0)));

/* Removes the first n bytes (all when there are fewer). */
void buf_drop(struct buf *buf, size_t n);

/* Hands out the content as a string that the caller frees (owned), length in
 * *ret_len when that is not NULL; the buffer is empty afterwards. NULL when
 * memory for an empty string could not be had. */
char *buf_steal(struct buf *buf, size_t *ret_len) MUST_CHECK;

/* The content as a C string, "" when empty. Borrowed until the next change. */
const char *buf_str(const struct buf *buf);

#endif
