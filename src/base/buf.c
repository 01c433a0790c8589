#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define BUF_FIRST 64

void
buf_init(struct buf *buf, size_t max)
{
	*buf = (struct buf){ .max = max };
}

void
buf_done(struct buf *buf)
{
	free(buf->data);
	buf_init(buf, buf->max);
}

enum err
buf_reserve(struct buf *buf, size_t n)
{
	size_t need, cap;
	char *data;

	if (n > buf->max - buf->len)
		return ERR_LIMIT;
	need = buf->len + n + 1;
	if (need <= buf->cap)
		return ERR_OK;
	cap = buf->cap < BUF_FIRST ? BUF_FIRST : buf->cap;
	while (cap < need)
		cap = cap > (size_t)-1 / 2 ? need : cap * 2;
	if ((data = realloc(buf->data, cap)) == NULL)
		return ERR_NOMEM;
	data[buf->len] = '\0';
	buf->data = data;
	buf->cap = cap;
	return ERR_OK;
}

enum err
buf_append(struct buf *buf, const void *data, size_t n)
{
	enum err rc;

	if ((rc = buf_reserve(buf, n)) != ERR_OK)
		return rc;
	if (n > 0)
		memcpy(buf->data + buf->len, data, n);
	buf->len += n;
	buf->data[buf->len] = '\0';
	return ERR_OK;
}

enum err
buf_puts(struct buf *buf, const char *text)
{
	return buf_append(buf, text, strlen(text));
}

enum err
buf_putc(struct buf *buf, char c)
{
	return buf_append(buf, &c, 1);
}

enum err
buf_vprintf(struct buf *buf, const char *fmt, va_list ap)
{
	va_list again;
	enum err rc;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		return ERR_INTERNAL;
	if ((rc = buf_reserve(buf, (size_t)n)) != ERR_OK)
		return rc;
	vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, ap);
	buf->len += (size_t)n;
	return ERR_OK;
}

enum err
buf_printf(struct buf *buf, const char *fmt, ...)
{
	va_list ap;
	enum err rc;

	va_start(ap, fmt);
	rc = buf_vprintf(buf, fmt, ap);
	va_end(ap);
	return rc;
}

void
buf_drop(struct buf *buf, size_t n)
{
	if (n >= buf->len)
		n = buf->len;
	if (n == 0)
		return;
	memmove(buf->data, buf->data + n, buf->len - n + 1);
	buf->len -= n;
}

char *
buf_steal(struct buf *buf, size_t *ret_len)
{
	char *data = buf->data;

	if (data == NULL && (data = calloc(1, 1)) == NULL)
		return NULL;
	if (ret_len != NULL)
		*ret_len = buf->len;
	buf_init(buf, buf->max);
	return data;
}

const char *
buf_str(const struct buf *buf)
{
	return buf->data != NULL ? buf->data : "";
}
