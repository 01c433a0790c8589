#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "sandboxd/reply.h"
#include "base/utf8.h"

#define CHUNK 65536
#define READ_BYTES 49152 /* a multiple of 3 */
#define SKIPPED_MAX 200  /* entries of files_skipped */

/* Gathers small pieces. After a failure it only remembers it. */
struct writer {
	int fd;
	enum err rc;
	size_t n;
	char chunk[CHUNK];
};

static void
flush(struct writer *w)
{
	size_t done = 0;

	while (w->rc == ERR_OK && done < w->n) {
		ssize_t n = write(w->fd, w->chunk + done, w->n - done);

		if (n < 0 && errno != EINTR)
			w->rc = ERR_SYS;
		if (n > 0)
			done += (size_t)n;
	}
	w->n = 0;
}

static void
put(struct writer *w, const char *data, size_t n)
{
	while (n > 0) {
		size_t part = CHUNK - w->n < n ? CHUNK - w->n : n;

		memcpy(w->chunk + w->n, data, part);
		w->n += part;
		data += part;
		n -= part;
		if (w->n == CHUNK)
			flush(w);
	}
}

static void
put_text(struct writer *w, const char *text)
{
	put(w, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void
put_format(struct writer *w, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_text(w, text);
}

static void
put_escape(struct writer *w, unsigned char c)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *found = c != '\0' ? strchr(from, c) : NULL;

	if (found != NULL)
		put_format(w, "\\%c", to[found - from]);
	else
		put_format(w, "\\u%04x", c);
}

/* A JSON string of valid UTF-8. */
static void
put_string(struct writer *w, const char *text, size_t n)
{
	size_t from = 0;

	put_text(w, "\"");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		put(w, text + from, i - from);
		put_escape(w, c);
		from = i + 1;
	}
	put(w, text + from, n - from);
	put_text(w, "\"");
}

/* A JSON string of any bytes: bad ones become U+FFFD. */
static void
put_bytes(struct writer *w, const char *text, size_t n)
{
	CLEANUP_BUF struct buf clean = { 0 };

	buf_init(&clean, 4 * n + 4);
	while (n > 0) {
		size_t good = utf8_valid(text, n);

		if (buf_append(&clean, text, good) != ERR_OK ||
		    (good < n && buf_puts(&clean, UTF8_REPLACEMENT) != ERR_OK))
			w->rc = ERR_NOMEM;
		good += good < n;
		text += good;
		n -= good;
	}
	put_string(w, buf_str(&clean), clean.len);
}

static void
put_buf(struct writer *w, const char *name, const struct buf *text)
{
	put_format(w, "\"%s\": ", name);
	put_string(w, buf_str(text), text->len);
}

static void
put_base64(struct writer *w, const void *data, size_t n)
{
	CLEANUP_BUF struct buf text = { 0 };

	buf_init(&text, 2 * READ_BYTES);
	if ((w->rc = base64_encode(&text, data, n)) == ERR_OK)
		put(w, text.data, text.len);
}

/* Exactly size bytes, as was announced before them. */
static void
put_content(struct writer *w, int fd, uint64_t size)
{
	char data[READ_BYTES];

	while (size > 0 && w->rc == ERR_OK) {
		size_t want = size < READ_BYTES ? (size_t)size : READ_BYTES;
		size_t have = 0;
		ssize_t n = 1;

		while (
		    have < want && (n = read(fd, data + have, want - have)) > 0)
			have += (size_t)n;
		if (n <= 0) {
			w->rc = ERR_SYS;
			return;
		}
		put_base64(w, data, have);
		size -= have;
	}
}

/* Returns whether it could be opened. */
static bool
put_file(struct writer *w, const struct found *file, int dir, bool first)
{
	CLEANUP_FD int fd = -1;
	uint64_t size;

	if ((fd = collect_open(dir, file, &size)) < 0)
		return false;
	put_text(w, first ? "{\"path\": " : ", {\"path\": ");
	put_string(w, file->path, strlen(file->path));
	put_format(
	    w, ", \"size\": %llu, \"content\": \"", (unsigned long long)size);
	put_content(w, fd, size);
	put_text(w, "\"}");
	return true;
}

static void
put_files(struct writer *w, const struct result *result)
{
	bool first = true;

	put_text(w, ", \"files\": [");
	for (size_t i = 0; result->files != NULL && i < result->files->n; i++) {
		if (result->files->files[i].skip == NULL &&
		    put_file(w, &result->files->files[i], result->dir, first))
			first = false;
	}
	put_text(w, "]");
}

static void
put_skipped_one(struct writer *w, const struct found *file, size_t i)
{
	put_text(
	    w, i == 0 ? ", \"files_skipped\": [{\"path\": " : ", {\"path\": ");
	put_bytes(w, file->path, strlen(file->path));
	put_format(w,
	    ", \"size\": %llu, \"reason\": ", (unsigned long long)file->size);
	put_string(w, file->skip, strlen(file->skip));
	put_text(w, "}");
}

static void
put_skipped(struct writer *w, const struct collection *files)
{
	size_t n = 0;

	for (size_t i = 0; files != NULL && i < files->n; i++) {
		if (files->files[i].skip != NULL && n < SKIPPED_MAX)
			put_skipped_one(w, &files->files[i], n++);
	}
	if (n > 0)
		put_text(w, "]");
}

/* Flushes and hands the descriptor out. */
static enum err
finish(struct writer *w, int *fd, int *ret_fd)
{
	flush(w);
	if (w->rc == ERR_OK)
		*ret_fd = STEAL_FD(*fd);
	return w->rc;
}

enum err
reply_result(const struct result *result, int *ret_fd)
{
	CLEANUP_FD int fd = memfd_create("reply", MFD_CLOEXEC);
	static struct writer w;

	if (fd < 0)
		return ERR_SYS;
	w = (struct writer){ .fd = fd, .rc = ERR_OK };
	put_text(&w, "{");
	put_buf(&w, "stdout", result->text);
	if (result->has_returncode)
		put_format(&w, ", \"returncode\": %d", result->returncode);
	else
		put_text(&w, ", \"returncode\": null");
	put_files(&w, result);
	put_skipped(&w, result->files);
	if (result->error_text != NULL) {
		put_text(&w, ", ");
		put_buf(&w, "stderr", result->error_text);
	}
	if (result->killed_by != NULL)
		put_format(&w, ", \"killed_by\": \"%s\"", result->killed_by);
	else
		put_text(&w, ", \"killed_by\": null");
	put_format(&w, ", \"duration_ms\": %llu}",
	    (unsigned long long)result->duration_ms);
	return finish(&w, &fd, ret_fd);
}

enum err
reply_fault(const char *title, const struct buf *description, int *ret_fd)
{
	CLEANUP_FD int fd = memfd_create("reply", MFD_CLOEXEC);
	static struct writer w;

	if (fd < 0)
		return ERR_SYS;
	w = (struct writer){ .fd = fd, .rc = ERR_OK };
	put_text(&w, "{\"title\": ");
	put_string(&w, title, strlen(title));
	if (description != NULL && description->len > 0) {
		put_text(&w, ", \"description\": ");
		put_bytes(&w, description->data, description->len);
	}
	put_text(&w, "}");
	return finish(&w, &fd, ret_fd);
}
