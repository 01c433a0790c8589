#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "sandboxd/value.h"

#define BLOCK_VALUES 256
#define VALUES_MAX (1u << 20)

struct value_block {
	struct value_block *next;
	size_t used;
	struct value values[BLOCK_VALUES];
};

struct parser {
	struct value_doc *doc;
	char *start;
	char *p;
	char *end;
	unsigned depth; /* levels that may still be opened */
};

static enum err parse_value(struct parser *ps, struct value *v);

static struct value *
new_value(struct value_doc *doc)
{
	struct value_block *block = doc->blocks;

	if (doc->count >= VALUES_MAX)
		return NULL;
	if (block == NULL || block->used == BLOCK_VALUES) {
		if ((block = malloc(sizeof(*block))) == NULL)
			return NULL;
		block->next = doc->blocks;
		block->used = 0;
		doc->blocks = block;
	}
	doc->count++;
	block->values[block->used] = (struct value){ .type = VALUE_NULL };
	return &block->values[block->used++];
}

void
value_done(struct value_doc *doc)
{
	struct value_block *block, *next;

	for (block = doc->blocks; block != NULL; block = next) {
		next = block->next;
		free(block);
	}
	*doc = (struct value_doc){ .root = NULL };
}

/* Notes a fault with its place, counted in characters as Python does. */
static enum err
fault(struct parser *ps, const char *what, const char *at)
{
	size_t line = 1, column = 1, chars = 0;

	for (const char *q = ps->start; q < at; q++) {
		if (((unsigned char)*q & 0xc0) == 0x80)
			continue;
		chars++;
		column++;
		if (*q == '\n') {
			line++;
			column = 1;
		}
	}
	snprintf(ps->doc->fault, sizeof(ps->doc->fault),
	    "%s: line %zu column %zu (char %zu)", what, line, column, chars);
	return ERR_PARSE;
}

static void
skip_blanks(struct parser *ps)
{
	while (ps->p < ps->end &&
	    (*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\n' ||
		*ps->p == '\r'))
		ps->p++;
}

static bool
next_is(const struct parser *ps, char c)
{
	return ps->p < ps->end && *ps->p == c;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The four digits at p as a number, or -1. */
static long
hex4(const char *p, const char *end)
{
	long code = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(p[i]);

		if (digit < 0)
			return -1;
		code = code * 16 + digit;
	}
	return code;
}

/* Decodes \uXXXX at ps->p (behind the u), with its second half when it is a
 * pair. A lone surrogate stays one. */
static enum err
unicode_escape(struct parser *ps, char **out)
{
	long code = hex4(ps->p, ps->end), low;

	if (code < 0)
		return fault(ps, "Invalid \\uXXXX escape", ps->p - 1);
	ps->p += 4;
	if (code >= 0xd800 && code < 0xdc00 && ps->end - ps->p >= 6 &&
	    ps->p[0] == '\\' && ps->p[1] == 'u') {
		low = hex4(ps->p + 2, ps->end);
		if (low >= 0xdc00 && low < 0xe000) {
			code =
			    0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
			ps->p += 6;
		}
	}
	*out += utf8_put(*out, (uint32_t)code);
	return ERR_OK;
}

static enum err
escape(struct parser *ps, char **out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *found;
	char c;

	if (ps->p >= ps->end)
		return fault(ps, "Unterminated string starting at", ps->p);
	c = *ps->p++;
	if (c == 'u')
		return unicode_escape(ps, out);
	if (c == '\0' || (found = strchr(from, c)) == NULL)
		return fault(ps, "Invalid \\escape", ps->p - 2);
	*(*out)++ = to[found - from];
	return ERR_OK;
}

/* Decodes a string in place: what comes out is never longer. */
static enum err
parse_string(struct parser *ps, char **ret_text, size_t *ret_len)
{
	char *open = ps->p++, *out = ps->p, *text = out;
	enum err rc;

	for (;;) {
		if (ps->p >= ps->end)
			return fault(
			    ps, "Unterminated string starting at", open);
		if (*ps->p == '"')
			break;
		if ((unsigned char)*ps->p < 0x20)
			return fault(ps, "Invalid control character at", ps->p);
		if (*ps->p != '\\') {
			*out++ = *ps->p++;
			continue;
		}
		ps->p++;
		if ((rc = escape(ps, &out)) != ERR_OK)
			return rc;
	}
	ps->p++;
	*ret_text = text;
	*ret_len = (size_t)(out - text);
	return ERR_OK;
}

