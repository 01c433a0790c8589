/*
 * MCP over two descriptors, one message a line: one peer, both eras at once,
 * told apart by each request. The session of the older revisions begins with
 * initialize; requests with the envelope of 2026-07-28 need none.
 */
#ifndef TRANSPORT_STDIO_H
#define TRANSPORT_STDIO_H

#include "base/conf.h"
#include "base/loop.h"
#include "mcp/mcp.h"

struct stdio;

struct stdio_plan {
	const struct conf *conf; /* all borrowed until stdio_close */
	struct loop *loop;
	struct mcp *mcp;
	int in, out;
	/* The peer is gone: no more messages come, or none can be written. May
	 * come twice. */
	void (*ended)(void *arg);
	void *arg;
};

enum err
stdio_open(const struct stdio_plan *plan, struct stdio **ret_stdio) MUST_CHECK;

/* Cancels what is under way; answers already given are still written, if the
 * peer takes them soon. NULL is accepted. */
void stdio_close(struct stdio *stdio);

#endif
