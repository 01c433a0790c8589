/* The shape of a request, checked as jsonschema does for Snekbox. */
#ifndef SANDBOXD_SCHEMA_H
#define SANDBOXD_SCHEMA_H

#include "base/err.h"
#include "sandboxd/request.h"
#include "sandboxd/value.h"

#define SCHEMA_TITLE "Request data failed validation"

/* ERR_OK, or ERR_PARSE with the fault that jsonschema would name: the one
 * nearest to the root. */
enum err
schema_check(const struct value *root, struct request_fault *fault) MUST_CHECK;

#endif
