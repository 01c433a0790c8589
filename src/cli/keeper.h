/*
 * A sandboxd of our own: started on a Unix socket in a private folder, and
 * ended with us however we end. Between us and it stands a process that
 * notices our end by a pipe: a parent-death signal alone would not outlive
 * sandboxd's change of user when root starts it.
 */
#ifndef CLI_KEEPER_H
#define CLI_KEEPER_H

#include <sys/types.h>

#include "base/conf.h"

#define KEEPER_FOLDER_MAX 64

struct keeper {
	pid_t pid; /* 0: none */
	int pipe;  /* owned: closed, it ends everything */
	char folder[KEEPER_FOLDER_MAX];
};

/* Starts sandboxd with the settings of conf, which is found beside this
 * program, in ../sbin or in PATH, waits until it listens, and sets
 * snekbox_url and sandbox_workers of conf. To be called before any thread
 * runs; signals are as the caller has them, but unblocked in sandboxd. */
enum err keeper_open(struct keeper *keeper, struct conf *conf,
    struct conf_fault *fault) MUST_CHECK;

/* Ends sandboxd and waits for that. A keeper of zeros is accepted. */
void keeper_close(struct keeper *keeper);

#endif
