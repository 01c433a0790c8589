#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "state/inbox_private.h"

/* messages at once; further senders wait in the backlog, then retry */
#define MESSAGES_MAX 64
#define BACKLOG 64
/* in which a message must have come whole */
#define FRAME_MS 5000
#define READ_AT_ONCE (256 * 1024)
/* a socket that its maker gave up before it had its name */
#define ORPHAN_S 60

struct inbox_message {
	LIST_ENTRY(inbox_message) link;
	struct inbox *inbox;
	int fd;
	uint64_t until_ms;
	struct event event;
	struct frame_reader reader;
};

bool
inbox_peer_ours(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	    cred.uid == geteuid();
}

static bool
address(const char *path, struct sockaddr_un *ret_address)
{
	size_t n = strlen(path);

	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (n >= sizeof(ret_address->sun_path))
		return false;
	memcpy(ret_address->sun_path, path, n);
	return true;
}

int
inbox_connect(const char *path)
{
	CLEANUP_FD int fd = -1;
	struct sockaddr_un sa;

	if (!address(path, &sa)) {
		errno = ENOENT;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
		return -1;
	return STEAL_FD(fd);
}

static void
accept_resume(struct inbox *inbox)
{
	if (!inbox->listening && inbox->count < MESSAGES_MAX &&
	    inbox->readable != NULL && event_add(inbox->readable, NULL) == 0)
		inbox->listening = true;
}

static void
accept_pause(struct inbox *inbox)
{
	event_del(inbox->readable);
	inbox->listening = false;
}

static void
message_free(struct inbox_message *message)
{
	struct inbox *inbox = message->inbox;

	event_del(&message->event);
	LIST_REMOVE(message, link);
	close(message->fd);
	frame_reader_done(&message->reader);
	free(message);
	inbox->count--;
	accept_resume(inbox);
}

static void
message_deliver(struct inbox_message *message)
{
	struct inbox *inbox = message->inbox;
	struct inbox_view view = {
		.type = message->reader.frame.type,
		.session = message->reader.frame.session,
		.body = message->reader.body,
		.len = message->reader.frame.len,
	};

	/* may ack, and so release, the message at once */
	inbox->ops->received(inbox->arg, message, &view);
}

/* Reads what there is, up to READ_AT_ONCE. ERR_TRUNCATED: wait for more. */
static enum err
message_fill(struct inbox_message *message)
{
	size_t budget = READ_AT_ONCE;

	for (;;) {
		size_t n;
		void *space = frame_reader_space(&message->reader, &n);
		ssize_t got;
		enum err rc;

		if (n > budget)
			n = budget;
		if (n == 0)
			return ERR_TRUNCATED;
		got = recv(message->fd, space, n, MSG_DONTWAIT);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return ERR_TRUNCATED;
		if (got <= 0)
			return ERR_CLOSED;
		budget -= (size_t)got;
		rc = frame_reader_got(&message->reader, (size_t)got);
		if (rc != ERR_TRUNCATED)
			return rc;
	}
}

/* Waits for more, within what is left of FRAME_MS. */
static bool
message_wait(struct inbox_message *message)
{
	uint64_t now = clock_ms(), left;
	struct timeval tv;

	if (now >= message->until_ms)
		return false;
	left = message->until_ms - now;
	tv.tv_sec = (time_t)(left / 1000);
	tv.tv_usec = (suseconds_t)(left % 1000 * 1000);
	return event_add(&message->event, &tv) == 0;
}

static void
message_event(evutil_socket_t fd, short what, void *arg)
{
	struct inbox_message *message = arg;
	enum err rc = ERR_TIMEOUT;

	(void)fd;
	if (what & EV_READ)
		rc = message_fill(message);
	if (rc == ERR_OK)
		message_deliver(message);
	else if (rc != ERR_TRUNCATED || !message_wait(message))
		message_free(message);
}

/* Takes ownership of fd. */
static void
message_new(struct inbox *inbox, int fd)
{
	struct inbox_message *message = calloc(1, sizeof(*message));

	if (message == NULL || !inbox_peer_ours(fd)) {
		free(message);
		close(fd);
		return;
	}
	message->inbox = inbox;
	message->fd = fd;
	message->until_ms = clock_ms() + FRAME_MS;
	frame_reader_init(&message->reader,
	    (size_t)state_body_max(inbox->state) + INBOX_EXTRA);
	event_assign(
	    &message->event, inbox->base, fd, EV_READ, message_event, message);
	LIST_INSERT_HEAD(&inbox->messages, message, link);
	inbox->count++;
	if (!message_wait(message))
		message_free(message);
}

static void
accept_event(evutil_socket_t fd, short what, void *arg)
{
	struct inbox *inbox = arg;

	(void)what;
	while (inbox->count < MESSAGES_MAX) {
		int peer =
		    accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (peer >= 0) {
			message_new(inbox, peer);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno == EAGAIN)
			return;
		/* out of descriptors or memory: the watch begins again */
		break;
	}
	accept_pause(inbox);
}

/* Binds under another name first: a socket under its own name that refuses
 * connections is a dead one, for every process. */
static int
listener_make(const char *path)
{
	CLEANUP_FD int fd = -1;
	char temp[TABLE_INBOX_MAX];
	struct sockaddr_un sa;

	snprintf(temp, sizeof(temp), "%.*s.temp", (int)strlen(path) - 5, path);
	if (!address(temp, &sa)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	unlink(temp);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
		return -1;
	if (chmod(temp, 0600) != 0 || listen(fd, BACKLOG) != 0 ||
	    rename(temp, path) != 0) {
		unlink(temp);
		return -1;
	}
	return STEAL_FD(fd);
}

static void
listener_close(struct inbox *inbox)
{
	if (inbox->readable != NULL)
		event_free(inbox->readable);
	inbox->readable = NULL;
	inbox->listening = false;
	if (inbox->fd >= 0)
		close(inbox->fd);
	inbox->fd = -1;
}

static enum err
listener_open(struct inbox *inbox)
{
	struct stat st;

	if (mkdir(state_run_dir(inbox->state), 0700) != 0 && errno != EEXIST)
		return ERR_SYS;
	if ((inbox->fd = listener_make(inbox->path)) < 0 ||
	    lstat(inbox->path, &st) != 0)
		return ERR_SYS;
	inbox->inode = st.st_ino;
	inbox->device = st.st_dev;
	inbox->readable = event_new(
	    inbox->base, inbox->fd, EV_READ | EV_PERSIST, accept_event, inbox);
	if (inbox->readable == NULL)
		return ERR_NOMEM;
	accept_resume(inbox);
	return inbox->listening || inbox->count >= MESSAGES_MAX ? ERR_OK
								: ERR_SYS;
}

/* Every second: the run folder may be cleared under us (logind does that to
 * /run/user), and an accept that failed for want of descriptors goes on. */
static void
watch_event(evutil_socket_t fd, short what, void *arg)
{
	struct inbox *inbox = arg;
	struct stat st;

	(void)fd;
	(void)what;
	if (inbox->fd >= 0 && lstat(inbox->path, &st) == 0 &&
	    st.st_ino == inbox->inode && st.st_dev == inbox->device) {
		accept_resume(inbox);
		return;
	}
	listener_close(inbox);
	if (listener_open(inbox) != ERR_OK)
		listener_close(inbox);
}

static bool
named(const char *name, const char *suffix)
{
	return strspn(name, "0123456789abcdef") == 16 &&
	    strcmp(name + 16, suffix) == 0;
}

/* Whether nobody listens at a socket any more. */
static bool
socket_dead(const char *path, const char *name)
{
	CLEANUP_FD int fd = -1;
	struct stat st;

	if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode) ||
	    st.st_uid != geteuid())
		return false;
	if (named(name, ".temp"))
		return st.st_mtime + ORPHAN_S < time(NULL);
	if (!named(name, ".sock"))
		return false;
	fd = inbox_connect(path);
	return fd < 0 && errno == ECONNREFUSED;
}

