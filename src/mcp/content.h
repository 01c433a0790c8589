/*
 * From an outcome to the result of tools/call, as the contract of the tool
 * has it. Pure functions: any thread.
 */
#ifndef MCP_CONTENT_H
#define MCP_CONTENT_H

#include "base/conf.h"
#include "mcp/revision.h"
#include "sandbox/sandbox.h"

/* Where a file of an outcome is kept. */
struct content_link {
	char *ref;    /* "ID/NAME" (artifact_ref), owned; NULL: nowhere */
	char *reason; /* then why, owned; or NULL */
};

/* What a result is made of; all borrowed. */
struct content_view {
	const struct conf *conf;
	enum revision revision;
	const struct outcome *outcome;
	const struct sandbox_limits *limits;
	uint64_t queued_ms;
	size_t reserved; /* bytes of the message around the result */
	/* one for each file of the outcome, or NULL: nothing can be fetched */
	const struct content_link *links;
	/* what stands before "/files/" in a URL, plain ASCII without quotes;
	 * NULL: unknown */
	const char *base;
};

/* Appends the CallToolResult: text block, image blocks, structuredContent
 * and resource links since 2025-06-18; at most result_max bytes with what is reserved, figures
 * and texts that do not fit are left out and said to be. */
enum err
content_result(struct buf *out, const struct content_view *view) MUST_CHECK;

/* Appends the result of a call that was not tried, such as one with wrong
 * arguments: the text alone, isError. No structuredContent: there was no run
 * that it could describe. */
enum err content_refusal(struct buf *out, const char *text) MUST_CHECK;

#endif
