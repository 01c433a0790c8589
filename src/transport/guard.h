/*
 * Who may call: the checks of Origin and Host that keep a foreign web page
 * from reaching a server on this machine (DNS rebinding). Pure functions.
 */
#ifndef TRANSPORT_GUARD_H
#define TRANSPORT_GUARD_H

#include <stdbool.h>

#include "base/conf.h"
#include "transport/http.h"

/* Whether an Origin passes: NULL (absent) does; http and https origins of a
 * loopback host on any port do; those of the setting allowed_origins do,
 * exactly as written there. "null", several, and anything malformed do not. */
bool guard_origin(const struct conf *conf, const char *origin);

/* Whether the Host of a request passes. Checked only where the web server was
 * reached over loopback: there it must be a loopback name or one of
 * allowed_hosts, whatever the port. */
bool guard_host(const struct conf *conf, const struct http_request *request);

/* Whether a name (n bytes; IPv6 without brackets) means this machine. */
bool guard_is_loopback(const char *name, size_t n);

#endif
