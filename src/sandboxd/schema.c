#include <string.h>

#include "sandboxd/schema.h"

/* as Python writes the repr of Snekbox's regular expression */
#define PATH_PATTERN "'^(?!/)(?!.*\\\\\\\\0).*$'"

/* The members, in the order in which they are checked. */
static const struct {
	const char *name;
	enum value_type type;
	const char *type_name;
	bool nullable; /* ours, where null means "not given" */
} members[] = {
	{ "args", VALUE_ARRAY, "array", false },
	{ "executable_path", VALUE_STRING, "string", false },
	{ "files", VALUE_ARRAY, "array", false },
	{ "input", VALUE_STRING, "string", false },
	{ "stderr", VALUE_TRUE, "boolean", true },
	{ "stdin", VALUE_STRING, "string", true },
	{ "timeout", VALUE_NUMBER, "number", true },
};

/* The fault: repr(value) followed by text. */
static enum err
refuse(struct request_fault *fault, const struct value *v, const char *text)
{
	enum err rc = request_refuse(fault, 400, SCHEMA_TITLE, NULL);
	enum err written;

	if ((written = value_repr(&fault->description, v)) != ERR_OK ||
	    (written = buf_puts(&fault->description, text)) != ERR_OK) {
		if (written != ERR_LIMIT)
			return written;
		/* a description longer than any reader wants */
		return request_refuse(fault, 400, SCHEMA_TITLE, text);
	}
	return rc;
}

static enum err
check_type(struct request_fault *fault, const struct value *v,
    enum value_type type, const char *type_name)
{
	enum value_type is = v->type == VALUE_FALSE ? VALUE_TRUE : v->type;
	enum err rc, written;

	if (is == type)
		return ERR_OK;
	if ((rc = refuse(fault, v, " is not of type '")) != ERR_PARSE)
		return rc;
	if ((written = buf_puts(&fault->description, type_name)) != ERR_OK ||
	    (written = buf_putc(&fault->description, '\'')) != ERR_OK)
		return written;
	return rc;
}

static enum err
check_members(struct request_fault *fault, const struct value *root)
{
	enum err rc;

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		struct value *v = value_get(root, members[i].name);

		if (v == NULL || (members[i].nullable && v->type == VALUE_NULL))
			continue;
		rc =
		    check_type(fault, v, members[i].type, members[i].type_name);
		if (rc != ERR_OK)
			return rc;
	}
	return ERR_OK;
}

static enum err
check_items(struct request_fault *fault, const struct value *list,
    enum value_type type, const char *type_name)
{
	enum err rc = ERR_OK;

	for (struct value *v = list != NULL ? list->child : NULL;
	     v != NULL && rc == ERR_OK; v = v->next)
		rc = check_type(fault, v, type, type_name);
	return rc;
}

/* '^(?!/)(?!.*\\0).*$', where "." is no newline and "$" may stand before a
 * last one. */
static bool
path_matches(const char *text, size_t n)
{
	const char *newline;

	if (n > 0 && text[0] == '/')
		return false;
	newline = memchr(text, '\n', n);
	if (newline != NULL && newline != text + n - 1)
		return false;
	return memmem(text, n, "\\0", 2) == NULL;
}

static enum err
check_file(struct request_fault *fault, const struct value *file)
{
	struct value *path = value_get(file, "path");
	struct value *content = value_get(file, "content");
	enum err rc;

	if (path == NULL)
		return request_refuse(
		    fault, 400, SCHEMA_TITLE, "'path' is a required property");
	if ((rc = check_type(fault, path, VALUE_STRING, "string")) != ERR_OK)
		return rc;
	if (!path_matches(path->text, path->len))
		return refuse(fault, path, " does not match " PATH_PATTERN);
	if (content == NULL)
		return ERR_OK;
	return check_type(fault, content, VALUE_STRING, "string");
}

enum err
schema_check(const struct value *root, struct request_fault *fault)
{
	struct value *files = value_get(root, "files");
	enum err rc;

	rc = check_type(fault, root, VALUE_OBJECT, "object");
	if (rc != ERR_OK)
		return rc;
	if (value_get(root, "input") == NULL && value_get(root, "args") == NULL)
		return refuse(fault, root,
		    " is not valid under any of the given schemas");
	if ((rc = check_members(fault, root)) != ERR_OK ||
	    (rc = check_items(fault, value_get(root, "args"), VALUE_STRING,
		 "string")) != ERR_OK ||
	    (rc = check_items(fault, files, VALUE_OBJECT, "object")) != ERR_OK)
		return rc;
	for (struct value *v = files != NULL ? files->child : NULL;
	     v != NULL && rc == ERR_OK; v = v->next)
		rc = check_file(fault, v);
	return rc;
}
