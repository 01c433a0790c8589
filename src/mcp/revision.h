/* The revisions of the Model Context Protocol. */
#ifndef MCP_REVISION_H
#define MCP_REVISION_H

#include "base/err.h"

/* In order of time, so that < and >= mean older and "since". */
enum revision {
	REVISION_NONE, /* not negotiated yet */
	REVISION_2024_11_05,
	REVISION_2025_03_26,
	REVISION_2025_06_18,
	REVISION_2025_11_25,
	REVISION_2026_07_28, /* stateless: never negotiated */
	REVISION_COUNT,
	REVISION_NEWEST = REVISION_2025_11_25 /* that initialize gives */
};

/* "2025-11-25"; "" for REVISION_NONE. Borrowed, lives for ever. */
const char *revision_name(enum revision revision);

/* The revision of a name, exactly as spelled. ERR_NOT_FOUND. */
enum err
revision_parse(const char *name, enum revision *ret_revision) MUST_CHECK;

#endif