static size_t
digits(struct parser *ps)
{
	char *from = ps->p;

	while (ps->p < ps->end && *ps->p >= '0' && *ps->p <= '9')
		ps->p++;
	return (size_t)(ps->p - from);
}

/* What follows the whole part; stays where it is when that is no number. */
static void
fraction_and_exponent(struct parser *ps)
{
	char *back = ps->p;

	if (next_is(ps, '.')) {
		ps->p++;
		if (digits(ps) == 0) {
			ps->p = back;
			return;
		}
	}
	back = ps->p;
	if (next_is(ps, 'e') || next_is(ps, 'E')) {
		ps->p++;
		if (next_is(ps, '+') || next_is(ps, '-'))
			ps->p++;
		if (digits(ps) == 0)
			ps->p = back;
	}
}

static enum err
parse_number(struct parser *ps, struct value *v)
{
	char *from = ps->p;

	if (next_is(ps, '-'))
		ps->p++;
	if (next_is(ps, '0'))
		ps->p++;
	else if (digits(ps) == 0) {
		ps->p = from;
		return fault(ps, "Expecting value", from);
	}
	fraction_and_exponent(ps);
	v->type = VALUE_NUMBER;
	v->text = from;
	v->len = (size_t)(ps->p - from);
	return ERR_OK;
}

static bool
parse_word(struct parser *ps, struct value *v)
{
	static const struct {
		const char *word;
		enum value_type type;
	} words[] = {
		{ "null", VALUE_NULL },
		{ "true", VALUE_TRUE },
		{ "false", VALUE_FALSE },
		{ "NaN", VALUE_NUMBER },
		{ "Infinity", VALUE_NUMBER },
		{ "-Infinity", VALUE_NUMBER },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].word);

		if ((size_t)(ps->end - ps->p) < n ||
		    memcmp(ps->p, words[i].word, n) != 0)
			continue;
		v->type = words[i].type;
		v->text = ps->p;
		v->len = n;
		ps->p += n;
		return true;
	}
	return false;
}

static struct value *
add_child(struct parser *ps, struct value *parent)
{
	struct value *child = new_value(ps->doc);

	if (child == NULL)
		return NULL;
	if (parent->last == NULL)
		parent->child = child;
	else
		parent->last->next = child;
	parent->last = child;
	return child;
}

static enum err
parse_key(struct parser *ps, struct value *member)
{
	enum err rc;

	if (!next_is(ps, '"'))
		return fault(ps,
		    "Expecting property name enclosed in "
		    "double quotes",
		    ps->p);
	if ((rc = parse_string(ps, &member->name, &member->name_len)) != ERR_OK)
		return rc;
	skip_blanks(ps);
	if (!next_is(ps, ':'))
		return fault(ps, "Expecting ':' delimiter", ps->p);
	ps->p++;
	skip_blanks(ps);
	return ERR_OK;
}

static enum err
parse_items(struct parser *ps, struct value *v, char close)
{
	struct value *child;
	enum err rc;

	for (;;) {
		if ((child = add_child(ps, v)) == NULL)
			return ERR_LIMIT;
		if (v->type == VALUE_OBJECT &&
		    (rc = parse_key(ps, child)) != ERR_OK)
			return rc;
		if ((rc = parse_value(ps, child)) != ERR_OK)
			return rc;
		skip_blanks(ps);
		if (next_is(ps, close))
			break;
		if (!next_is(ps, ','))
			return fault(ps, "Expecting ',' delimiter", ps->p);
		ps->p++;
		skip_blanks(ps);
	}
	ps->p++;
	return ERR_OK;
}

static enum err
parse_container(struct parser *ps, struct value *v)
{
	char close = *ps->p == '{' ? '}' : ']';
	enum err rc = ERR_OK;

	if (ps->depth == 0)
		return ERR_LIMIT;
	ps->depth--;
	v->type = close == '}' ? VALUE_OBJECT : VALUE_ARRAY;
	ps->p++;
	skip_blanks(ps);
	if (next_is(ps, close))
		ps->p++;
	else
		rc = parse_items(ps, v, close);
	ps->depth++;
	return rc;
}

