/* The sending half: one connection for each message. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "state/inbox_private.h"

/* without any progress */
#define SEND_MS 2000
#define RETRY_MS 20

struct outgoing {
	LIST_ENTRY(outgoing) link;
	struct inbox *inbox;
	int fd; /* -1: not connected */
	struct event event;
	uint64_t until_ms;
	unsigned char head[FRAME_HEAD];
	unsigned char ack[FRAME_ACK];
	size_t sent, got;
	size_t len;
	void (*done)(void *arg, struct inbox_sent sent);
	void *arg;
	char path[TABLE_INBOX_MAX];
	char body[];
};

static void
outgoing_finish(struct outgoing *out, enum err err, enum inbox_ack ack)
{
	void (*done)(void *arg, struct inbox_sent sent) = out->done;
	struct inbox_sent sent = { err, ack };
	void *arg = out->arg;

	event_del(&out->event);
	LIST_REMOVE(out, link);
	if (out->fd >= 0)
		close(out->fd);
	free(out);
	if (done != NULL)
		done(arg, sent);
}

static void outgoing_event(evutil_socket_t fd, short what, void *arg);

/* Comes back when what happens, or after ms at most. */
static void
outgoing_wait(struct outgoing *out, short what, uint64_t ms)
{
	struct timeval tv = {
		.tv_sec = (time_t)(ms / 1000),
		.tv_usec = (suseconds_t)(ms % 1000 * 1000),
	};

	event_del(&out->event);
	event_assign(
	    &out->event, out->inbox->base, out->fd, what, outgoing_event, out);
	if (event_add(&out->event, &tv) != 0)
		outgoing_finish(out, ERR_BUSY, INBOX_REFUSED);
}

static uint64_t
left(const struct outgoing *out)
{
	uint64_t now = clock_ms();

	return now < out->until_ms ? out->until_ms - now : 0;
}

/* ERR_TIMEOUT: try again soon. */
static enum err
outgoing_connect(struct outgoing *out)
{
	out->fd = inbox_connect(out->path);
	if (out->fd >= 0)
		return inbox_peer_ours(out->fd) ? ERR_OK : ERR_NOT_FOUND;
	switch (errno) {
	case EAGAIN: /* its backlog is full */
	case EINTR:
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		return ERR_TIMEOUT;
	case ECONNREFUSED: /* it died; listener_make says why this is sure */
		unlink(out->path);
		return ERR_NOT_FOUND;
	default:
		return ERR_NOT_FOUND;
	}
}

