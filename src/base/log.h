/*
 * One line per event on standard error (or a file), with a stable event name:
 *   2026-12-01T12:00:00.123Z info session.open pid=71 id=… client=127.0.0.1
 * Control characters in values are escaped. Program text and tokens are never
 * given to it. Lower layers do not log; the layer that ends a request does,
 * once.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG
};

/* Sets what is written: events up to and including level, to fd (borrowed,
 * stays open). Until called: warnings to standard error. */
void log_setup(enum log_level level, int fd);

/* Writes one event. fmt makes "key=value key=value"; any thread. Keeps
 * errno. */
void log_event(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The level of a name ("error" … "debug"). ERR_NOT_FOUND. */
enum err
log_level_parse(const char *name, enum log_level *ret_level) MUST_CHECK;

#define log_error(event, ...) log_event(LOG_LEVEL_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...) log_event(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) log_event(LOG_LEVEL_DEBUG, event, __VA_ARGS__)

#endif
