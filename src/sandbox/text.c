#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/text.h"

#define ESC 0x1b
#define REPLACEMENT 0xfffd
#define CONTROL_PICTURES 0x2400
#define PICTURE_OF_DELETE 0x2421
#define NEXT_LINE 0x85
#define C1_CSI 0x9b

/* Decodes the character at p, of which n bytes are there. Sets how many bytes
 * it takes; for what is no UTF-8 that is the part which can't be the beginning
 * of any character, and the value is U+FFFD. */
static uint32_t
decode(const unsigned char *p, size_t n, size_t *ret_len)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t want, i;
	uint32_t c;

	*ret_len = 1;
	if (p[0] < 0x80)
		return p[0];
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return REPLACEMENT;
	want = p[0] < 0xe0 ? 1 : p[0] < 0xf0 ? 2 : 3;
	c = p[0] & (0x3fu >> want);
	/* no overlong forms, no surrogates, nothing beyond U+10FFFF */
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	for (i = 1; i <= want; i++) {
		if (i >= n || p[i] < low || p[i] > high) {
			*ret_len = i;
			return REPLACEMENT;
		}
		c = c << 6 | (p[i] & 0x3fu);
		low = 0x80;
		high = 0xbf;
	}
	*ret_len = i;
	return c;
}

static enum err
put(struct buf *out, uint32_t c)
{
	char b[4];
	size_t n;

	if (c < 0x80) {
		b[0] = (char)c;
		n = 1;
	} else if (c < 0x800) {
		b[0] = (char)(0xc0 | c >> 6);
		n = 2;
	} else if (c < 0x10000) {
		b[0] = (char)(0xe0 | c >> 12);
		n = 3;
	} else {
		b[0] = (char)(0xf0 | c >> 18);
		n = 4;
	}
	for (size_t i = 1; i < n; i++)
		b[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
	return buf_append(out, b, n);
}

/* A line under construction, as a terminal sees it: characters and a cursor
 * that a carriage return or a backspace moves. */
struct line {
	struct buf *cells; /* uint32_t each; borrowed */
	size_t at;         /* the cursor, counted in cells */
};

static size_t
line_len(const struct line *line)
{
	return line->cells->len / sizeof(uint32_t);
}

static enum err
line_put(struct line *line, uint32_t c)
{
	if (line->at > line_len(line))
		line->at = line_len(line);
	if (line->at < line_len(line)) {
		memcpy(line->cells->data + line->at * sizeof(c), &c, sizeof(c));
		line->at++;
		return ERR_OK;
	}
	line->at++;
	return buf_append(line->cells, &c, sizeof(c));
}

/* CSI K. What a program erases before it writes the line anew goes; a line
 * that is merely wiped on a screen is kept, because here it can be read. */
static void
line_erase(struct line *line, unsigned char how, bool anew)
{
	if (how == '2' && (anew || line->at == 0))
		line->cells->len = 0;
	else if ((how == 'K' || how == '0') && line->at < line_len(line))
		line->cells->len = line->at * sizeof(uint32_t);
}

static enum err
line_flush(struct line *line, struct buf *out)
{
	enum err rc = ERR_OK;
	uint32_t c;

	for (size_t i = 0; rc == ERR_OK && i < line_len(line); i++) {
		memcpy(&c, line->cells->data + i * sizeof(c), sizeof(c));
		rc = put(out, c);
	}
	line->cells->len = 0;
	line->at = 0;
	return rc;
}

/* Length of a control sequence's parameters and final byte at p, 0 when it is
 * none. */
static size_t
csi_len(const unsigned char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] >= 0x30 && p[i] <= 0x3f)
		i++;
	while (i < n && p[i] >= 0x20 && p[i] <= 0x2f)
		i++;
	return i < n && p[i] >= 0x40 && p[i] <= 0x7e ? i + 1 : 0;
}

/* Length of a string for the terminal (a window title, say) up to and with
 * its terminator; 0 when that is not on the same line. */
static size_t
string_len(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n && p[i] != '\n'; i++) {
		if (p[i] == 0x07)
			return i + 1;
		if (p[i] == ESC && i + 1 < n && p[i + 1] == '\\')
			return i + 2;
		if (p[i] == 0xc2 && i + 1 < n && p[i + 1] == 0x9c)
			return i + 2;
	}
	return 0;
}

/* Length of the escape sequence at p, which begins with ESC. */
static size_t
escape_len(const unsigned char *p, size_t n)
{
	size_t i = 1;

	if (n < 2)
		return 1;
	if (p[1] == '[')
		return 2 + csi_len(p + 2, n - 2);
	if (strchr("]PX^_", p[1]) != NULL && p[1] != '\0')
		return 2 + string_len(p + 2, n - 2);
	while (i < n && p[i] >= 0x20 && p[i] <= 0x2f)
		i++;
	return i < n && p[i] >= 0x30 && p[i] <= 0x7e ? i + 1 : 1;
}

