/*
 * What an outcome leaves behind goes into the store: every file and figure
 * that came back, and the whole output where the result shows only a part.
 */
#ifndef MCP_DEPOSIT_H
#define MCP_DEPOSIT_H

#include "mcp/artifact.h"
#include "mcp/content.h"
#include "sandbox/sandbox.h"

/* Keeps what there is to keep; a store that fails is no failure, the reason
 * stands in the link then. An output that is cut becomes one more file of the
 * outcome, the first. owner is the key of whom it belongs to. *ret_links has
 * one link for each file and is owned: deposit_done. ERR_NOMEM. In a
 * worker. */
enum err
deposit(struct artifacts *store, const struct conf *conf, const char *owner,
    struct outcome *outcome, struct content_link **ret_links) MUST_CHECK;

/* n is the number of the outcome's files; NULL is accepted. */
void deposit_done(struct content_link *links, size_t n);

#endif
