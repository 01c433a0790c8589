/*
 * What programs find in the sandbox: version, packages, limits. Found by a
 * small program of our own that goes through the queue and the sandbox like
 * any other, but never waits there; what one process finds the others take from
 * a note beside the artifacts. It is asked again when it is old. Everything it
 * says is checked: a sandbox is not trusted.
 */
#ifndef MCP_ENVIRONMENT_H
#define MCP_ENVIRONMENT_H

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/sandbox.h"

struct environment;
struct mcp;

/* mcp is borrowed. *ret_environment is owned: environment_close. */
enum err environment_open(struct mcp *mcp, struct environment **ret_environment)
    MUST_CHECK;

/* A program under way is dropped. NULL is accepted. */
void environment_close(struct environment *environment);

/* Somebody wants to know: asks the sandbox in the background when nothing is
 * known or it is old. Loop's thread. */
void environment_need(struct environment *environment);

/* To be called about once a second, from the start on: asks as long as nothing
 * is known. Loop's thread. */
void environment_tick(struct environment *environment);

/* Nothing is known yet, but soon will be. Loop's thread. */
bool environment_pending(const struct environment *environment);

/* The process ends: a program under way is dropped. Loop's thread. */
void environment_drain(struct environment *environment);

/* Appends all that is known as JSON. Any thread. */
enum err
environment_json(struct environment *environment, struct buf *out) MUST_CHECK;

/* Appends what is known in a few sentences of plain ASCII without quotes,
 * with a blank before them. Any thread. */
enum err
environment_brief(struct environment *environment, struct buf *out) MUST_CHECK;

/* Where a module was missing, adds to the details which packages there are
 * and how one is added. Any thread. */
enum err environment_explain(
    struct environment *environment, struct outcome *outcome) MUST_CHECK;

#endif
