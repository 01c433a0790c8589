#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/artifact.h"
#include "mcp/content_private.h"
#include "sandbox/text.h"

#define TEXT_LEAST 64   /* bytes under which no text is cut further */
#define FRAME_BYTES 256 /* of a result around texts and blocks */

static const char not_sent[] = "only figures are sent, print what you need";

/* Writes JSON; after a failure nothing more is written and rc keeps it. */
struct writer {
	struct buf *out;
	enum err rc;
	bool comma; /* before the next member or item */
};

static void
put(struct writer *w, const char *raw)
{
	if (w->rc == ERR_OK)
		w->rc = buf_puts(w->out, raw);
}

static void
put_string(struct writer *w, const char *text)
{
	if (w->rc == ERR_OK)
		w->rc = json_quote(w->out, text, strlen(text));
	w->comma = true;
}

static void
put_key(struct writer *w, const char *key)
{
	if (w->comma)
		put(w, ",");
	put_string(w, key);
	put(w, ":");
}

static void
put_number(struct writer *w, const char *key, uint64_t value)
{
	put_key(w, key);
	if (w->rc == ERR_OK)
		w->rc = buf_printf(w->out, "%" PRIu64, value);
}

static void
put_open(struct writer *w, const char *bracket)
{
	put(w, bracket);
	w->comma = false;
}

static void
put_close(struct writer *w, const char *bracket)
{
	put(w, bracket);
	w->comma = true;
}

static void
put_member(struct writer *w, const char *key, const char *text)
{
	if (text == NULL)
		return;
	put_key(w, key);
	put_string(w, text);
}

/* A member whose text is cut to the budget. */
static void
put_bounded(struct writer *w, struct shape *s, const char *key,
    const char *text, size_t budget)
{
	CLEANUP_BUF struct buf bounded = { .max = SIZE_MAX / 2 };
	bool cut = false;

	if (text == NULL || w->rc != ERR_OK)
		return;
	w->rc = text_bound(&bounded, text, strlen(text), budget, &cut);
	put_member(w, key, buf_str(&bounded));
	s->cut = s->cut || cut;
}

/* ---- the structured content --------------------------------------------- */

static bool
has_figure(const struct outcome *o)
{
	for (size_t i = 0; i < o->n_files; i++) {
		if (o->files[i].figure)
			return true;
	}
	return false;
}

static const char *
output_type(const struct outcome *o)
{
	if (has_figure(o))
		return "plot";
	return o->text != NULL && *o->text != '\0' ? "text" : "none";
}

/* The sentence for people; a run without any output has one too, lest it
 * look like a failure. */
static const char *
details(const struct outcome *o)
{
	if (o->details != NULL)
		return o->details;
	if (o->kind == OUTCOME_OK && o->n_files == 0 && o->result == NULL &&
	    (o->text == NULL || *o->text == '\0'))
		return "The program ran to its end without output.";
	return NULL;
}

static void
put_exception(struct writer *w, struct shape *s)
{
	const struct outcome *o = s->o;

	if (o->exception_type == NULL)
		return;
	put_key(w, "exception");
	put_open(w, "{");
	put_bounded(w, s, "type", o->exception_type, s->budget / 8);
	put_bounded(w, s, "message", o->exception_message, s->budget / 4);
	if (o->exception_line > 0)
		put_number(w, "line", (uint64_t)o->exception_line);
	put_bounded(w, s, "traceback", o->traceback, s->budget / 2);
	put_close(w, "}");
}

/* Where a file can be fetched. */
static void
put_link(struct writer *w, struct shape *s, size_t i)
{
	const struct content_link *link = content_link_of(s, i);

	if (link == NULL || link->ref == NULL)
		return;
	put_key(w, "uri");
	put(w, "\"" ARTIFACT_URI);
	put(w, link->ref);
	put(w, "\"");
	if (s->view->base == NULL)
		return;
	put_key(w, "url");
	put(w, "\"");
	put(w, s->view->base);
	put(w, ARTIFACT_PATH);
	put(w, link->ref);
	put(w, "\"");
}

