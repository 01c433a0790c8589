#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "server/listener.h"

/* Interrupts accept4; its handler does nothing. */
#define WAKE_SIGNAL SIGUSR2
#define PAUSE_MS 20

struct listener {
	int fd;
	char *path; /* owned; NULL: not our own socket */
	bool tcp;
	bool started;
	atomic_bool stopping, ended;
	pthread_t thread;
	const struct listener_ops *ops;
	void *arg;
};

/* ---- the socket ---- */

/* Whether somebody listens at the address. */
static bool
is_alive(const struct sockaddr_un *address)
{
	CLEANUP_FD int fd =
	    socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return true;
	return connect(fd, (const struct sockaddr *)address,
		   sizeof(*address)) == 0 ||
	    errno == EAGAIN;
}

static enum err
open_own(struct listener *listener, const struct conf *conf,
    struct conf_fault *fault)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	/* conf bounds the length */
	memcpy(address.sun_path, conf->listen,
	    strnlen(conf->listen, sizeof(address.sun_path) - 1));
	if (is_alive(&address)) {
		snprintf(fault->text, sizeof(fault->text),
		    "%s: another "
		    "process listens there (setting listen)",
		    conf->listen);
		return ERR_CONF;
	}
	if (unlink(conf->listen) == 0)
		errno = 0;
	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener->fd < 0 ||
	    bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) !=
		0 ||
	    (listener->path = strdup(conf->listen)) == NULL ||
	    listen(listener->fd, (int)conf->listen_backlog) != 0) {
		snprintf(fault->text, sizeof(fault->text),
		    "%s: %s (setting "
		    "listen)",
		    conf->listen, strerror(errno));
		return ERR_SYS;
	}
	return ERR_OK;
}

static enum err
open_given(struct listener *listener, struct conf_fault *fault)
{
	int listens = 0;
	socklen_t n = sizeof(listens);

	listener->fd = STDIN_FILENO;
	if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) !=
		0 ||
	    !listens) {
		snprintf(fault->text, sizeof(fault->text),
		    "descriptor 0 is "
		    "no listening socket: let a web server start this "
		    "program, or use --listen PATH");
		return ERR_CONF;
	}
	if (fcntl(STDIN_FILENO, F_SETFD, FD_CLOEXEC) != 0)
		return ERR_SYS;
	return ERR_OK;
}

enum err
listener_open(const struct conf *conf, struct conf_fault *fault,
    struct listener **ret_listener)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	struct sockaddr_storage address;
	socklen_t n = sizeof(address);
	enum err rc;

	if (listener == NULL)
		return ERR_NOMEM;
	listener->fd = -1;
	rc = conf->listen[0] != '\0' ? open_own(listener, conf, fault)
				     : open_given(listener, fault);
	if (rc != ERR_OK) {
		listener_close(listener);
		return rc;
	}
	listener->tcp =
	    getsockname(listener->fd, (struct sockaddr *)&address, &n) == 0 &&
	    address.ss_family != AF_UNIX;
	*ret_listener = listener;
	return ERR_OK;
}

/* ---- the thread ---- */

static void
on_wake(int number)
{
	(void)number;
}

static void
pause_ms(long ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000 };

	nanosleep(&t, NULL);
}

static void
accepted(struct listener *listener, int fd)
{
	int one = 1;

	/* answers are written whole: waiting for more gains nothing */
	if (listener->tcp)
		(void)setsockopt(
		    fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	listener->ops->accepted(listener->arg, fd);
}

/* accept4 failed: pauses where trying again at once would only burn time. */
static void
failed(struct listener *listener)
{
	struct pollfd wait = { .fd = listener->fd, .events = POLLIN };

	switch (errno) {
	case EINTR:
	case ECONNABORTED:
		return;
	case EAGAIN:
		/* the web server made the socket non-blocking; it is theirs */
		(void)poll(&wait, 1, 1000);
		return;
	default:
		/* EMFILE, ENFILE, ENOMEM …: they pass */
		pause_ms(PAUSE_MS);
	}
}

static void *
accept_thread(void *arg)
{
	struct listener *listener = arg;
	sigset_t only;

	sigfillset(&only);
	sigdelset(&only, WAKE_SIGNAL);
	pthread_sigmask(SIG_SETMASK, &only, NULL);
	while (!atomic_load(&listener->stopping)) {
		int fd;

		if (!listener->ops->ready(listener->arg)) {
			pause_ms(PAUSE_MS);
			continue;
		}
		fd = accept4(
		    listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			accepted(listener, fd);
		else
			failed(listener);
	}
	atomic_store(&listener->ended, true);
	return NULL;
}

enum err
listener_start(
    struct listener *listener, const struct listener_ops *ops, void *arg)
{
	struct sigaction wake = { .sa_handler = on_wake };
	sigset_t all, old;
	int rc;

	listener->ops = ops;
	listener->arg = arg;
	if (sigaction(WAKE_SIGNAL, &wake, NULL) != 0)
		return ERR_SYS;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&listener->thread, NULL, accept_thread, listener);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return ERR_SYS;
	listener->started = true;
	return ERR_OK;
}

void
listener_stop(struct listener *listener)
{
	if (listener->started) {
		atomic_store(&listener->stopping, true);
		/* again and again, because the first may come just before
		 * accept4 begins to wait */
		while (!atomic_load(&listener->ended)) {
			pthread_kill(listener->thread, WAKE_SIGNAL);
			pause_ms(1);
		}
		pthread_join(listener->thread, NULL);
		listener->started = false;
	}
	if (listener->path != NULL) {
		(void)unlink(listener->path);
		free(listener->path);
		listener->path = NULL;
		close(listener->fd);
		listener->fd = -1;
	}
}

void
listener_close(struct listener *listener)
{
	if (listener == NULL)
		return;
	listener_stop(listener);
	if (listener->fd > STDIN_FILENO)
		close(listener->fd);
	free(listener);
}
