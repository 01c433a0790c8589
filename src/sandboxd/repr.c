/* repr() of Python, for error texts that are Snekbox's. */
#include <string.h>

#include "sandboxd/value.h"

static enum err
repr_char(struct buf *out, unsigned char c, char quote)
{
	static const char from[] = "\n\r\t\\", to[] = "nrt\\";
	const char *found = c != '\0' ? strchr(from, c) : NULL;

	if (found != NULL)
		return buf_printf(out, "\\%c", to[found - from]);
	if (c == (unsigned char)quote)
		return buf_printf(out, "\\%c", quote);
	if (c < 0x20 || c == 0x7f)
		return buf_printf(out, "\\x%02x", c);
	return buf_putc(out, (char)c);
}

enum err
value_repr_text(struct buf *out, const char *text, size_t n)
{
	char quote =
	    memchr(text, '\'', n) != NULL && memchr(text, '"', n) == NULL
	    ? '"'
	    : '\'';
	enum err rc = buf_putc(out, quote);

	for (size_t i = 0; i < n && rc == ERR_OK; i++)
		rc = repr_char(out, (unsigned char)text[i], quote);
	return rc == ERR_OK ? buf_putc(out, quote) : rc;
}

static enum err
repr_items(struct buf *out, const struct value *value, const char *brackets)
{
	enum err rc = buf_putc(out, brackets[0]);

	for (struct value *v = value->child; v != NULL && rc == ERR_OK;
	     v = v->next) {
		if (v->name != NULL &&
		    ((rc = value_repr_text(out, v->name, v->name_len)) !=
			    ERR_OK ||
			(rc = buf_puts(out, ": ")) != ERR_OK))
			break;
		rc = value_repr(out, v);
		if (rc == ERR_OK && v->next != NULL)
			rc = buf_puts(out, ", ");
	}
	return rc == ERR_OK ? buf_putc(out, brackets[1]) : rc;
}

enum err
value_repr(struct buf *out, const struct value *value)
{
	switch (value->type) {
	case VALUE_NULL:
		return buf_puts(out, "None");
	case VALUE_FALSE:
		return buf_puts(out, "False");
	case VALUE_TRUE:
		return buf_puts(out, "True");
	case VALUE_NUMBER:
		return buf_append(out, value->text, value->len);
	case VALUE_STRING:
		return value_repr_text(out, value->text, value->len);
	case VALUE_ARRAY:
		return repr_items(out, value, "[]");
	case VALUE_OBJECT:
		return repr_items(out, value, "{}");
	}
	return ERR_INTERNAL;
}
