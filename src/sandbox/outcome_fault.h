/*
 * Answers that are none: every way in which a sandbox fails gets a text of its
 * own. A part of outcome.c.
 */
#ifndef SANDBOX_OUTCOME_FAULT_H
#define SANDBOX_OUTCOME_FAULT_H

#include "sandbox/outcome.h"

/* Sets a text of an outcome; what was there is released. ERR_NOMEM. */
enum err outcome_say(char **ret_text, const char *fmt, ...) MUST_CHECK
    __attribute__((format(printf, 2, 3)));

/* Whether the reply is no HTTP 200; then outcome says why. */
enum err outcome_no_answer(const struct sandbox_reply *reply,
    struct outcome *outcome, bool *ret_fault) MUST_CHECK;

/* The reply is HTTP 200, but not what a sandbox answers: why says in which
 * way. */
enum err outcome_bad_answer(const struct sandbox_reply *reply, const char *why,
    struct outcome *outcome) MUST_CHECK;

/* Snekbox gave no return code; reason is the text it gave instead. */
enum err outcome_no_returncode(
    const char *reason, size_t n, struct outcome *outcome) MUST_CHECK;

#endif
