#include <string.h>

#include "transport/event_stream.h"

/* The bytes up to the next line end. */
static size_t
line_length(const char *at, size_t n)
{
	const char *lf = memchr(at, '\n', n), *cr;

	if (lf != NULL)
		n = (size_t)(lf - at);
	cr = memchr(at, '\r', n);
	return cr != NULL ? (size_t)(cr - at) : n;
}

static enum err
put_line(struct buf *out, const char *at, size_t n)
{
	enum err rc;

	if ((rc = buf_puts(out, "data: ")) != ERR_OK ||
	    (rc = buf_append(out, at, n)) != ERR_OK)
		return rc;
	return buf_putc(out, '\n');
}

enum err
event_stream_event(
    struct buf *out, const char *name, const char *data, size_t n)
{
	const char *at = data, *end = data + n;
	enum err rc;

	if ((rc = buf_reserve(out, n + strlen(name) + 32)) != ERR_OK ||
	    (rc = buf_printf(out, "event: %s\n", name)) != ERR_OK)
		return rc;
	for (;;) {
		size_t line = line_length(at, (size_t)(end - at));

		if ((rc = put_line(out, at, line)) != ERR_OK)
			return rc;
		at += line;
		if (at == end)
			return buf_putc(out, '\n');
		at += *at == '\r' && end - at > 1 && at[1] == '\n' ? 2 : 1;
	}
}
