#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandboxd/base64_lenient.h"
#include "sandboxd/request.h"
#include "sandboxd/schema.h"
#include "base/utf8.h"

#define DESCRIPTION_MAX (1u << 20)
#define NUMBER_MAX 64

static const char title_json[] = "Invalid JSON";
static const char title_file[] = "Request file is invalid";
static const char title_internal[] = "500 Internal Server Error";

enum err
request_refuse(struct request_fault *fault, int status, const char *title,
    const char *description)
{
	fault->status = status;
	fault->title = title;
	buf_drop(&fault->description, fault->description.len);
	if (description != NULL &&
	    buf_puts(&fault->description, description) != ERR_OK)
		return ERR_NOMEM;
	return ERR_PARSE;
}

/* A description of the form BEFORE repr AFTER. */
static enum err
refuse_file(struct request_fault *fault, const char *before, const char *path,
    size_t n, const char *after)
{
	enum err rc = request_refuse(fault, 400, title_file, before);

	if (buf_putc(&fault->description, '\'') != ERR_OK ||
	    buf_append(&fault->description, path, n) != ERR_OK ||
	    buf_putc(&fault->description, '\'') != ERR_OK ||
	    buf_puts(&fault->description, after) != ERR_OK)
		return ERR_NOMEM;
	return rc;
}

static enum err
parse(struct request *req, struct request_fault *fault, char *body, size_t n,
    bool form, const struct request_rules *rules)
{
	struct buf text;
	enum err rc;

	if (n == 0)
		return request_refuse(fault, 400, title_json,
		    "Could not parse an empty JSON body");
	rc = form ? value_parse_form(&req->doc, body, n)
		  : value_parse(&req->doc, body, n, rules->json_depth);
	if (rc == ERR_LIMIT)
		return request_refuse(fault, 400, title_json,
		    "Could not parse JSON body - too deep or too many values");
	if (rc != ERR_PARSE)
		return rc;
	buf_init(&text, DESCRIPTION_MAX);
	rc =
	    buf_printf(&text, "Could not parse JSON body - %s", req->doc.fault);
	if (rc == ERR_OK)
		rc = request_refuse(fault, 400, title_json, buf_str(&text));
	buf_done(&text);
	return rc;
}

static size_t
count(const struct value *list)
{
	size_t n = 0;

	for (struct value *v = list != NULL ? list->child : NULL; v != NULL;
	     v = v->next)
		n++;
	return n;
}

/* Takes one argument over, if it can be one. */
static enum err
add_arg(struct request *req, struct request_fault *fault, struct value *v)
{
	if (req->n_args == 1 && v->len == 0)
		return ERR_OK; /* leading empty ones are dropped */
	if (v->len > REQUEST_ARG_MAX)
		return request_refuse(fault, 500, title_internal,
		    "an argument is longer than 131071 bytes: send the "
		    "program as a file");
	if (memchr(v->text, '\0', v->len) != NULL)
		req->refusal = "ValueError: embedded null byte";
	else if (utf8_has_surrogate(v->text, v->len))
		req->refusal = "ValueError: lone surrogate in an argument";
	/* what stood behind it, a quote, has been read */
	v->text[v->len] = '\0';
	req->args[req->n_args++] = v->text;
	return ERR_OK;
}

static enum err
take_args(struct request *req, struct request_fault *fault)
{
	static char option_c[] = "-c";
	struct value dash_c = {
		.type = VALUE_STRING, .text = option_c, .len = 2
	};
	struct value *args = value_get(req->doc.root, "args");
	struct value *input = value_get(req->doc.root, "input");
	struct value *first = args != NULL ? args->child : &dash_c;
	enum err rc;

	req->args = calloc(count(args) + 4, sizeof(*req->args));
	if (req->args == NULL)
		return ERR_NOMEM;
	req->n_args = 1;
	for (struct value *v = first; v != NULL; v = v->next) {
		if ((rc = add_arg(req, fault, v)) != ERR_OK)
			return rc;
	}
	return input != NULL ? add_arg(req, fault, input) : ERR_OK;
}

/* Drops empty parts and ".", resolves "..". Returns NULL when that leads out
 * of the folder (or to no name at all: a NUL, half a surrogate pair). */
static char *
normalise(const char *given, size_t n)
{
	CLEANUP_FREE char *path = malloc(n + 2);
	size_t len = 0, start = 0;

	if (path == NULL || memchr(given, '\0', n) != NULL ||
	    utf8_has_surrogate(given, n))
		return NULL;
	for (size_t i = 0; i <= n; i++) {
		size_t part = i - start;

		if (i < n && given[i] != '/')
			continue;
		if (part == 2 && memcmp(given + start, "..", 2) == 0) {
			if (len == 0)
				return NULL;
			while (len > 0 && path[--len] != '/')
				;
		} else if (part > 0 && !(part == 1 && given[start] == '.')) {
			if (len > 0)
				path[len++] = '/';
			memcpy(path + len, given + start, part);
			len += part;
		}
		start = i + 1;
	}
	path[len] = '\0';
	return STEAL_PTR(path);
}

