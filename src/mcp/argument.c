/*
 * From the arguments of a call to a job. cJSON serves for names and types;
 * every string is read from the raw text, where a NUL does not cut it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/tool.h"

#define PATH_MAX_BYTES 1024
#define NAME_MAX_BYTES 255

struct reading {
	const struct conf *conf;
	struct sandbox_job *job;
	struct tool_fault *fault;
	struct json_span arguments;
};

static enum err wrong(struct reading *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static enum err
wrong(struct reading *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->fault->text, sizeof(r->fault->text), fmt, ap);
	va_end(ap);
	return ERR_RPC_PARAMS;
}

/* An optional argument; many clients send null for one that is not given. */
static const cJSON *
get_optional(const cJSON *object, const char *key)
{
	const cJSON *item = json_get(object, key);

	return cJSON_IsNull(item) ? NULL : item;
}

static const char *
type_name(const cJSON *item)
{
	if (cJSON_IsNull(item))
		return "null";
	if (cJSON_IsBool(item))
		return "a boolean";
	if (cJSON_IsNumber(item))
		return "a number";
	if (cJSON_IsString(item))
		return "a string";
	return cJSON_IsArray(item) ? "an array" : "an object";
}

/* A foreign name for a message: short, whole characters. */
static const char *
shorten(const char *name, char out[64])
{
	size_t n = strlen(name);

	if (n > 60) {
		n = 60;
		while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
			n--;
	}
	snprintf(out, 64, "%.*s", (int)n, name);
	return out;
}

/* Says which names there are: a model corrects itself from this. */
static enum err
unknown(struct reading *r, const char *where, const char *name,
    const char *const *known)
{
	char list[128] = "";
	size_t n = 0;

	for (; *known != NULL && n < sizeof(list); known++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s",
		    n > 0 ? ", " : "", *known);
	return wrong(r, "%s%s: there is no such argument; there are %s", where,
	    name, list);
}

static enum err
check_names(struct reading *r, const cJSON *object, const char *where,
    const char *const *known)
{
	const cJSON *item;
	char name[64];

	cJSON_ArrayForEach(item, object)
	{
		const char *const *k = known;

		while (*k != NULL && strcmp(*k, item->string) != 0)
			k++;
		if (*k == NULL)
			return unknown(
			    r, where, shorten(item->string, name), known);
	}
	return ERR_OK;
}

/* Reads the string at key of a raw object, whole. */
static enum err
read_string(
    struct json_span object, const char *key, char **ret_text, size_t *ret_len)
{
	const char *const path[] = { key, NULL };
	CLEANUP_BUF struct buf out = { .max = object.len };
	struct json_span span;
	enum err rc;

	if ((rc = json_find(object.at, object.len, path, &span)) != ERR_OK ||
	    (rc = buf_reserve(&out, span.len)) != ERR_OK ||
	    (rc = json_string(span, &out)) != ERR_OK)
		return rc;
	*ret_text = buf_steal(&out, ret_len);
	return *ret_text != NULL ? ERR_OK : ERR_NOMEM;
}

static enum err
read_code(struct reading *r, const cJSON *arguments)
{
	const cJSON *item = json_get(arguments, "python_code");
	struct sandbox_job *job = r->job;
	enum err rc;

	if (item == NULL)
		return wrong(r,
		    "python_code: is missing; it must be a string "
		    "with the program");
	if (!cJSON_IsString(item))
		return wrong(r, "python_code: must be a string, not %s",
		    type_name(item));
	rc = read_string(
	    r->arguments, "python_code", &job->code, &job->code_len);
	if (rc != ERR_OK)
		return rc;
	if (memchr(job->code, '\0', job->code_len) != NULL)
		return wrong(r,
		    "python_code: source contains NUL (\\u0000); "
		    "write \\0 inside a Python string instead");
	if (job->code_len > r->conf->code_max)
		return wrong(r,
		    "python_code: has %zu bytes, more than the "
		    "limit of %llu (setting code_max)",
		    job->code_len, (unsigned long long)r->conf->code_max);
	return ERR_OK;
}

static enum err
read_stdin(struct reading *r, const cJSON *arguments)
{
	const cJSON *item = get_optional(arguments, "stdin");

	if (item == NULL)
		return ERR_OK;
	if (!cJSON_IsString(item))
		return wrong(
		    r, "stdin: must be a string, not %s", type_name(item));
	return read_string(
	    r->arguments, "stdin", &r->job->input, &r->job->input_len);
}

