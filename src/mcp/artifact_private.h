/* What the files of the store share among themselves. */
#ifndef MCP_ARTIFACT_PRIVATE_H
#define MCP_ARTIFACT_PRIVATE_H

#include "mcp/artifact.h"

#define ARTIFACT_TMP "tmp."    /* a file that is being written */
#define ARTIFACT_USAGE "usage" /* lock and shared sums */

struct artifacts {
	const struct conf *conf; /* borrowed */
	char dir[320];           /* "" when there is none */
	char why[256];           /* then */
};

/* Opens the folder for reading, making it where somebody has cleared it away.
 * -1 with errno. */
int store_folder(const struct artifacts *store);

/* Reserves room for an artifact in the sums that all processes share, making
 * room first where there is none. Where the sums can't be had in time nothing
 * is reserved; the next sweep puts them right. */
void store_reserve(struct artifacts *store, int folder, uint64_t bytes);

/* Gives reserved room back. */
void store_release(struct artifacts *store, int folder, uint64_t bytes);

/* Whether an artifact made at this time (seconds) is over at now. */
bool store_expired(const struct artifacts *store, int64_t made, int64_t now);

#endif
