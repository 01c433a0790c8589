#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandboxd/channel.h"

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

enum err
channel_send(int socket, const void *data, size_t n, int fd)
{
	struct iovec iov = { (void *)(uintptr_t)data, n };
	union control control = { .space = { 0 } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (fd >= 0) {
		struct cmsghdr *c = &control.header;

		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	while (
	    (sent = sendmsg(socket, &msg, MSG_NOSIGNAL)) < 0 && errno == EINTR)
		;
	if (sent < 0)
		return errno == EPIPE || errno == ECONNRESET ? ERR_CLOSED
							     : ERR_SYS;
	return (size_t)sent == n ? ERR_OK : ERR_INTERNAL;
}

static int
descriptor_of(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	int fd = -1;

	if (c != NULL && c->cmsg_level == SOL_SOCKET &&
	    c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

enum err
channel_receive(int socket, void *ret_data, size_t n, int *ret_fd)
{
	struct iovec iov = { ret_data, n };
	union control control = { .space = { 0 } };
	struct msghdr msg = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	ssize_t got;
	int fd;

	while ((got = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC)) < 0 &&
	    errno == EINTR)
		;
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return ERR_TIMEOUT;
	if (got <= 0)
		return got == 0 || errno == ECONNRESET ? ERR_CLOSED : ERR_SYS;
	fd = descriptor_of(&msg);
	if ((size_t)got != n) {
		if (fd >= 0)
			close(fd);
		return ERR_PARSE;
	}
	*ret_fd = fd;
	return ERR_OK;
}
