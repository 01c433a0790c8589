/*
 * The socket that web servers connect to, and the thread that accepts. What it
 * meets (no descriptors, no memory, peers that are gone already) makes it
 * pause, never end.
 */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include <stdbool.h>

#include "base/conf.h"
#include "base/err.h"

struct listener;

/* How the accept thread reaches the server; called in that thread. */
struct listener_ops {
	/* A connection, CLOEXEC and non-blocking; takes ownership of fd. */
	void (*accepted)(void *arg, int fd);
	/* Whether another connection may be accepted now. */
	bool (*ready)(void *arg);
};

/* Opens the setting "listen", or takes descriptor 0. A socket left behind by a
 * dead process is replaced, a living one refused. On failure ERR_SYS or
 * ERR_CONF, *fault says what is wrong. */
enum err listener_open(const struct conf *conf, struct conf_fault *fault,
    struct listener **ret_listener) MUST_CHECK;

/* Starts the accept thread. ops and arg are borrowed until
 * listener_stop. ERR_SYS. */
enum err listener_start(struct listener *listener,
    const struct listener_ops *ops, void *arg) MUST_CHECK;

/* Ends the accept thread, and the socket when it is our own: a socket from the
 * web server is shared with our siblings and must stay as it is. */
void listener_stop(struct listener *listener);

/* Stops it if need be. NULL is accepted. */
void listener_close(struct listener *listener);

#endif