/* Removes the sequence at p, but for the one that erases. Returns its
 * length. */
static size_t
take_escape(struct line *line, const unsigned char *p, size_t n)
{
	size_t len = escape_len(p, n);

	if (len >= 3 && p[1] == '[' && p[len - 1] == 'K')
		line_erase(line, p[2], len < n && p[len] == '\r');
	return len;
}

static enum err
put_visible(struct line *line, uint32_t c)
{
	static const char digits[] = "0123456789abcdef";
	enum err rc;

	if (c == 0x7f)
		return line_put(line, PICTURE_OF_DELETE);
	if (c < 0x20 && c != '\t')
		return line_put(line, CONTROL_PICTURES + c);
	if (c < 0x80 || c > 0x9f || c == NEXT_LINE)
		return line_put(line, c);
	if ((rc = line_put(line, '\\')) != ERR_OK ||
	    (rc = line_put(line, 'x')) != ERR_OK ||
	    (rc = line_put(line, (uint32_t)digits[c >> 4])) != ERR_OK)
		return rc;
	return line_put(line, (uint32_t)digits[c & 15]);
}

/* Takes one character, or one sequence, of a line. */
static enum err
take(struct line *line, const unsigned char *p, size_t n, size_t *ret_len)
{
	uint32_t c = decode(p, n, ret_len);
	size_t len;

	if (c == ESC) {
		*ret_len = take_escape(line, p, n);
		return ERR_OK;
	}
	if (c == C1_CSI && (len = csi_len(p + 2, n - 2)) > 0) {
		*ret_len = 2 + len;
		return ERR_OK;
	}
	if (c == '\r') {
		line->at = 0;
		return ERR_OK;
	}
	if (c == '\b') {
		if (line->at > 0)
			line->at--;
		return ERR_OK;
	}
	return put_visible(line, c);
}

/* How many bytes from p on are plain: printable ASCII and tabs. */
static size_t
plain_len(const unsigned char *p, size_t n)
{
	size_t i = 0;

	while (i < n && ((p[i] >= 0x20 && p[i] < 0x7f) || p[i] == '\t'))
		i++;
	return i;
}

/* A whole line, without its newline. */
static enum err
clean_line(struct buf *out, struct line *line, const unsigned char *p, size_t n)
{
	size_t len;
	enum err rc;

	if (plain_len(p, n) == n)
		return buf_append(out, p, n);
	while (n > 0 && p[n - 1] == '\r')
		n--;
	while (n > 0) {
		if ((rc = take(line, p, n, &len)) != ERR_OK)
			return rc;
		p += len;
		n -= len;
	}
	return line_flush(line, out);
}

enum err
text_clean(struct buf *out, const char *data, size_t n)
{
	const unsigned char *p = (const unsigned char *)data, *end;
	CLEANUP_BUF struct buf cells = { .max = n * sizeof(uint32_t) * 4 };
	struct line line = { .cells = &cells };
	enum err rc = ERR_OK;

	while (rc == ERR_OK && n > 0) {
		size_t len = n;

		if ((end = memchr(p, '\n', n)) != NULL)
			len = (size_t)(end - p);
		rc = clean_line(out, &line, p, len);
		if (rc == ERR_OK && end != NULL) {
			rc = buf_putc(out, '\n');
			len++;
		}
		p += len;
		n -= len;
	}
	return rc;
}

static bool
is_border(const char *text, size_t n, size_t at)
{
	return at >= n || ((unsigned char)text[at] & 0xc0) != 0x80;
}

enum err
text_bound(
    struct buf *out, const char *text, size_t n, size_t budget, bool *ret_cut)
{
	/* the widest form of the line between, so that all stays inside */
	static const size_t line_max = sizeof("\n[… 18446744073709551615 "
					      "bytes left out …]\n");
	size_t room = budget > line_max ? budget - line_max : 0;
	size_t head, tail;
	enum err rc;

	if (n > budget) {
		head = room / 2;
		tail = n - (room - head);
		while (!is_border(text, n, head))
			head--;
		while (!is_border(text, n, tail))
			tail++;
		if ((rc = buf_append(out, text, head)) != ERR_OK ||
		    (rc = buf_printf(out, "\n[… %zu bytes left out …]\n",
			 tail - head)) != ERR_OK ||
		    (rc = buf_append(out, text + tail, n - tail)) != ERR_OK)
			return rc;
	} else if ((rc = buf_append(out, text, n)) != ERR_OK) {
		return rc;
	}
	if (ret_cut != NULL)
		*ret_cut = n > budget;
	return ERR_OK;
}
