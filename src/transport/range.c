/* Range, entity tags and names of downloads; declared in http.h. */
#include <string.h>
#include <strings.h>

#include "transport/http.h"

#define BLANKS " \t"

/* Reads digits; a number too large becomes the largest. False when there are
 * none. */
static bool
take_number(const char **at, uint64_t *ret_n)
{
	const char *p = *at;
	uint64_t n = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		unsigned digit = (unsigned)(*p - '0');

		n = n > (UINT64_MAX - digit) / 10 ? UINT64_MAX : n * 10 + digit;
	}
	if (p == *at)
		return false;
	*at = p;
	*ret_n = n;
	return true;
}

/* The last n bytes. */
static enum http_range
suffix(uint64_t n, uint64_t size, uint64_t *ret_at, uint64_t *ret_len)
{
	if (n == 0 || size == 0)
		return HTTP_RANGE_BEYOND;
	*ret_len = n < size ? n : size;
	*ret_at = size - *ret_len;
	return HTTP_RANGE_PART;
}

/* "FIRST-LAST", "FIRST-" or "-LENGTH", with nothing behind. */
static enum http_range
one_range(const char *at, uint64_t size, uint64_t *ret_at, uint64_t *ret_len)
{
	uint64_t first = 0, last = UINT64_MAX;
	bool has_first = take_number(&at, &first), has_last;

	if (*at++ != '-')
		return HTTP_RANGE_NONE;
	has_last = take_number(&at, &last);
	at += strspn(at, BLANKS);
	if (*at != '\0' || (!has_first && !has_last))
		return HTTP_RANGE_NONE;
	if (!has_first)
		return suffix(last, size, ret_at, ret_len);
	if (last < first)
		return HTTP_RANGE_NONE;
	if (first >= size)
		return HTTP_RANGE_BEYOND;
	*ret_at = first;
	*ret_len = (last < size ? last + 1 : size) - first;
	return HTTP_RANGE_PART;
}

enum http_range
http_range(
    const char *field, uint64_t size, uint64_t *ret_at, uint64_t *ret_len)
{
	const char *at = field;

	if (at == NULL)
		return HTTP_RANGE_NONE;
	at += strspn(at, BLANKS);
	/* other units, and several ranges, may be passed over (RFC 9110) */
	if (strncasecmp(at, "bytes", 5) != 0)
		return HTTP_RANGE_NONE;
	at += 5 + strspn(at + 5, BLANKS);
	if (*at++ != '=')
		return HTTP_RANGE_NONE;
	at += strspn(at, BLANKS);
	return one_range(at, size, ret_at, ret_len);
}

bool
http_etag_listed(const char *field, const char *etag)
{
	size_t n = strlen(etag);
	const char *at = field;

	while (at != NULL && *at != '\0') {
		at += strspn(at, BLANKS ",");
		if (*at == '*')
			return true;
		if (strncmp(at, "W/", 2) == 0)
			at += 2;
		if (strncmp(at, etag, n) == 0 &&
		    strchr(BLANKS ",", at[n]) != NULL)
			return true;
		at += strcspn(at, ",");
	}
	return false;
}

/* What a name may not hold in a folder of the one who saves it. */
static bool
is_unfit(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f || c == '/' || c == '\\';
}

/* The plain name is ASCII, without what needs quoting; a percent sign would be
 * decoded by some browsers. One "_" for each character that can't stand. */
static enum err
plain_name(struct buf *out, const char *name, bool *ret_same)
{
	enum err rc = ERR_OK;

	*ret_same = true;
	for (; *name != '\0' && rc == ERR_OK; name++) {
		bool fits = (unsigned char)*name < 0x80 && !is_unfit(*name) &&
		    strchr("\"%", *name) == NULL;

		*ret_same = *ret_same && (fits || is_unfit(*name));
		if (((unsigned char)*name & 0xc0) == 0x80)
			continue;
		rc = buf_putc(out, fits ? *name : '_');
	}
	return rc;
}

static bool
is_attr_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	    (c >= 'A' && c <= 'Z') || (c != '\0' && strchr("-._~", c) != NULL);
}

static enum err
true_name(struct buf *out, const char *name)
{
	enum err rc = buf_puts(out, "; filename*=UTF-8''");

	for (; *name != '\0' && rc == ERR_OK; name++) {
		if (is_unfit(*name))
			rc = buf_putc(out, '_');
		else if (is_attr_char(*name))
			rc = buf_putc(out, *name);
		else
			rc = buf_printf(out, "%%%02X", (unsigned char)*name);
	}
	return rc;
}

enum err
http_disposition(struct buf *out, bool shown_inline, const char *name)
{
	bool same;
	enum err rc;

	if ((rc = buf_puts(out, shown_inline ? "inline" : "attachment")) !=
		ERR_OK ||
	    (rc = buf_puts(out, "; filename=\"")) != ERR_OK ||
	    (rc = plain_name(out, name, &same)) != ERR_OK ||
	    (rc = buf_putc(out, '"')) != ERR_OK)
		return rc;
	return same ? ERR_OK : true_name(out, name);
}
