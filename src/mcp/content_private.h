/* What the files that build a result share. */
#ifndef MCP_CONTENT_PRIVATE_H
#define MCP_CONTENT_PRIVATE_H

#include "mcp/content.h"

/* Of an image block around data and type, and of a link around its texts. */
#define CONTENT_BLOCK_BYTES 96

extern const char content_over_count[];

/* A result under construction. */
struct shape {
	const struct content_view *view;
	const struct outcome *o;
	const char **why; /* of each file: why it is not given, or NULL */
	bool *shown;      /* of each file: it has a block of its own */
	size_t budget;    /* bytes of each long text and of the lists */
	bool cut;         /* a text did not fit its budget */
	struct buf json;  /* the structured content */
	struct buf text;  /* the text block's text, quoted */
};

/* Where the i-th file is kept; NULL when nothing is. */
static inline const struct content_link *
content_link_of(const struct shape *s, size_t i)
{
	return s->view->links != NULL ? &s->view->links[i] : NULL;
}

/* Chooses which files get blocks: figures become images in order while count
 * and bytes last, the rest links, where the revision has them; used bytes are
 * taken already. Of images the reason is removed. */
void content_choose(struct shape *s, size_t used);

/* Appends the chosen blocks, each with a comma before it. */
enum err content_blocks(struct buf *out, const struct shape *s) MUST_CHECK;

#endif
