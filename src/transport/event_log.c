#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/rnd.h"
#include "transport/event_log.h"
#include "transport/event_log_file.h"

/* What events may take beside the last one. */
#define BYTES_MAX ((size_t)1 << 20)
#define RECORD_HEAD 20 /* "%08x %08x %c\n" and its NUL is no part */
#define RECORD_MAX ((size_t)1 << 30)

void
event_log_none(struct event_log *log)
{
	*log = (struct event_log){ .fd = -1 };
}

static void
path_of(char *ret_path, size_t size, const char *dir, const char *session,
    const char *name)
{
	snprintf(ret_path, size, "%s/" EVENT_LOG_PREFIX "%.*s-%s", dir,
	    EVENT_LOG_SESSION, session, name);
}

static bool
write_all(int fd, const void *data, size_t n)
{
	const char *at = data;

	while (n > 0) {
		ssize_t wrote = write(fd, at, n);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return false;
		at += wrote;
		n -= (size_t)wrote;
	}
	return true;
}

/* Without disk space nothing can be kept: half a stream would mislead. */
static enum err
give_up(struct event_log *log)
{
	unlink(log->path);
	event_log_close(log);
	return ERR_SYS;
}

enum err
event_log_create(struct event_log *log, const char *dir, const char *session,
    const char *raw_id)
{
	char head[RPC_ID_MAX + 2];
	enum err rc;
	int n;

	event_log_none(log);
	if ((rc = rnd_hex(log->name, EVENT_LOG_NAME / 2)) != ERR_OK)
		return rc;
	path_of(log->path, sizeof(log->path), dir, session, log->name);
	log->fd = open(log->path,
	    O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
	    0600);
	if (log->fd < 0)
		return ERR_SYS;
	n = snprintf(head, sizeof(head), "%s\n", raw_id);
	return write_all(log->fd, head, (size_t)n) ? ERR_OK : give_up(log);
}

void
event_log_next_id(const struct event_log *log, char *ret_id, size_t size)
{
	ret_id[0] = '\0';
	if (log->fd >= 0)
		snprintf(ret_id, size, "%s-%u", log->name, log->count + 1);
}

enum err
event_log_append(struct event_log *log, const void *data, size_t n, bool last)
{
	char head[RECORD_HEAD + 1];

	if (log->fd < 0)
		return ERR_CLOSED;
	if (!last && log->bytes + n > BYTES_MAX)
		return ERR_LIMIT;
	snprintf(head, sizeof(head), "%08x %08x %c\n", log->count + 1,
	    (unsigned)n, last ? '.' : '+');
	if (n > RECORD_MAX || !write_all(log->fd, head, RECORD_HEAD) ||
	    !write_all(log->fd, data, n))
		return give_up(log);
	log->count++;
	log->bytes += n;
	return ERR_OK;
}

void
event_log_touch(struct event_log *log)
{
	if (log->fd >= 0 && futimens(log->fd, NULL) != 0)
		(void)give_up(log);
}

void
event_log_close(struct event_log *log)
{
	if (log->fd >= 0)
		close(log->fd);
	log->fd = -1;
}

/* ---- reading ---- */

enum err
event_log_id(const char *id, char *ret_name, unsigned *ret_number)
{
	const char *digits = id + EVENT_LOG_NAME + 1;
	unsigned number = 0;
	size_t n;

	if (strspn(id, "0123456789abcdef") != EVENT_LOG_NAME ||
	    id[EVENT_LOG_NAME] != '-')
		return ERR_PARSE;
	n = strspn(digits, "0123456789");
	if (n == 0 || n > 9 || digits[n] != '\0')
		return ERR_PARSE;
	for (size_t i = 0; i < n; i++)
		number = number * 10 + (unsigned)(digits[i] - '0');
	memcpy(ret_name, id, EVENT_LOG_NAME);
	ret_name[EVENT_LOG_NAME] = '\0';
	*ret_number = number;
	return ERR_OK;
}

static enum err
read_head(struct event_reader *reader)
{
	char head[RPC_ID_MAX + 2];
	ssize_t n = pread(reader->fd, head, sizeof(head), 0);
	char *end = n > 0 ? memchr(head, '\n', (size_t)n) : NULL;

	if (end == NULL)
		return ERR_NOT_FOUND;
	memcpy(reader->raw_id, head, (size_t)(end - head));
	reader->raw_id[end - head] = '\0';
	reader->at = (uint64_t)(end - head) + 1;
	return ERR_OK;
}

enum err
event_reader_open(struct event_reader *reader, const char *dir,
    const char *session, const char *name)
{
	char path[sizeof(((struct event_log *)0)->path)];
	enum err rc;

	path_of(path, sizeof(path), dir, session, name);
	reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (reader->fd < 0)
		return ERR_NOT_FOUND;
	if ((rc = read_head(reader)) != ERR_OK)
		event_reader_close(reader);
	return rc;
}

void
event_reader_close(struct event_reader *reader)
{
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
}

/* Appends n bytes from the file. ERR_TRUNCATED while they are not there. */
static enum err
read_data(int fd, uint64_t at, size_t n, struct buf *out)
{
	size_t before = out->len;
	enum err rc;

	if ((rc = buf_reserve(out, n)) != ERR_OK)
		return rc;
	while (out->len < before + n) {
		ssize_t got = pread(fd, out->data + out->len,
		    before + n - out->len, (off_t)(at + out->len - before));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			out->len = before;
			return ERR_TRUNCATED;
		}
		out->len += (size_t)got;
	}
	if (out->data != NULL)
		out->data[out->len] = '\0';
	return ERR_OK;
}

enum err
event_reader_next(struct event_reader *reader, struct buf *out,
    unsigned *ret_number, bool *ret_last)
{
	CLEANUP_BUF struct buf head = { .max = RECORD_HEAD };
	unsigned number, n;
	char mark;
	enum err rc;

	if ((rc = read_data(reader->fd, reader->at, RECORD_HEAD, &head)) !=
	    ERR_OK)
		return rc;
	if (sscanf(buf_str(&head), "%8x %8x %c", &number, &n, &mark) != 3 ||
	    n > RECORD_MAX)
		return ERR_PARSE;
	if ((rc = read_data(reader->fd, reader->at + RECORD_HEAD, n, out)) !=
	    ERR_OK)
		return rc;
	reader->at += RECORD_HEAD + n;
	*ret_number = number;
	*ret_last = mark == '.';
	return ERR_OK;
}
