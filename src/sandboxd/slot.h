/*
 * A slot is a process of its own, forked by the spawner: it prepares a jail,
 * waits for one request, decodes it, runs it, collects the files, writes the
 * answer and ends. So everything that handles a client's bytes beyond HTTP
 * lives as long as one request, with no other request's data in its memory,
 * and cannot block the event loop.
 */
#ifndef SANDBOXD_SLOT_H
#define SANDBOXD_SLOT_H

#include "sandboxd/plan.h"

/* Serves one request over control (owned; struct channel_note and so on).
 * Returns the process's exit code. */
int slot_main(const struct plan *plan, unsigned index, int control);

#endif