static void
put_figure(struct writer *w, struct shape *s, size_t i)
{
	const struct outcome_file *f = &s->o->files[i];

	put_open(w, "{");
	put_member(w, "name", f->path);
	put_number(w, "width", f->width);
	put_number(w, "height", f->height);
	put_number(w, "bytes", f->len);
	put_link(w, s, i);
	put_member(w, "reason", s->why[i]);
	put_close(w, "}");
}

static void
put_file(struct writer *w, struct shape *s, size_t i)
{
	const struct outcome_file *f = &s->o->files[i];

	put_open(w, "{");
	put_member(w, "path", f->path);
	put_number(w, "bytes", f->len);
	put_member(w, "media_type", f->media_type);
	put_link(w, s, i);
	put_member(w, "reason", s->why[i]);
	put_close(w, "}");
}

/* About what a file takes in a list. */
static size_t
entry_size(const struct shape *s, size_t i)
{
	const struct content_link *link = content_link_of(s, i);
	size_t n = strlen(s->o->files[i].path) + CONTENT_BLOCK_BYTES;

	if (link == NULL || link->ref == NULL)
		return n;
	return n + 2 * strlen(link->ref) + 2 * strlen(ARTIFACT_URI) +
	    (s->view->base != NULL ? strlen(s->view->base) : 0);
}

/* Lists the figures, or the other files, as far as the budget allows; returns
 * how many there was no room for. */
static uint64_t
put_list(struct writer *w, struct shape *s, const char *key, bool figures)
{
	size_t last = w->out->len + s->budget;
	uint64_t omitted = 0;

	put_key(w, key);
	put_open(w, "[");
	for (size_t i = 0; i < s->o->n_files; i++) {
		const struct outcome_file *f = &s->o->files[i];

		if (f->figure != figures)
			continue;
		if (w->out->len + entry_size(s, i) > last) {
			omitted++;
			continue;
		}
		if (w->comma)
			put(w, ",");
		if (figures)
			put_figure(w, s, i);
		else
			put_file(w, s, i);
	}
	put_close(w, "]");
	return omitted;
}

/* The last figure: where to fetch it, else its name. */
static void
put_plot_path(struct writer *w, struct shape *s)
{
	const struct content_link *link;
	size_t last = s->o->n_files;

	for (size_t i = 0; i < s->o->n_files; i++) {
		if (s->o->files[i].figure)
			last = i;
	}
	if (last == s->o->n_files)
		return;
	link = content_link_of(s, last);
	if (link == NULL || link->ref == NULL) {
		put_member(w, "plot_path", s->o->files[last].path);
		return;
	}
	put_key(w, "plot_path");
	put(w, "\"" ARTIFACT_URI);
	put(w, link->ref);
	put(w, "\"");
}

static void
put_limits(struct writer *w, const struct sandbox_limits *limits)
{
	put_key(w, "limits");
	put_open(w, "{");
	if (limits->time_ms > 0) {
		put_key(w, "time_seconds");
		if (w->rc == ERR_OK)
			w->rc = buf_printf(
			    w->out, "%g", (double)limits->time_ms / 1000);
	}
	if (limits->memory_bytes > 0)
		put_number(w, "memory_bytes", limits->memory_bytes);
	if (limits->output_bytes > 0)
		put_number(w, "output_bytes", limits->output_bytes);
	if (limits->disk_bytes > 0)
		put_number(w, "disk_bytes", limits->disk_bytes);
	if (limits->processes > 0)
		put_number(w, "processes", limits->processes);
	put_close(w, "}");
}

static void
put_status(struct writer *w, const struct outcome *o)
{
	put_member(w, "status", o->kind == OUTCOME_OK ? "success" : "error");
	put_key(w, "returncode");
	if (!o->has_returncode)
		put(w, "null");
	else if (w->rc == ERR_OK)
		w->rc = buf_printf(w->out, "%d", o->returncode);
	put_member(w, "output_type", output_type(o));
}

