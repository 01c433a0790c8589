#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "sandbox/media.h"
#include "sandbox/outcome_files.h"
#include "sandbox/text.h"

#define OURS ".sandbox"
#define STORE "__sandbox__/"
#define FILES_MAX 2000
#define PATH_MAX_BYTES 8192
#define AT_MAX ((uint64_t)1 << 52)

/* A file with what its place in the order is told by: the moment when its
 * figure was first seen, then when it was written. */
struct found {
	struct outcome_file file;
	uint64_t seen, at;
	bool captured; /* drawn by the runner, which chose its name */
};

struct finds {
	struct found *items; /* owned */
	size_t n, cap;
};

static void
found_done(struct found *found)
{
	free(found->file.path);
	free(found->file.data);
	free(found->file.reason);
}

static void
finds_done(struct finds *finds)
{
	for (size_t i = 0; i < finds->n; i++)
		found_done(&finds->items[i]);
	free(finds->items);
}

#define CLEANUP_FINDS __attribute__((cleanup(finds_done)))

/* Takes ownership of what found holds, on failure too. */
static enum err
finds_add(struct finds *finds, struct found *found)
{
	if (finds->n == finds->cap) {
		size_t cap = finds->cap == 0 ? 16 : finds->cap * 2;
		struct found *items =
		    realloc(finds->items, cap * sizeof(*items));

		if (items == NULL) {
			found_done(found);
			return ERR_NOMEM;
		}
		finds->items = items;
		finds->cap = cap;
	}
	finds->items[finds->n++] = *found;
	return ERR_OK;
}

static bool
has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool
has_ending(const char *text, const char *ending)
{
	size_t n = strlen(text), len = strlen(ending);

	return n >= len && strcmp(text + n - len, ending) == 0;
}

/* Whether a path is ours, the program itself, or a cache: no result. */
static bool
is_no_result(const char *path)
{
	return strcmp(path, "main.py") == 0 || has_prefix(path, OURS "/") ||
	    has_prefix(path, OURS "-") || has_ending(path, ".pyc") ||
	    strstr(path, "__pycache__/") != NULL || path[0] == '\0';
}

/* A name that is safe to show: clean text of one line. */
static enum err
clean_name(const char *name, char **ret_name)
{
	CLEANUP_BUF struct buf out = { .max = 8 * PATH_MAX_BYTES };
	CLEANUP_BUF struct buf line = { .max = 8 * PATH_MAX_BYTES };
	enum err rc = ERR_OK;

	for (; *name != '\0' && rc == ERR_OK; name++) {
		/* each control character becomes its picture */
		if ((unsigned char)*name < 0x20)
			rc = buf_printf(
			    &line, "\xe2\x90%c", (char)(0x80 + *name));
		else
			rc = buf_putc(&line, *name);
	}
	if (rc == ERR_OK)
		rc = text_clean(&out, line.data, line.len);
	if (rc != ERR_OK)
		return rc;
	*ret_name = buf_steal(&out, NULL);
	return *ret_name != NULL ? ERR_OK : ERR_NOMEM;
}

/* The text of a string member of a checked object. */
static enum err
member(struct json_span object, const char *key, struct buf *out)
{
	const char *path[] = { key, NULL };
	struct json_span span;
	enum err rc;

	if ((rc = json_find(object.at, object.len, path, &span)) != ERR_OK)
		return rc;
	return json_string(span, out);
}

/* What the report knows of a file that came back under path: its own name and
 * its place in the order. False when it is none of the program's. */
static bool
identify(const struct report *report, const char *path, const char **ret_name,
    struct found *found)
{
	const cJSON *line, *saved;

	*ret_name = path;
	if (has_prefix(path, STORE)) {
		if ((line = report_find(report, "figure", "path", path)) !=
		    NULL) {
			*ret_name = path + strlen(STORE);
			found->seen = report_number(line, "seen", AT_MAX);
			found->at = report_number(line, "at", AT_MAX);
			found->captured = true;
			return true;
		}
		line = report_find(report, "file", "safe", path);
		if (line != NULL)
			*ret_name = json_get_string(line, "path");
		else if (report->ended)
			return false;
	} else {
		line = report_find(report, "file", "path", path);
	}
	if (*ret_name == NULL)
		*ret_name = path;
	found->seen = found->at = report_number(line, "at", AT_MAX);
	saved = report_find(report, "saved", "path", *ret_name);
	if (saved != NULL)
		found->seen = report_number(saved, "seen", AT_MAX);
	return true;
}

/* Fills a file from its base64 text. */
static enum err
fill(struct found *found, const char *name, const struct buf *content)
{
	CLEANUP_BUF struct buf data = { .max = content->len };
	struct media media;
	enum err rc;

	rc = base64_decode(&data, buf_str(content), content->len);
	if (rc == ERR_PARSE)
		found->file.reason = strdup("the sandbox sent it malformed");
	else if (rc != ERR_OK)
		return rc;
	if ((rc = clean_name(name, &found->file.path)) != ERR_OK)
		return rc;
	media = media_sniff(name, buf_str(&data), data.len);
	found->file.media_type = media.type;
	found->file.figure = media.raster;
	found->file.width = media.width;
	found->file.height = media.height;
	if (found->file.reason != NULL)
		return ERR_OK;
	found->file.data = buf_steal(&data, &found->file.len);
	return found->file.data != NULL ? ERR_OK : ERR_NOMEM;
}

