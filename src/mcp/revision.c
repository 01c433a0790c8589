#include <string.h>

#include "mcp/revision.h"

static const char *const names[REVISION_COUNT] = {
	[REVISION_NONE] = "",
	[REVISION_2024_11_05] = "2024-11-05",
	[REVISION_2025_03_26] = "2025-03-26",
	[REVISION_2025_06_18] = "2025-06-18",
	[REVISION_2025_11_25] = "2025-11-25",
	[REVISION_2026_07_28] = "2026-07-28",
};

const char *
revision_name(enum revision revision)
{
	return (unsigned)revision < REVISION_COUNT ? names[revision] : "";
}

enum err
revision_parse(const char *name, enum revision *ret_revision)
{
	for (unsigned i = REVISION_NONE + 1; i < REVISION_COUNT; i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_revision = (enum revision)i;
			return ERR_OK;
		}
	}
	return ERR_NOT_FOUND;
}
