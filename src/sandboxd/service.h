/* The service from its start to its end. */
#ifndef SANDBOXD_SERVICE_H
#define SANDBOXD_SERVICE_H

#include "base/conf.h"
#include "base/err.h"

/* Serves until SIGTERM or SIGINT. Anything else than ERR_OK means that it
 * could not start or go on; *fault says why, and the cure. */
enum err
service_run(const struct conf *conf, struct conf_fault *fault) MUST_CHECK;

#endif