static void
put_texts(struct writer *w, struct shape *s)
{
	const struct outcome *o = s->o;

	put_bounded(w, s, "stdout", o->text != NULL ? o->text : "", s->budget);
	put_bounded(w, s, "result", o->result, s->budget / 2);
	if (o->kind != OUTCOME_OK)
		put_member(w, "error_type", outcome_kind_name(o->kind));
	put_bounded(w, s, "error_message", o->error_message, s->budget / 4);
	put_bounded(w, s, "details", details(o), s->budget / 4);
	put_exception(w, s);
}

static enum err
build_json(struct shape *s)
{
	struct writer w = { .out = &s->json, .rc = ERR_OK };
	uint64_t omitted;

	put_open(&w, "{");
	put_status(&w, s->o);
	put_texts(&w, s);
	omitted = put_list(&w, s, "plots", true);
	put_plot_path(&w, s);
	omitted += put_list(&w, s, "files", false);
	if (omitted > 0)
		put_number(&w, "files_omitted", omitted);
	put_number(&w, "stdout_bytes", s->o->output_bytes);
	put_key(&w, "truncated");
	put(&w, s->cut || s->o->truncated ? "true" : "false");
	put_number(&w, "duration_ms", s->o->duration_ms);
	put_number(&w, "queued_ms", s->view->queued_ms);
	put_limits(&w, s->view->limits);
	put_close(&w, "}");
	return w.rc;
}

/* ---- the text block ------------------------------------------------------ */

static void
put_line(struct writer *w, const char *before, const char *text, size_t budget)
{
	if (text == NULL || *text == '\0' || w->rc != ERR_OK)
		return;
	if (w->out->len > 0 && w->out->data[w->out->len - 1] != '\n')
		put(w, "\n");
	put(w, before);
	if (w->rc == ERR_OK)
		w->rc = text_bound(w->out, text, strlen(text), budget, NULL);
}

static void
put_address(struct writer *w, struct shape *s, size_t i)
{
	const struct content_link *link = content_link_of(s, i);
	const char *base = s->view->base;

	if (link == NULL || link->ref == NULL)
		return;
	put(w, " ");
	put(w, base != NULL ? base : "");
	put(w, base != NULL ? ARTIFACT_PATH : ARTIFACT_URI);
	put(w, link->ref);
}

static void
put_file_lines(struct writer *w, struct shape *s)
{
	size_t last = w->out->len + s->budget;

	for (size_t i = 0; i < s->o->n_files; i++) {
		const struct outcome_file *f = &s->o->files[i];

		if (w->rc != ERR_OK || w->out->len + entry_size(s, i) > last)
			return;
		put_line(
		    w, f->figure ? "Figure: " : "File: ", f->path, s->budget);
		if (w->rc == ERR_OK)
			w->rc = buf_printf(w->out, " (%zu bytes)%s%s", f->len,
			    s->why[i] != NULL ? ": " : "",
			    s->why[i] != NULL ? s->why[i] : "");
		put_address(w, s, i);
	}
}

/* What a person wants to read: output, value, and what went wrong. */
static enum err
build_plain(struct shape *s, struct buf *out)
{
	struct writer w = { .out = out, .rc = ERR_OK };
	const struct outcome *o = s->o;

	put_line(&w, "", o->text, s->budget);
	put_line(&w, "Result: ", o->result, s->budget / 2);
	if (o->kind != OUTCOME_OK)
		put_line(&w, "Error: ",
		    o->error_message != NULL ? o->error_message
					     : outcome_kind_name(o->kind),
		    s->budget / 4);
	put_line(&w, "", details(o), s->budget / 4);
	put_file_lines(&w, s);
	return w.rc;
}

static enum err
build_text(struct shape *s)
{
	CLEANUP_BUF struct buf plain = { .max = SIZE_MAX / 2 };
	enum err rc = ERR_OK;

	if (s->view->conf->text_json)
		return json_quote(&s->text, buf_str(&s->json), s->json.len);
	if ((rc = build_plain(s, &plain)) != ERR_OK)
		return rc;
	return json_quote(&s->text, buf_str(&plain), plain.len);
}