static enum err
read_timeout(struct reading *r, const cJSON *arguments)
{
	const cJSON *item = get_optional(arguments, "timeout_seconds");
	double most = (double)r->conf->sandbox_time_limit / 1000;

	if (item == NULL)
		return ERR_OK;
	if (!cJSON_IsNumber(item))
		return wrong(r, "timeout_seconds: must be a number, not %s",
		    type_name(item));
	if (!(item->valuedouble >= 1 && item->valuedouble <= most))
		return wrong(r,
		    "timeout_seconds: must be from 1 to %g (setting "
		    "sandbox_time_limit)",
		    most);
	r->job->timeout_ms = (uint64_t)(item->valuedouble * 1000);
	return ERR_OK;
}

/* ---- files -------------------------------------------------------------- */

/* Why a path cannot be used, or NULL. Snekbox refuses more than it has to;
 * what it refuses is refused here, in clearer words. */
static const char *
path_fault(const char *path, size_t len)
{
	const char *part = path, *end;

	if (len == 0)
		return "is empty";
	if (len > PATH_MAX_BYTES)
		return "is longer than 1024 bytes";
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)path[i];

		if (c < 0x20 || c == 0x7f)
			return "holds a control character";
	}
	if (*path == '/')
		return "must be relative";
	if (strstr(path, "\\0") != NULL)
		return "must not hold a backslash before a zero";
	for (;; part = end + 1) {
		size_t n;

		end = strchrnul(part, '/');
		n = (size_t)(end - part);
		if (n == 0 || (n == 1 && part[0] == '.'))
			return "must not have empty parts or \".\"";
		if (n == 2 && part[0] == '.' && part[1] == '.')
			return "must not have \"..\"";
		if (n > NAME_MAX_BYTES)
			return "has a part longer than 255 bytes";
		if (*end == '\0')
			return NULL;
	}
}

/* Names that the runner needs for itself; as a folder too. */
static bool
reserved(const char *path)
{
	static const char *const names[] = { "main.py", ".sandbox" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (strncmp(path, names[i], n) == 0 &&
		    (path[n] == '\0' || path[n] == '/'))
			return true;
	}
	return false;
}

static enum err
read_path(struct reading *r, struct json_span span, const cJSON *item, size_t n,
    struct sandbox_file *file)
{
	const cJSON *path = json_get(item, "path");
	const char *why;
	char shown[64];
	size_t len;
	enum err rc;

	if (!cJSON_IsString(path))
		return wrong(r, "files[%zu].path: must be a string", n);
	if ((rc = read_string(span, "path", &file->path, &len)) != ERR_OK)
		return rc;
	if ((why = path_fault(file->path, len)) != NULL)
		return wrong(r, "files[%zu].path: %s", n, why);
	if (reserved(file->path))
		return wrong(r, "files[%zu].path: %s is a reserved name", n,
		    shorten(file->path, shown));
	return ERR_OK;
}

static enum err
read_base64(struct reading *r, struct json_span span, size_t n,
    struct sandbox_file *file)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_BUF struct buf data = { .max = span.len };
	size_t len;
	enum err rc;

	if ((rc = read_string(span, "base64", &text, &len)) != ERR_OK)
		return rc;
	rc = base64_decode(&data, text, len);
	if (rc == ERR_PARSE)
		return wrong(r,
		    "files[%zu].base64: is not base64 (RFC 4648, "
		    "with padding)",
		    n);
	if (rc != ERR_OK)
		return rc;
	file->data = buf_steal(&data, &file->len);
	return file->data != NULL ? ERR_OK : ERR_NOMEM;
}

