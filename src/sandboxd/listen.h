/* The address that sandboxd serves. */
#ifndef SANDBOXD_LISTEN_H
#define SANDBOXD_LISTEN_H

#include <sys/types.h>

#include "base/conf.h"
#include "base/err.h"

#define LISTEN_PATH_MAX 108 /* of a socket address */

struct listen {
	int fd;                     /* owned until it is handed on */
	char path[LISTEN_PATH_MAX]; /* of the Unix socket, or "" */
	dev_t device;               /* and its inode, so that only ours is */
	ino_t inode;                /* removed */
	char name[160]; /* for people: "unix:/…" or "127.0.0.1:8060" */
};

/* Listens where address says: unix:/path, HOST:PORT with a loopback host, or
 * "" for the default socket. A Unix socket gets mode 0660, the user uid and
 * the group of the folder it lies in (made with mode 0750 when missing), so
 * that the folder's group says who may connect. A stale socket is replaced;
 * one that somebody serves is ERR_CONF. *fault says what is wrong. */
enum err listen_open(struct listen *ls, const char *address, int backlog,
    uid_t uid, gid_t gid, struct conf_fault *fault) MUST_CHECK;

/* Removes the socket file, if it is still ours. */
void listen_remove(const struct listen *ls);

#endif