/* ---- fitting ------------------------------------------------------------ */

static bool
structured(const struct content_view *view)
{
	return view->revision >= REVISION_2025_06_18;
}

static size_t
size_of(const struct shape *s)
{
	return s->view->reserved + FRAME_BYTES + s->text.len +
	    (structured(s->view) ? s->json.len : 0);
}

static enum err
build(struct shape *s)
{
	enum err rc;

	s->cut = false;
	buf_done(&s->json);
	buf_done(&s->text);
	if ((rc = build_json(s)) != ERR_OK)
		return rc;
	return build_text(s);
}

/* Builds the texts, halving their budget until they fit. The reasons are all
 * set by then, so that later ones can only make it shorter. */
static enum err
build_fitting(struct shape *s)
{
	size_t most = s->view->conf->result_max;
	enum err rc;

	for (;;) {
		rc = build(s);
		if (rc != ERR_OK && rc != ERR_LIMIT)
			return rc;
		if (rc == ERR_OK && size_of(s) <= most)
			return ERR_OK;
		if (s->budget / 2 < TEXT_LEAST)
			return rc;
		s->budget /= 2;
	}
}

/* Says of every file why it is not given; of the figures that can be sent the
 * longest reason first. */
static void
presume_omitted(struct shape *s)
{
	for (size_t i = 0; i < s->o->n_files; i++) {
		const struct outcome_file *f = &s->o->files[i];
		const struct content_link *link = content_link_of(s, i);

		if (f->data == NULL)
			s->why[i] = f->reason != NULL
			    ? f->reason
			    : "not returned by the sandbox";
		else if (f->figure)
			s->why[i] = content_over_count;
		else if (link == NULL)
			s->why[i] = not_sent;
		else
			s->why[i] = link->ref == NULL ? link->reason : NULL;
	}
}

/* ---- the whole ---------------------------------------------------------- */

static enum err
append_result(struct buf *out, const struct shape *s)
{
	struct writer w = { .out = out, .rc = ERR_OK };

	put(&w, "{\"content\":[{\"type\":\"text\",\"text\":");
	put(&w, buf_str(&s->text));
	put(&w, "}");
	if (w.rc == ERR_OK)
		w.rc = content_blocks(out, s);
	put(&w, "]");
	if (structured(s->view)) {
		put(&w, ",\"structuredContent\":");
		put(&w, buf_str(&s->json));
	}
	put(&w, ",\"isError\":");
	put(&w, s->o->kind == OUTCOME_OK ? "false}" : "true}");
	return w.rc;
}

enum err
content_result(struct buf *out, const struct content_view *view)
{
	struct shape s = { .view = view,
		.o = view->outcome,
		.budget = view->conf->output_max };
	enum err rc = ERR_NOMEM;

	buf_init(&s.json, view->conf->result_max);
	buf_init(&s.text, view->conf->result_max);
	s.why = calloc(s.o->n_files + 1, sizeof(*s.why));
	s.shown = calloc(s.o->n_files + 1, sizeof(*s.shown));
	if (s.why == NULL || s.shown == NULL)
		goto out;
	presume_omitted(&s);
	if ((rc = build_fitting(&s)) != ERR_OK)
		goto out;
	content_choose(&s, size_of(&s));
	if ((rc = build(&s)) == ERR_OK)
		rc = append_result(out, &s);
out:
	free(s.why);
	free(s.shown);
	buf_done(&s.json);
	buf_done(&s.text);
	return rc;
}

enum err
content_refusal(struct buf *out, const char *text)
{
	struct writer w = { .out = out, .rc = ERR_OK };

	put(&w, "{\"content\":[{\"type\":\"text\",\"text\":");
	put_string(&w, text);
	put(&w, "}],\"isError\":true}");
	return w.rc;
}
