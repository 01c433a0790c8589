/*
 * From a request to what answers it: one const table of method, path and
 * handler is the only way in. The router itself answers 403 (Origin, Host),
 * 404, 405 with Allow, 415, and OPTIONS.
 */
#ifndef TRANSPORT_ROUTE_H
#define TRANSPORT_ROUTE_H

#include "base/conf.h"
#include "state/shm.h"
#include "transport/exchange.h"

struct artifacts;
struct sse;
struct streamable;

/* What the handlers work with. All borrowed. */
struct transport {
	const struct conf *conf;
	struct state *state;
	struct sse *sse;
	struct artifacts *artifacts;
	struct streamable *streamable;
	char *base_path; /* owned: normal form of the setting, without
				 * a "/" at its end; NULL: not set */
};

/* Checks the settings that transports use. ERR_CONF with *fault filled. */
enum err transport_init(struct transport *transport, const struct conf *conf,
    struct conf_fault *fault) MUST_CHECK;
void transport_done(struct transport *transport);

/* Decides on a request whose fields and body are complete: fills the response
 * or sets exchange->run. Any thread. */
void route_prepare(struct exchange *exchange);

/* Where clients reach this server: the setting base_path, else what stands in
 * the path before the route. Appends "" or "/…" without a "/" at the end. */
enum err
route_prefix(const struct exchange *exchange, struct buf *out) MUST_CHECK;

#endif