static enum err
parse_value(struct parser *ps, struct value *v)
{
	if (ps->p >= ps->end)
		return fault(ps, "Expecting value", ps->p);
	if (*ps->p == '"') {
		v->type = VALUE_STRING;
		return parse_string(ps, &v->text, &v->len);
	}
	if (*ps->p == '{' || *ps->p == '[')
		return parse_container(ps, v);
	if (parse_word(ps, v))
		return ERR_OK;
	return parse_number(ps, v);
}

static enum err
check_utf8(struct value_doc *doc, const char *text, size_t n)
{
	size_t good = utf8_valid(text, n);

	if (good == n)
		return ERR_OK;
	snprintf(doc->fault, sizeof(doc->fault),
	    "'utf-8' codec can't decode byte 0x%02x in position %zu: "
	    "invalid byte",
	    (unsigned char)text[good], good);
	return ERR_PARSE;
}

enum err
value_parse(struct value_doc *doc, char *text, size_t n, unsigned depth)
{
	struct parser ps = { doc, text, text, text + n, depth };
	enum err rc;

	*doc = (struct value_doc){ .root = NULL };
	if ((rc = check_utf8(doc, text, n)) != ERR_OK)
		return rc;
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		return fault(&ps,
		    "Unexpected UTF-8 BOM (decode using "
		    "utf-8-sig)",
		    text);
	if ((doc->root = new_value(doc)) == NULL)
		return ERR_NOMEM;
	skip_blanks(&ps);
	if ((rc = parse_value(&ps, doc->root)) != ERR_OK)
		return rc;
	skip_blanks(&ps);
	if (ps.p != ps.end)
		return fault(&ps, "Extra data", ps.p);
	return ERR_OK;
}

/* Decodes %XX and + in place; returns the new length. */
static size_t
form_decode(char *text, size_t n)
{
	char *out = text;

	for (size_t i = 0; i < n; i++) {
		int high = -1, low = -1;

		if (text[i] == '%' && n - i > 2) {
			high = hex_digit(text[i + 1]);
			low = hex_digit(text[i + 2]);
		}
		if (high >= 0 && low >= 0) {
			*out++ = (char)(high * 16 + low);
			i += 2;
		} else {
			*out++ = text[i] == '+' ? ' ' : text[i];
		}
	}
	return (size_t)(out - text);
}

static enum err
form_field(struct parser *ps, char *field, size_t n)
{
	char *equals = memchr(field, '=', n);
	size_t name_len = equals != NULL ? (size_t)(equals - field) : n;
	struct value *member;

	if (n == 0)
		return ERR_OK;
	if ((member = add_child(ps, ps->doc->root)) == NULL)
		return ERR_LIMIT;
	member->type = VALUE_STRING;
	member->name = field;
	member->text = equals != NULL ? equals + 1 : field + n;
	member->len =
	    form_decode(member->text, (size_t)(field + n - member->text));
	member->name_len = form_decode(field, name_len);
	return check_utf8(ps->doc, member->text, member->len);
}

enum err
value_parse_form(struct value_doc *doc, char *text, size_t n)
{
	struct parser ps = { doc, text, text, text + n, 0 };
	char *end;
	enum err rc;

	*doc = (struct value_doc){ .root = NULL };
	if ((doc->root = new_value(doc)) == NULL)
		return ERR_NOMEM;
	doc->root->type = VALUE_OBJECT;
	for (; ps.p < ps.end; ps.p = end + 1) {
		end = memchr(ps.p, '&', (size_t)(ps.end - ps.p));
		if (end == NULL)
			end = ps.end;
		rc = form_field(&ps, ps.p, (size_t)(end - ps.p));
		if (rc != ERR_OK)
			return rc;
	}
	return ERR_OK;
}

struct value *
value_get(const struct value *object, const char *name)
{
	struct value *found = NULL;
	size_t n = strlen(name);

	if (object->type != VALUE_OBJECT)
		return NULL;
	for (struct value *m = object->child; m != NULL; m = m->next) {
		if (m->name_len == n && memcmp(m->name, name, n) == 0)
			found = m;
	}
	return found;
}
