/*
 * The HTTP side, in the event loop: routes, limits, and callers that go away.
 * It never looks into a body; slots do.
 */
#ifndef SANDBOXD_SERVE_H
#define SANDBOXD_SERVE_H

#include <event2/event.h>
#include <event2/http.h>

#include "base/conf.h"
#include "base/err.h"
#include "sandboxd/pool.h"

struct serve;

/* Serves the listening socket (taken over) with the pool (borrowed). */
enum err serve_new(struct serve **ret_serve, struct event_base *base,
    const struct conf *conf, struct pool *pool, int socket) MUST_CHECK;

/* Closes every connection. Before pool_free: it cancels their runs. */
void serve_free(struct serve *serve);

#endif
