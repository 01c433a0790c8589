/*
 * A responder: everything wired together, run until it is told to end.
 */
#ifndef SERVER_APP_H
#define SERVER_APP_H

#include "base/conf.h"
#include "base/err.h"

/* After process_prepare: opens what the settings say (the log, the shared table, the sandbox client,
 * the core, the inbox, the socket), serves, and returns ERR_OK after SIGTERM,
 * SIGINT or SIGUSR1: calls under way may finish for shutdown_grace, streams
 * end cleanly. On failure *fault says what could not be opened and what to do
 * about it. */
enum err app_run(const struct conf *conf, struct conf_fault *fault) MUST_CHECK;

#endif
