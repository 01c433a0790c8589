#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mcp/deposit.h"

#define REF_MAX 1024
/* bytes that a byte of text may take in a result: quoted twice, and once more
 * inside the text block */
#define QUOTED_BYTES 7

void
deposit_done(struct content_link *links, size_t n)
{
	for (size_t i = 0; links != NULL && i < n; i++) {
		free(links[i].ref);
		free(links[i].reason);
	}
	free(links);
}

static bool
is_taken(const struct outcome *o, const char *name)
{
	for (size_t i = 0; i < o->n_files; i++) {
		if (strcmp(o->files[i].path, name) == 0)
			return true;
	}
	return false;
}

/* A name that no file of the program has. */
static char *
output_name(const struct outcome *o)
{
	char name[32] = "stdout.txt";

	for (unsigned i = 1; is_taken(o, name) && i < 1000; i++)
		snprintf(name, sizeof(name), "stdout-%u.txt", i);
	return strdup(name);
}

/* Adds a file before the others; takes ownership of text on success. */
static enum err
add_first(struct outcome *o, char *text, size_t len)
{
	struct outcome_file *files, first = { .media_type = "text/plain" };

	if ((first.path = output_name(o)) == NULL)
		return ERR_NOMEM;
	files = realloc(o->files, (o->n_files + 1) * sizeof(*files));
	if (files == NULL) {
		free(first.path);
		return ERR_NOMEM;
	}
	memmove(files + 1, files, o->n_files * sizeof(*files));
	first.data = text;
	first.len = len;
	files[0] = first;
	o->files = files;
	o->n_files++;
	return ERR_OK;
}

/* The whole output, where the result will not hold it. */
static enum err
add_output(const struct conf *conf, struct outcome *o)
{
	CLEANUP_FREE char *text = STEAL_PTR(o->whole);
	size_t len = text != NULL ? strlen(text) : 0;
	enum err rc;

	if (text == NULL && o->text != NULL &&
	    strlen(o->text) * QUOTED_BYTES > conf->result_max) {
		if ((text = strdup(o->text)) == NULL)
			return ERR_NOMEM;
		len = strlen(text);
	}
	if (text == NULL)
		return ERR_OK;
	if ((rc = add_first(o, text, len)) == ERR_OK)
		text = NULL;
	return rc;
}

/* Keeps one file; without memory for its address it is as if not kept. */
static void
keep(struct artifacts *store, const char *owner,
    const struct outcome_file *file, struct content_link *link)
{
	struct artifact_new new = { .name = file->path,
		.type = file->media_type != NULL ? file->media_type
						 : "application/octet-stream",
		.owner = owner,
		.data = file->data,
		.len = file->len };
	CLEANUP_BUF struct buf ref = { .max = REF_MAX };
	char id[ARTIFACT_ID_LEN + 1];
	struct artifact_fault fault;

	if (artifact_put(store, &new, id, &fault) != ERR_OK)
		link->reason = strdup(fault.text);
	else if (artifact_ref(&ref, id, file->path) == ERR_OK)
		link->ref = buf_steal(&ref, NULL);
}

enum err
deposit(struct artifacts *store, const struct conf *conf, const char *owner,
    struct outcome *outcome, struct content_link **ret_links)
{
	struct content_link *links;
	enum err rc;

	if ((rc = add_output(conf, outcome)) != ERR_OK)
		return rc;
	if ((links = calloc(outcome->n_files + 1, sizeof(*links))) == NULL)
		return ERR_NOMEM;
	for (size_t i = 0; i < outcome->n_files; i++) {
		if (outcome->files[i].data != NULL)
			keep(store, owner, &outcome->files[i], &links[i]);
	}
	*ret_links = links;
	return ERR_OK;
}
