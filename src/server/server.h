/*
 * All connections from web servers: requests are gathered, handed to workers
 * and routes, answers and streams written. Loop's thread only, but for what
 * server_listener() gives.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/conf.h"
#include "server/listener.h"
#include "base/loop.h"
#include "base/workers.h"
#include "transport/route.h"

struct server;

/* All arguments are borrowed until server_close. */
enum err
server_open(const struct conf *conf, struct loop *loop, struct workers *workers,
    struct transport *transport, struct server **ret_server) MUST_CHECK;

/* Closes all connections at once. Streams must have been closed by their
 * owners, and the workers' work be done. NULL is accepted. */
void server_close(struct server *server);

/* What a listener calls, with the server as its argument: any thread. */
const struct listener_ops *server_listener(void);

/* Shutting down: idle connections end now, the others once they have been
 * answered. */
void server_drain(struct server *server);

/* How many connections there are. */
unsigned server_connections(const struct server *server);

#endif