static enum err
add_returned(
    struct finds *finds, const struct report *report, struct json_span item)
{
	CLEANUP_BUF struct buf path = { .max = PATH_MAX_BYTES };
	CLEANUP_BUF struct buf content = { .max = item.len };
	struct found found = { .seen = 0 };
	const char *name;
	enum err rc;

	if (item.len == 0 || item.at[0] != '{' ||
	    (rc = member(item, "path", &path)) != ERR_OK ||
	    (rc = member(item, "content", &content)) != ERR_OK)
		return ERR_OK;
	if (is_no_result(buf_str(&path)) ||
	    !identify(report, path.data, &name, &found))
		return ERR_OK;
	if ((rc = fill(&found, name, &content)) != ERR_OK) {
		found_done(&found);
		return rc;
	}
	return finds_add(finds, &found);
}

static bool
came_back(const struct finds *finds, const char *name)
{
	for (size_t i = 0; i < finds->n; i++) {
		if (!finds->items[i].captured &&
		    strcmp(finds->items[i].file.path, name) == 0)
			return true;
	}
	return false;
}

/* A figure of the runner's yields its name to a file of the program's own. */
static enum err
yield_name(const struct finds *finds, struct found *found)
{
	while (came_back(finds, found->file.path)) {
		CLEANUP_BUF struct buf name = { .max = PATH_MAX_BYTES };
		enum err rc;

		if ((rc = buf_printf(&name, "open-%s", found->file.path)) !=
		    ERR_OK)
			return rc;
		free(found->file.path);
		found->file.path = buf_steal(&name, NULL);
		if (found->file.path == NULL)
			return ERR_NOMEM;
	}
	return ERR_OK;
}

static enum err
yield_names(struct finds *finds)
{
	enum err rc = ERR_OK;

	for (size_t i = 0; i < finds->n && rc == ERR_OK; i++) {
		if (finds->items[i].captured)
			rc = yield_name(finds, &finds->items[i]);
	}
	return rc;
}

/* A file of which only the report knows. */
static enum err
add_missing(struct finds *finds, const cJSON *line, const char *why)
{
	const char *path = json_get_string(line, "path");
	struct found found = { .seen = 0 };
	CLEANUP_FREE char *name = NULL;
	enum err rc;

	if (path == NULL || is_no_result(path))
		return ERR_OK;
	if ((rc = clean_name(path, &name)) != ERR_OK)
		return rc;
	if (came_back(finds, name))
		return ERR_OK;
	found.file.len = (size_t)report_number(line, "size", AT_MAX);
	found.file.media_type = "application/octet-stream";
	found.at = report_number(line, "at", AT_MAX);
	if ((rc = clean_name(why, &found.file.reason)) != ERR_OK)
		return rc;
	found.file.path = STEAL_PTR(name);
	return finds_add(finds, &found);
}

static enum err
add_all_missing(struct finds *finds, const struct report *report)
{
	const cJSON *line;
	enum err rc = ERR_OK;

	cJSON_ArrayForEach(line, report->lines)
	{
		const char *kind = json_get_string(line, "t"), *why;

		if (rc != ERR_OK || finds->n >= FILES_MAX)
			break;
		if (kind == NULL)
			continue;
		why = json_get_string(line, "why");
		if (strcmp(kind, "lost") == 0)
			rc = add_missing(
			    finds, line, why != NULL ? why : "it was lost");
		else if (strcmp(kind, "file") == 0)
			rc = add_missing(finds, line,
			    "the sandbox did not "
			    "return it: too many files, or too large in all");
	}
	return rc;
}

static int
by_number(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Figures first, in the order of their creation; the others by name. */
static int
compare(const void *left, const void *right)
{
	const struct found *a = left, *b = right;
	int order;

	if (a->file.figure != b->file.figure)
		return a->file.figure ? -1 : 1;
	if (a->file.figure) {
		if ((order = by_number(a->seen, b->seen)) != 0 ||
		    (order = by_number(a->at, b->at)) != 0)
			return order;
	}
	return strcmp(a->file.path, b->file.path);
}

static enum err
hand_out(struct finds *finds, struct outcome *outcome)
{
	if (finds->n == 0)
		return ERR_OK;
	qsort(finds->items, finds->n, sizeof(finds->items[0]), compare);
	outcome->files = calloc(finds->n, sizeof(outcome->files[0]));
	if (outcome->files == NULL)
		return ERR_NOMEM;
	for (size_t i = 0; i < finds->n; i++)
		outcome->files[i] = finds->items[i].file;
	outcome->n_files = finds->n;
	finds->n = 0;
	return ERR_OK;
}

enum err
outcome_files(struct json_span files, const struct report *report,
    struct outcome *outcome)
{
	CLEANUP_FINDS struct finds finds = { .n = 0 };
	struct json_span item;
	size_t at = 0;
	enum err rc = ERR_OK;

	while (rc == ERR_OK && finds.n < FILES_MAX &&
	    json_item(files, &at, &item) == ERR_OK)
		rc = add_returned(&finds, report, item);
	if (rc == ERR_OK)
		rc = add_all_missing(&finds, report);
	if (rc == ERR_OK)
		rc = yield_names(&finds);
	if (rc == ERR_OK)
		rc = hand_out(&finds, outcome);
	return rc;
}
