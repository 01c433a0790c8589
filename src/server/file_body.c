/* A file as the body of an answer: never more than one piece in memory. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "server/conn.h"

struct file_body {
	int fd; /* owned */
	uint64_t at, left;
	size_t queued; /* at the last look */
	uint64_t looked;
};

void
conn_file_free(struct conn *conn)
{
	if (conn->file == NULL)
		return;
	close(conn->file->fd);
	free(conn->file);
	conn->file = NULL;
	conn->server->files--;
}

void
conn_file_begin(struct conn *conn, struct http_response *response)
{
	struct file_body *file = calloc(1, sizeof(*file));
	size_t waiting;

	if (file == NULL) {
		evbuffer_drain(conn->server->scratch,
		    evbuffer_get_length(conn->server->scratch));
		conn_doom(conn);
		return;
	}
	file->fd = response->file;
	file->at = response->file_at;
	file->left = response->file_len;
	response->file = -1;
	conn->file = file;
	conn->server->files++;
	conn->phase = CONN_FILE;
	tick_start(&conn->server->answering, &conn->tick);
	conn_flush(conn);
	if (conn->phase != CONN_FILE)
		return;
	/* else the next piece follows when this has gone */
	waiting = evbuffer_get_length(bufferevent_get_output(conn->bev));
	if (waiting == 0)
		conn_file_more(conn);
}

/* Reads a piece; 0 when there is none: the file is not what it was. */
static size_t
read_piece(struct file_body *file, char *piece, size_t size)
{
	size_t n = file->left < size ? (size_t)file->left : size;
	ssize_t got;

	do {
		got = pread(file->fd, piece, n, (off_t)file->at);
	} while (got < 0 && errno == EINTR);
	if (got <= 0)
		return 0;
	file->at += (uint64_t)got;
	file->left -= (uint64_t)got;
	return (size_t)got;
}

void
conn_file_more(struct conn *conn)
{
	/* the loop's thread alone comes here */
	static char piece[RECORD_CONTENT_MAX];
	struct evbuffer *scratch = conn->server->scratch;
	struct evbuffer *out = bufferevent_get_output(conn->bev);
	struct file_body *file = conn->file;
	size_t n;

	if (file->left == 0) {
		conn_file_free(conn);
		conn_finish(conn);
		return;
	}
	tick_start(&conn->server->answering, &conn->tick);
	n = read_piece(file, piece, sizeof(piece));
	/* not conn_flush: a fast peer must not keep the loop */
	if (n == 0 ||
	    record_stdout(scratch, conn->gather.id, piece, n) != ERR_OK ||
	    evbuffer_add_buffer(out, scratch) != 0) {
		log_warn(
		    "file.broken", "left=%llu", (unsigned long long)file->left);
		evbuffer_drain(scratch, evbuffer_get_length(scratch));
		conn_doom(conn);
	}
}

bool
conn_file_moved(struct conn *conn)
{
	struct file_body *file = conn->file;
	size_t queued;
	bool moved;

	if (file == NULL)
		return false;
	queued = evbuffer_get_length(bufferevent_get_output(conn->bev));
	moved = queued != file->queued || file->at != file->looked;
	file->queued = queued;
	file->looked = file->at;
	return moved;
}
