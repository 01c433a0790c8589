/* Ids, names and addresses of artifacts. */
#include <string.h>

#include "mcp/artifact.h"

/* Bytes of a name that stand in an address: encoded, with prefix and id, it
 * must stay below what web servers and HTTP_PATH_MAX take. */
#define NAME_SHOWN 255

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool
artifact_is_id(const char *text)
{
	for (int i = 0; i < ARTIFACT_ID_LEN; i++) {
		if (!is_hex(text[i]))
			return false;
	}
	return !is_hex(text[ARTIFACT_ID_LEN]);
}

/* Of a long one the end, where the ending is. */
const char *
artifact_base_name(const char *name)
{
	const char *slash = strrchr(name, '/');
	size_t n;

	if (slash != NULL)
		name = slash + 1;
	if ((n = strlen(name)) > NAME_SHOWN) {
		name += n - NAME_SHOWN;
		while (((unsigned char)*name & 0xc0) == 0x80)
			name++;
	}
	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return "file";
	return name;
}

static bool
is_unreserved(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	    (c >= 'A' && c <= 'Z') || (c != '\0' && strchr("-._~", c) != NULL);
}

enum err
artifact_ref(struct buf *out, const char *id, const char *name)
{
	enum err rc;

	if ((rc = buf_puts(out, id)) != ERR_OK ||
	    (rc = buf_putc(out, '/')) != ERR_OK)
		return rc;
	for (name = artifact_base_name(name); *name != '\0' && rc == ERR_OK;
	     name++) {
		/* web servers refuse control characters, encoded too, and
		 * some take a backslash for a slash */
		if ((unsigned char)*name < 0x20 || *name == 0x7f ||
		    *name == '\\')
			rc = buf_putc(out, '_');
		else if (is_unreserved(*name))
			rc = buf_putc(out, *name);
		else
			rc = buf_printf(out, "%%%02X", (unsigned char)*name);
	}
	return rc;
}

enum err
artifact_uri_parse(const char *uri, char *ret_id)
{
	const char *id = uri + strlen(ARTIFACT_URI), *name;

	if (strncmp(uri, ARTIFACT_URI, strlen(ARTIFACT_URI)) != 0 ||
	    !artifact_is_id(id) || id[ARTIFACT_ID_LEN] != '/')
		return ERR_NOT_FOUND;
	name = id + ARTIFACT_ID_LEN + 1;
	if (*name == '\0' || strchr(name, '/') != NULL)
		return ERR_NOT_FOUND;
	memcpy(ret_id, id, ARTIFACT_ID_LEN);
	ret_id[ARTIFACT_ID_LEN] = '\0';
	return ERR_OK;
}
