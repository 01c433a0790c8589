/*
 * The files of an answer, with what the runner's report knows of them. A part
 * of outcome.c.
 */
#ifndef SANDBOX_OUTCOME_FILES_H
#define SANDBOX_OUTCOME_FILES_H

#include "base/json.h"
#include "sandbox/report.h"
#include "sandbox/sandbox.h"

/* Adds to outcome the files of the answer (an array, checked JSON) and those
 * that the report says were left out: figures first, in their order. Items
 * that are no file are passed over. ERR_NOMEM; outcome then holds what was
 * added so far. */
enum err outcome_files(struct json_span files, const struct report *report,
    struct outcome *outcome) MUST_CHECK;

#endif
