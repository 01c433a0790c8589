/*
 * The shared table: one POSIX shared-memory segment for all processes of one
 * user and instance (/python-sandbox.<uid>.<state_name>.v<version>), owner and
 * mode checked. Versioned header; process, session, call, lease and waiter
 * slots; endpoint states; counters. One robust process-shared mutex, repaired
 * on EOWNERDEAD with every invariant checked. No pointers inside, no I/O under
 * the lock. A slot belongs to a pid and its start time.
 */
#ifndef STATE_SHM_H
#define STATE_SHM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/err.h"

/* A process' own random number: its name in session ids and in the name of
 * its inbox. Never 0. */
struct state;

/* Attaches to the table, made and initialized when it is missing; registers
 * this process and makes its run folder (0700; setting run_dir, else under
 * /run/user, /run or /tmp, owner checked). A segment of wrong owner, size or
 * content is refused or replaced under a new name, never trusted. ERR_SYS,
 * ERR_CONF with the reason logged by the caller from state_fault(). */
enum err
state_open(const struct conf *conf, struct state **ret_state) MUST_CHECK;

/* Takes the table's name away: nobody else finds it, and it ends with this
 * process, however that ends. For a process that shares its sandbox with
 * nobody and never calls state_tick, which would register anew. */
void state_hide(struct state *state);

/* Gives up everything this process holds in the table and detaches. The
 * segment stays for the others. NULL is accepted. */
void state_close(struct state *state);

/* Why the last state_open of this thread failed, with the cure. Borrowed. */
const char *state_fault(void);

/* This process' number. */
uint64_t state_process(const struct state *state);

/* The folder of the inboxes. Borrowed until state_close. */
const char *state_run_dir(const struct state *state);

/* Called every second by the loop: heartbeat; reclaims the slots, leases and
 * waiters of dead processes and unlinks their inboxes; registers anew (and
 * returns true) when the segment was unlinked under us. Cheap. */
bool state_tick(struct state *state);

/* Checks every invariant of the table; for tests and health checks.
 * ERR_INTERNAL, with what is wrong in state_fault(). */
enum err state_check(struct state *state) MUST_CHECK;

#endif