/* ERR_OK when all is written, ERR_TRUNCATED when the socket is full. */
static enum err
outgoing_write(struct outgoing *out)
{
	while (out->sent < FRAME_HEAD + out->len) {
		struct iovec iov[2];
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
		size_t head =
		    out->sent < FRAME_HEAD ? FRAME_HEAD - out->sent : 0;
		size_t body =
		    out->sent < FRAME_HEAD ? 0 : out->sent - FRAME_HEAD;
		ssize_t n;

		iov[0] = (struct iovec){ out->head + FRAME_HEAD - head, head };
		iov[1] = (struct iovec){ out->body + body, out->len - body };
		n = sendmsg(out->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? ERR_TRUNCATED : ERR_CLOSED;
		out->sent += (size_t)n;
		out->until_ms = clock_ms() + SEND_MS;
	}
	return ERR_OK;
}

/* ERR_OK when the ack is there, ERR_TRUNCATED before. */
static enum err
outgoing_read(struct outgoing *out)
{
	while (out->got < FRAME_ACK) {
		ssize_t n = recv(out->fd, out->ack + out->got,
		    FRAME_ACK - out->got, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return ERR_TRUNCATED;
		if (n <= 0)
			return ERR_CLOSED;
		out->got += (size_t)n;
	}
	return ERR_OK;
}

static void
outgoing_acked(struct outgoing *out)
{
	enum inbox_ack ack;

	if (frame_ack_decode(out->ack, &ack) == ERR_OK)
		outgoing_finish(out, ERR_OK, ack);
	else
		outgoing_finish(out, ERR_NOT_FOUND, INBOX_UNKNOWN);
}

/* Gives up. After the shutdown the owner can't write its ack any more, so it
 * knows that nothing may be executed; an ack written before is still read. */
static void
outgoing_expire(struct outgoing *out)
{
	if (out->fd >= 0) {
		shutdown(out->fd, SHUT_RD);
		if (outgoing_read(out) == ERR_OK) {
			outgoing_acked(out);
			return;
		}
	}
	outgoing_finish(out, ERR_BUSY, INBOX_REFUSED);
}

static void
outgoing_step(struct outgoing *out)
{
	enum err rc = ERR_OK;

	if (out->fd < 0 && (rc = outgoing_connect(out)) == ERR_TIMEOUT) {
		outgoing_wait(out, 0, RETRY_MS);
		return;
	}
	if (rc == ERR_OK)
		rc = outgoing_write(out);
	if (rc == ERR_TRUNCATED) {
		outgoing_wait(out, EV_WRITE, left(out));
		return;
	}
	if (rc == ERR_OK && (rc = outgoing_read(out)) == ERR_TRUNCATED) {
		outgoing_wait(out, EV_READ, left(out));
		return;
	}
	if (rc == ERR_OK)
		outgoing_acked(out);
	else
		outgoing_finish(out, ERR_NOT_FOUND, INBOX_UNKNOWN);
}

static void
outgoing_event(evutil_socket_t fd, short what, void *arg)
{
	struct outgoing *out = arg;

	(void)fd;
	(void)what;
	if (left(out) == 0)
		outgoing_expire(out);
	else
		outgoing_step(out);
}

static enum err
outgoing_new(struct inbox *inbox, const struct frame *frame, const char *body,
    struct outgoing **ret_out)
{
	struct outgoing *out;
	enum err rc;

	if (frame->len > state_body_max(inbox->state) + INBOX_EXTRA)
		return ERR_LIMIT;
	if ((out = calloc(1, sizeof(*out) + frame->len)) == NULL)
		return ERR_NOMEM;
	if ((rc = frame_encode(frame, out->head)) != ERR_OK) {
		free(out);
		return rc;
	}
	if (frame->len > 0)
		memcpy(out->body, body, frame->len);
	out->inbox = inbox;
	out->fd = -1;
	out->len = frame->len;
	out->until_ms = clock_ms() + SEND_MS;
	*ret_out = out;
	return ERR_OK;
}

enum err
inbox_send(struct inbox *inbox, uint64_t process, enum inbox_type type,
    const char *session, const char *body, size_t len,
    void (*done)(void *arg, struct inbox_sent sent), void *arg)
{
	struct timeval now = { 0, 0 };
	struct frame frame = { .type = type, .len = len };
	struct outgoing *out;
	enum err rc;

	if (strlen(session) > SESSION_ID_LEN)
		return ERR_PARSE;
	memcpy(frame.session, session, strlen(session));
	if ((rc = outgoing_new(inbox, &frame, body, &out)) != ERR_OK)
		return rc;
	out->done = done;
	out->arg = arg;
	state_inbox_path(inbox->state, process, out->path, sizeof(out->path));
	/* everything happens in the loop, after we have returned */
	event_assign(&out->event, inbox->base, -1, 0, outgoing_event, out);
	if (event_add(&out->event, &now) != 0) {
		free(out);
		return ERR_NOMEM;
	}
	LIST_INSERT_HEAD(&inbox->sends, out, link);
	return ERR_OK;
}

void
inbox_send_close(struct inbox *inbox)
{
	while (!LIST_EMPTY(&inbox->sends))
		outgoing_finish(
		    LIST_FIRST(&inbox->sends), ERR_CLOSED, INBOX_REFUSED);
}
