/*
 * Why a run ended as it did: from the runner's report first, then from the
 * return code and the time. Never claims what is not known. A part of
 * outcome.c.
 */
#ifndef SANDBOX_OUTCOME_CAUSE_H
#define SANDBOX_OUTCOME_CAUSE_H

#include "sandbox/report.h"
#include "sandbox/sandbox.h"

/* Sets kind, error_message and details of an outcome whose return code,
 * duration, exception and text are set. killed_by is sandboxd's word, or "".
 * ERR_NOMEM. */
enum err outcome_cause(const struct report *report, const struct conf *conf,
    const struct sandbox_limits *limits, const char *killed_by,
    struct outcome *outcome) MUST_CHECK;

#endif