/* Removes what processes left behind that nobody saw dying. */
static void
sweep(const char *folder)
{
	CLEANUP_DIR DIR *dir = opendir(folder);
	struct dirent *entry;

	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL) {
		char path[sizeof(((struct state *)0)->run_dir) + 258];

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (socket_dead(path, entry->d_name))
			unlink(path);
	}
}

enum err
inbox_open(struct state *state, struct event_base *base,
    const struct inbox_ops *ops, void *arg, struct inbox **ret_inbox)
{
	struct timeval second = { 1, 0 };
	struct inbox *inbox = calloc(1, sizeof(*inbox));
	enum err rc;

	if (inbox == NULL)
		return ERR_NOMEM;
	inbox->state = state;
	inbox->base = base;
	inbox->ops = ops;
	inbox->arg = arg;
	inbox->fd = -1;
	state_inbox_path(
	    state, state_process(state), inbox->path, sizeof(inbox->path));
	sweep(state_run_dir(state));
	if ((rc = listener_open(inbox)) == ERR_OK) {
		inbox->watch =
		    event_new(base, -1, EV_PERSIST, watch_event, inbox);
		rc = inbox->watch != NULL &&
			event_add(inbox->watch, &second) == 0
		    ? ERR_OK
		    : ERR_NOMEM;
	}
	if (rc != ERR_OK) {
		inbox_close(inbox);
		return rc;
	}
	*ret_inbox = inbox;
	return ERR_OK;
}

void
inbox_close(struct inbox *inbox)
{
	struct stat st;

	if (inbox == NULL)
		return;
	if (inbox->fd >= 0 && lstat(inbox->path, &st) == 0 &&
	    st.st_ino == inbox->inode && st.st_dev == inbox->device)
		unlink(inbox->path);
	listener_close(inbox);
	if (inbox->watch != NULL)
		event_free(inbox->watch);
	while (!LIST_EMPTY(&inbox->messages))
		message_free(LIST_FIRST(&inbox->messages));
	inbox_send_close(inbox);
	free(inbox);
}

void
inbox_ack(struct inbox_message *message, enum inbox_ack ack,
    void (*written)(void *arg), void (*lost)(void *arg), void *arg)
{
	unsigned char bytes[FRAME_ACK];
	ssize_t n;

	frame_ack_encode(ack, bytes);
	/* the socket is empty: the few bytes fit, or the sender is gone */
	n = send(
	    message->fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
	message_free(message);
	if (n == (ssize_t)sizeof(bytes)) {
		if (written != NULL)
			written(arg);
	} else if (lost != NULL) {
		lost(arg);
	}
}