static enum err
read_file(struct reading *r, struct json_span span, const cJSON *item, size_t n)
{
	static const char *const known[] = { "path", "text", "base64", NULL };
	struct sandbox_file *file = &r->job->files[n];
	const cJSON *text, *base64, *content;
	char where[32];
	enum err rc;

	if (!cJSON_IsObject(item))
		return wrong(r, "files[%zu]: must be an object, not %s", n,
		    type_name(item));
	snprintf(where, sizeof(where), "files[%zu].", n);
	if ((rc = check_names(r, item, where, known)) != ERR_OK ||
	    (rc = read_path(r, span, item, n, file)) != ERR_OK)
		return rc;
	text = get_optional(item, "text");
	base64 = get_optional(item, "base64");
	if ((text == NULL) == (base64 == NULL))
		return wrong(r, "files[%zu]: give either text or base64", n);
	content = text != NULL ? text : base64;
	if (!cJSON_IsString(content))
		return wrong(r, "files[%zu].%s: must be a string, not %s", n,
		    content->string, type_name(content));
	if (base64 != NULL)
		return read_base64(r, span, n, file);
	return read_string(span, "text", &file->data, &file->len);
}

/* Orders paths so that a folder stands directly before what is in it. */
static int
compare_paths(const void *va, const void *vb)
{
	const unsigned char *a = *(const unsigned char *const *)va;
	const unsigned char *b = *(const unsigned char *const *)vb;

	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	/* '/' before every other byte */
	return (*a == '/' ? 1 : *a) - (*b == '/' ? 1 : *b);
}

static enum err
check_clashes(struct reading *r)
{
	const char *paths[TOOL_FILES_MAX];
	size_t n = r->job->n_files;
	char shown[64];

	for (size_t i = 0; i < n; i++)
		paths[i] = r->job->files[i].path;
	qsort(paths, n, sizeof(paths[0]), compare_paths);
	for (size_t i = 1; i < n; i++) {
		size_t len = strlen(paths[i - 1]);

		if (strncmp(paths[i - 1], paths[i], len) != 0)
			continue;
		if (paths[i][len] == '\0')
			return wrong(r, "files: %s is given twice",
			    shorten(paths[i], shown));
		if (paths[i][len] == '/')
			return wrong(r,
			    "files: %s cannot be both a file and "
			    "a folder",
			    shorten(paths[i - 1], shown));
	}
	return ERR_OK;
}

static enum err
read_files(struct reading *r, const cJSON *arguments)
{
	static const char *const path[] = { "files", NULL };
	const cJSON *files = get_optional(arguments, "files"), *item;
	struct json_span array, span;
	size_t at = 0, n = 0;
	enum err rc;

	if (files == NULL)
		return ERR_OK;
	if (!cJSON_IsArray(files))
		return wrong(
		    r, "files: must be an array, not %s", type_name(files));
	if (cJSON_GetArraySize(files) > TOOL_FILES_MAX)
		return wrong(r, "files: more than %d", TOOL_FILES_MAX);
	r->job->files = calloc(TOOL_FILES_MAX, sizeof(*r->job->files));
	if (r->job->files == NULL)
		return ERR_NOMEM;
	rc = json_find(r->arguments.at, r->arguments.len, path, &array);
	if (rc != ERR_OK)
		return rc;
	cJSON_ArrayForEach(item, files)
	{
		r->job->n_files = n + 1;
		if ((rc = json_item(array, &at, &span)) != ERR_OK ||
		    (rc = read_file(r, span, item, n++)) != ERR_OK)
			return rc;
	}
	return check_clashes(r);
}

enum err
tool_arguments(const struct rpc_message *message, const struct conf *conf,
    struct sandbox_job *ret_job, struct tool_fault *fault)
{
	static const char *const path[] = { "params", "arguments", NULL };
	static const char *const known[] = { "python_code", "stdin", "files",
		"timeout_seconds", NULL };
	const cJSON *arguments = json_get(message->params, "arguments");
	struct sandbox_job job = { .code = NULL };
	struct reading r = { .conf = conf, .job = &job, .fault = fault };
	enum err rc;

	/* absent and null arguments lack python_code, as {} does */
	if (json_find(message->text, message->text_len, path, &r.arguments) !=
		ERR_OK ||
	    !cJSON_IsObject(arguments))
		arguments = NULL;
	if ((rc = check_names(&r, arguments, "", known)) == ERR_OK &&
	    (rc = read_code(&r, arguments)) == ERR_OK &&
	    (rc = read_stdin(&r, arguments)) == ERR_OK &&
	    (rc = read_timeout(&r, arguments)) == ERR_OK &&
	    (rc = read_files(&r, arguments)) == ERR_OK)
		*ret_job = job;
	else
		sandbox_job_done(&job);
	return rc;
}
