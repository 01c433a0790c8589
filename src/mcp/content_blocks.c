/* The blocks of a result behind its text: images, and links to the rest. */
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "mcp/artifact.h"
#include "mcp/content_private.h"

#define LINKS_PART 8 /* of the whole, for links to files */

const char content_over_count[] = "over the limit of images (figures_max)";
static const char over_budget[] = "over the result budget";

static size_t
image_size(const struct outcome_file *f)
{
	return CONTENT_BLOCK_BYTES + strlen(f->media_type) +
	    (f->len + 2) / 3 * 4;
}

/* At most; quotes in a path double. */
static size_t
link_size(const struct shape *s, size_t i)
{
	const struct outcome_file *f = &s->o->files[i];

	return CONTENT_BLOCK_BYTES + 2 * strlen(f->path) +
	    strlen(ARTIFACT_URI) + strlen(s->view->links[i].ref) +
	    strlen(f->media_type) + 24;
}

static bool
can_link(const struct shape *s, size_t i)
{
	const struct content_link *link = content_link_of(s, i);

	return s->view->revision >= REVISION_2025_06_18 && link != NULL &&
	    link->ref != NULL && s->o->files[i].media_type != NULL;
}

/* Gives a file a link when it fits into what is left; returns its size. */
static size_t
choose_link(struct shape *s, size_t i, size_t left)
{
	size_t size;

	if (!can_link(s, i) || (size = link_size(s, i)) > left)
		return 0;
	s->shown[i] = true;
	return size;
}

static size_t
choose_figure(struct shape *s, size_t i, uint64_t *count, size_t left)
{
	const struct outcome_file *f = &s->o->files[i];
	size_t size;

	if (f->data == NULL || f->media_type == NULL)
		return 0;
	if (*count >= s->view->conf->figures_max)
		return choose_link(s, i, left);
	if ((size = image_size(f)) > left) {
		s->why[i] = over_budget;
		return choose_link(s, i, left);
	}
	s->why[i] = NULL;
	s->shown[i] = true;
	(*count)++;
	return size;
}

void
content_choose(struct shape *s, size_t used)
{
	size_t most = s->view->conf->result_max;
	size_t left = most > used ? most - used : 0;
	size_t links = left / LINKS_PART, size;
	uint64_t count = 0;

	for (size_t i = 0; i < s->o->n_files; i++) {
		if (s->o->files[i].figure)
			continue;
		size = choose_link(s, i, links);
		links -= size;
		left -= size;
	}
	for (size_t i = 0; i < s->o->n_files; i++) {
		if (s->o->files[i].figure)
			left -= choose_figure(s, i, &count, left);
	}
}

static enum err
append_image(struct buf *out, const struct outcome_file *f)
{
	enum err rc;

	rc = buf_puts(out, ",{\"type\":\"image\",\"data\":\"");
	if (rc == ERR_OK)
		rc = base64_encode(out, f->data, f->len);
	if (rc == ERR_OK)
		rc = buf_printf(out, "\",\"mimeType\":\"%s\"}", f->media_type);
	return rc;
}

static enum err
append_link(struct buf *out, const struct shape *s, size_t i)
{
	const struct outcome_file *f = &s->o->files[i];
	enum err rc;

	rc = buf_printf(out,
	    ",{\"type\":\"resource_link\",\"uri\":\"" ARTIFACT_URI
	    "%s\",\"name\":",
	    s->view->links[i].ref);
	if (rc == ERR_OK)
		rc = json_quote(out, f->path, strlen(f->path));
	if (rc == ERR_OK)
		rc = buf_printf(out, ",\"mimeType\":\"%s\",\"size\":%zu}",
		    f->media_type, f->len);
	return rc;
}

enum err
content_blocks(struct buf *out, const struct shape *s)
{
	enum err rc = ERR_OK;

	for (size_t i = 0; i < s->o->n_files && rc == ERR_OK; i++) {
		if (s->shown[i] && s->why[i] == NULL && s->o->files[i].figure)
			rc = append_image(out, &s->o->files[i]);
	}
	for (size_t i = 0; i < s->o->n_files && rc == ERR_OK; i++) {
		if (s->shown[i] &&
		    (s->why[i] != NULL || !s->o->files[i].figure))
			rc = append_link(out, s, i);
	}
	return rc;
}
