#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"

#define LINE_MAX_BYTES 4096
#define TEXT_MAX_BYTES 2048

static const char *const names[] = { "error", "warn", "info", "debug" };
static atomic_int log_level = LOG_LEVEL_WARN;
static atomic_int log_fd = STDERR_FILENO;

void
log_setup(enum log_level level, int fd)
{
	atomic_store(&log_level, (int)level);
	atomic_store(&log_fd, fd);
}

enum err
log_level_parse(const char *name, enum log_level *ret_level)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return ERR_OK;
		}
	}
	return ERR_NOT_FOUND;
}

/* Copies text so that no control character survives: a log line stays one
 * line whatever a peer sent. Returns how many bytes were written. */
static size_t
escape(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text != '\0' && n + 5 < size; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			n += (size_t)snprintf(out + n, size - n, "\\x%02x", c);
		else
			out[n++] = (char)c;
	}
	return n;
}

static size_t
prefix(char *out, size_t size, enum log_level level, const char *event)
{
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
	n += (size_t)snprintf(out + n, size - n, ".%03ldZ %s %s pid=%ld ",
	    now.tv_nsec / 1000000, names[level], event, (long)getpid());
	return n;
}

void
log_event(enum log_level level, const char *event, const char *fmt, ...)
{
	char text[TEXT_MAX_BYTES], line[LINE_MAX_BYTES];
	int saved = errno;
	va_list ap;
	size_t n;

	if ((int)level > atomic_load(&log_level))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = prefix(line, sizeof(line), level, event);
	n += escape(line + n, sizeof(line) - n - 1, text);
	line[n++] = '\n';
	/* one write, so that lines of several processes do not mix; a log that
	 * can't be written must not stop the service */
	if (write(atomic_load(&log_fd), line, n) < 0)
		errno = saved;
	errno = saved;
}