static enum err
take_file(
    struct request *req, struct request_fault *fault, const struct value *v)
{
	struct request_file *file = &req->files[req->n_files];
	struct value *path = value_get(v, "path");
	struct value *content = value_get(v, "content");

	file->given = path->text;
	file->given_len = path->len;
	file->data = "";
	if ((file->path = normalise(path->text, path->len)) == NULL)
		return refuse_file(fault, "File path ", path->text, path->len,
		    " may not traverse beyond root");
	req->n_files++;
	if (content == NULL)
		return ERR_OK;
	if (!base64_lenient(content->text, content->len, &file->len))
		return refuse_file(fault, "Invalid base64 encoding for file ",
		    path->text, path->len, "");
	file->data = content->text;
	return ERR_OK;
}

static enum err
take_files(struct request *req, struct request_fault *fault)
{
	struct value *files = value_get(req->doc.root, "files");
	enum err rc;

	if (files == NULL || files->child == NULL)
		return ERR_OK;
	req->files = calloc(count(files), sizeof(*req->files));
	if (req->files == NULL)
		return ERR_NOMEM;
	for (struct value *v = files->child; v != NULL; v = v->next) {
		if ((rc = take_file(req, fault, v)) != ERR_OK)
			return rc;
	}
	return ERR_OK;
}

/* Seconds as a number; more than the limit is the limit. */
static enum err
take_timeout(struct request *req, struct request_fault *fault,
    const struct request_rules *rules)
{
	struct value *v = value_get(req->doc.root, "timeout");
	char text[NUMBER_MAX];
	double seconds;

	req->timeout_ms = rules->time_limit_ms;
	if (v == NULL || v->type == VALUE_NULL)
		return ERR_OK;
	if (v->len >= sizeof(text))
		return request_refuse(
		    fault, 400, SCHEMA_TITLE, "timeout has too many digits");
	memcpy(text, v->text, v->len);
	text[v->len] = '\0';
	seconds = strtod(text, NULL);
	if (!isfinite(seconds) || seconds <= 0)
		return request_refuse(fault, 400, SCHEMA_TITLE,
		    "timeout must be more than 0 seconds");
	if (seconds * 1000 < (double)rules->time_limit_ms)
		req->timeout_ms = (uint64_t)(seconds * 1000) + 1;
	if (req->timeout_ms > rules->time_limit_ms)
		req->timeout_ms = rules->time_limit_ms;
	return ERR_OK;
}

static enum err
take_executable(struct request *req, struct request_fault *fault)
{
	struct value *v = value_get(req->doc.root, "executable_path");

	req->executable = "";
	if (v == NULL || v->len == 0)
		return ERR_OK;
	if (memchr(v->text, '\0', v->len) != NULL)
		return request_refuse(
		    fault, 400, "executable_path does not exist", NULL);
	v->text[v->len] = '\0';
	req->executable = v->text;
	return ERR_OK;
}

static void
take_rest(struct request *req)
{
	struct value *input = value_get(req->doc.root, "stdin");
	struct value *split = value_get(req->doc.root, "stderr");

	req->input = "";
	if (input != NULL && input->type == VALUE_STRING) {
		req->input = input->text;
		req->input_len = input->len;
	}
	req->split_stderr = split != NULL && split->type == VALUE_TRUE;
}

enum err
request_decode(struct request *req, struct request_fault *fault, char *body,
    size_t n, bool form, const struct request_rules *rules)
{
	enum err rc;

	*req = (struct request){ .n_args = 0 };
	*fault = (struct request_fault){ .status = 0 };
	buf_init(&fault->description, DESCRIPTION_MAX);
	if ((rc = parse(req, fault, body, n, form, rules)) != ERR_OK ||
	    (rc = schema_check(req->doc.root, fault)) != ERR_OK ||
	    (rc = take_executable(req, fault)) != ERR_OK ||
	    (rc = take_files(req, fault)) != ERR_OK ||
	    (rc = take_timeout(req, fault, rules)) != ERR_OK ||
	    (rc = take_args(req, fault)) != ERR_OK)
		return rc;
	take_rest(req);
	return ERR_OK;
}

void
request_done(struct request *req)
{
	for (size_t i = 0; i < req->n_files; i++)
		free(req->files[i].path);
	free(req->files);
	free(req->args);
	value_done(&req->doc);
	*req = (struct request){ .n_args = 0 };
}

void
request_fault_done(struct request_fault *fault)
{
	buf_done(&fault->description);
}
