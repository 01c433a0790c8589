/* Decoding of paths and queries; declared in http.h. */
#include <string.h>

#include "transport/http.h"

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool
is_alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	    (c >= 'A' && c <= 'Z');
}

static bool
is_unreserved(unsigned char c)
{
	return is_alnum(c) || (c != '\0' && strchr("-._~", c) != NULL);
}

/* May stand in a path as it is. Quotes and brackets may not: the path goes
 * into events and pages. */
static bool
is_path_char(unsigned char c)
{
	return is_unreserved(c) ||
	    (c != '\0' && strchr("!$()*+,;=:@", c) != NULL);
}

/* Reads "%XX". */
static enum err
take_escape(const char *at, unsigned char *ret_c)
{
	int high = hex_value(at[1]);
	int low = high < 0 ? -1 : hex_value(at[2]);

	if (low < 0)
		return ERR_PARSE;
	*ret_c = (unsigned char)(high << 4 | low);
	return ERR_OK;
}

static enum err
put_escaped(struct buf *out, unsigned char c)
{
	return buf_printf(out, "%%%02X", c);
}

/* Appends the normal form of one segment. */
static enum err
segment_normal(const char *at, size_t n, struct buf *out)
{
	enum err rc = ERR_OK;

	for (size_t i = 0; i < n && rc == ERR_OK; i++) {
		unsigned char c = (unsigned char)at[i];

		if (c == '%') {
			/* the text ends with NUL, so at[i + 2] is there or
			 * take_escape stops before it */
			if ((rc = take_escape(at + i, &c)) != ERR_OK)
				return rc;
			if (c < 0x20 || c == 0x7f)
				return ERR_PARSE;
			i += 2;
			rc = is_unreserved(c) ? buf_putc(out, (char)c)
					      : put_escaped(out, c);
		} else if (c < 0x20 || c == 0x7f) {
			return ERR_PARSE;
		} else {
			rc = is_path_char(c) ? buf_putc(out, (char)c)
					     : put_escaped(out, c);
		}
	}
	return rc;
}

/* Takes "." and ".." away from the end of a path that grows segment by
 * segment: segment begins at offset start, behind its "/". */
static void
remove_dots(struct buf *out, size_t base, size_t start)
{
	const char *segment = out->data + start;
	size_t cut = start;

	if (strcmp(segment, ".") != 0 && strcmp(segment, "..") != 0)
		return;
	if (segment[1] == '.' && start > base + 1) {
		cut = start - 1;
		while (cut > base + 1 && out->data[cut - 1] != '/')
			cut--;
	}
	out->len = cut;
	out->data[cut] = '\0';
}

/* The path of an absolute URI begins behind its host. */
static const char *
skip_authority(const char *uri)
{
	const char *at = uri, *mark = strstr(uri, "://");

	while (is_alnum((unsigned char)*at) || *at == '+' || *at == '-' ||
	    *at == '.')
		at++;
	if (mark == NULL || at != mark || at == uri)
		return uri;
	at = mark + 3;
	return at + strcspn(at, "/?#");
}

enum err
http_path_normal(const char *uri, struct buf *out)
{
	const char *at = skip_authority(uri);
	const char *end = at + strcspn(at, "?#");
	size_t base = out->len, start;
	enum err rc;

	if (at == uri && *at != '/')
		return ERR_PARSE;
	if ((rc = buf_putc(out, '/')) != ERR_OK)
		return rc;
	while (at < end) {
		size_t n = 0;

		while (at + n < end && at[n] != '/')
			n++;
		start = out->len;
		if ((rc = segment_normal(at, n, out)) != ERR_OK)
			return rc;
		at += n;
		remove_dots(out, base, start);
		/* one "/" however many there were: "//host" would be another
		 * origin */
		if (at < end && out->data[out->len - 1] != '/' &&
		    (rc = buf_putc(out, '/')) != ERR_OK)
			return rc;
		while (at < end && *at == '/')
			at++;
	}
	return ERR_OK;
}

/* Decodes n bytes of a parameter's value. */
static enum err
value_decode(const char *at, size_t n, char *ret_value, size_t size)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)at[i];

		if (c == '%') {
			if (n - i < 3 || take_escape(at + i, &c) != ERR_OK)
				return ERR_PARSE;
			i += 2;
		} else if (c == '+') {
			c = ' ';
		}
		if (c < 0x20 || c == 0x7f)
			return ERR_PARSE;
		if (len + 1 >= size)
			return ERR_LIMIT;
		ret_value[len++] = (char)c;
	}
	ret_value[len] = '\0';
	return ERR_OK;
}

enum err
http_query(const char *query, const char *name, char *ret_value, size_t size)
{
	size_t name_len = strlen(name), found_len = 0;
	const char *at = query, *found = NULL;

	while (*at != '\0') {
		size_t n = strcspn(at, "&");

		if (n > name_len && at[name_len] == '=' &&
		    memcmp(at, name, name_len) == 0) {
			if (found != NULL)
				return ERR_PARSE;
			found = at + name_len + 1;
			found_len = n - name_len - 1;
		}
		at += n;
		if (*at == '&')
			at++;
	}
	if (found == NULL)
		return ERR_NOT_FOUND;
	return value_decode(found, found_len, ret_value, size);
}
