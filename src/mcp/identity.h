/* What the server says of itself, in the words of each revision. Pure
 * functions: any thread. */
#ifndef MCP_IDENTITY_H
#define MCP_IDENTITY_H

#include <stdbool.h>

#include "base/buf.h"
#include "mcp/revision.h"

/* What IDENTITY_TAIL_MAX bytes hold: the most that identity_tail appends. */
#define IDENTITY_TAIL_MAX 512

/* Appends serverInfo with the members that the schema of the revision has. */
enum err identity_server(struct buf *out, enum revision revision) MUST_CHECK;

/* Appends the result of initialize. facts end the instructions: plain ASCII
 * without quotes, a blank before them. */
enum err identity_initialized(
    struct buf *out, enum revision revision, const char *facts) MUST_CHECK;

/* Appends the result of server/discover. */
enum err identity_discovered(struct buf *out, const char *facts) MUST_CHECK;

/* Completes a result (an object that is the whole of out, from from on) with
 * what every result of 2026-07-28 carries, and with the caching hints where
 * cacheable; of older revisions nothing is changed. */
enum err identity_tail(struct buf *out, size_t from, enum revision revision,
    bool cacheable) MUST_CHECK;

#endif
