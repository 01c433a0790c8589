/* The scanner in front of cJSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* What the grammar allows next; also the index into steps[]. */
enum want {
	WANT_VALUE,
	WANT_FIRST_ITEM, /* after '[': a value or ']' */
	WANT_FIRST_KEY,  /* after '{': a key or '}' */
	WANT_KEY,
	WANT_NEXT, /* after a value: ',' or the end of the level */
	WANT_END   /* nothing but white space */
};

struct key {
	const char *at; /* behind the opening quote */
	uint32_t len;   /* raw bytes */
	uint32_t hash;  /* of the decoded key */
	bool escaped;
};

struct level {
	bool object;
	size_t first_key; /* in scan.keys */
};

struct scan {
	const char *start, *p, *end;
	unsigned max_depth;
	struct level *levels; /* owned */
	size_t depth, levels_cap;
	struct key *keys; /* owned; of all open objects, a stack */
	size_t n_keys, keys_cap;
	size_t n_values;
	enum want want;
	struct json_fault fault;
};

static enum err
fail(struct scan *s, const char *at, enum err err, const char *reason)
{
	s->fault.offset = (size_t)(at - s->start);
	s->fault.reason = reason;
	return err;
}

static enum err
refuse(struct scan *s, const char *reason)
{
	return fail(s, s->p, ERR_PARSE, reason);
}

/* Makes room for one more element of an array that doubles. */
static enum err
grow(void **array, size_t *cap, size_t used, size_t size)
{
	size_t more = *cap == 0 ? 16 : *cap * 2;
	void *moved;

	if (used < *cap)
		return ERR_OK;
	if ((moved = realloc(*array, more * size)) == NULL)
		return ERR_NOMEM;
	*array = moved;
	*cap = more;
	return ERR_OK;
}

/* The length of the UTF-8 sequence at p, 0 when it is not valid (RFC 3629: no
 * overlong forms, no surrogates, nothing above U+10FFFF). */
static size_t
utf8_len(const char *at, const char *end)
{
	const unsigned char *p = (const unsigned char *)at;
	size_t left = (size_t)(end - at), n;
	unsigned char low = 0x80, high = 0xbf;

	if (*p >= 0xc2 && *p <= 0xdf)
		n = 2;
	else if (*p >= 0xe0 && *p <= 0xef)
		n = 3;
	else if (*p >= 0xf0 && *p <= 0xf4)
		n = 4;
	else
		return 0;
	if (*p == 0xe0)
		low = 0xa0;
	else if (*p == 0xed)
		high = 0x9f;
	else if (*p == 0xf0)
		low = 0x90;
	else if (*p == 0xf4)
		high = 0x8f;
	if (left < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}

bool
json_utf8(const char *text, size_t n)
{
	const char *end = text + n;

	while (text < end) {
		size_t len =
		    (unsigned char)*text < 0x80 ? 1 : utf8_len(text, end);

		if (len == 0)
			return false;
		text += len;
	}
	return true;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		return (c | 0x20) - 'a' + 10;
	return -1;
}

/* The value of four hexadecimal digits, -1 when they are not. */
static long
hex4(const char *p, const char *end)
{
	long value = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(p[i]);

		if (digit < 0)
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

/* s->p is behind "\u". */
static enum err
scan_unicode(struct scan *s)
{
	long code = hex4(s->p, s->end), low;

	if (code < 0)
		return refuse(s, "\\u without four hexadecimal digits");
	if (code >= 0xdc00 && code <= 0xdfff)
		return refuse(s, "lone surrogate");
	s->p += 4;
	if (code < 0xd800 || code > 0xdbff)
		return ERR_OK;
	if (s->end - s->p < 6 || s->p[0] != '\\' || s->p[1] != 'u')
		return refuse(s, "lone surrogate");
	low = hex4(s->p + 2, s->end);
	if (low < 0xdc00 || low > 0xdfff)
		return refuse(s, "lone surrogate");
	s->p += 6;
	return ERR_OK;
}

static enum err
scan_escape(struct scan *s)
{
	s->p++;
	if (s->p == s->end)
		return refuse(s, "unfinished string");
	switch (*s->p) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		s->p++;
		return ERR_OK;
	case 'u':
		s->p++;
		return scan_unicode(s);
	default:
		return refuse(s, "unknown escape");
	}
}

/* Whether one of eight bytes is a quote, a backslash, a control character or
 * not ASCII: programs are megabytes of bytes that are none of these. A byte of
 * x that is smaller than n gets its high bit set by (x - n) & ~x; a borrow can
 * only add a false alarm, which the slow path clears up. */
static bool
special8(const char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t x, quote, slash;

	memcpy(&x, p, sizeof(x));
	quote = x ^ ones * '"';
	slash = x ^ ones * '\\';
	return ((x | (x - ones * 0x20) | (quote - ones) | (slash - ones)) &
		   ones * 0x80) != 0;
}

/* s->p is at the opening quote; afterwards behind the closing one. */
static enum err
scan_string(struct scan *s, bool *ret_escaped)
{
	enum err rc;
	size_t n;

	for (s->p++; s->p < s->end;) {
		unsigned char c = (unsigned char)*s->p;

		if (s->end - s->p >= 8 && !special8(s->p)) {
			s->p += 8;
		} else if (c == '"') {
			s->p++;
			return ERR_OK;
		} else if (c == '\\') {
			*ret_escaped = true;
			if ((rc = scan_escape(s)) != ERR_OK)
				return rc;
		} else if (c < 0x20) {
			return refuse(s, "control character in a string");
		} else if (c < 0x80) {
			s->p++;
		} else {
			if ((n = utf8_len(s->p, s->end)) == 0)
				return refuse(s, "not UTF-8");
			s->p += n;
		}
	}
	return refuse(s, "unfinished string");
}

static bool
digit_at(const struct scan *s)
{
	return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

static bool
skip_digits(struct scan *s)
{
	if (!digit_at(s))
		return false;
	while (digit_at(s))
		s->p++;
	return true;
}

static enum err
scan_number(struct scan *s)
{
	const char *first = s->p;

	if (*s->p == '-')
		s->p++;
	if (s->p < s->end && *s->p == '0') {
		s->p++;
		if (digit_at(s))
			return refuse(s, "number with a leading zero");
	} else if (!skip_digits(s)) {
		return refuse(s, "number without digits");
	}
	if (s->p < s->end && *s->p == '.') {
		s->p++;
		if (!skip_digits(s))
			return refuse(s, "number without digits after '.'");
	}
	if (s->p < s->end && (*s->p | 0x20) == 'e') {
		s->p++;
		if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
			s->p++;
		if (!skip_digits(s))
			return refuse(s, "number without an exponent");
	}
	if (s->p - first > JSON_NUMBER_MAX)
		return fail(
		    s, first, ERR_PARSE, "number of more than 63 characters");
	return ERR_OK;
}

static enum err
scan_word(struct scan *s)
{
	static const char *const words[] = { "true", "false", "null" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(s->end - s->p) >= n &&
		    memcmp(s->p, words[i], n) == 0) {
			s->p += n;
			return ERR_OK;
		}
	}
	return refuse(s, "no JSON value");
}

/* One decoded byte after the other, so that "a" and "\u0061" are one key. */
struct decoder {
	const char *p, *end;
	char bytes[4];
	size_t at, n;
};

static int
next_byte(struct decoder *d)
{
	if (d->at < d->n)
		return (unsigned char)d->bytes[d->at++];
	if (d->p >= d->end)
		return -1;
	if (*d->p != '\\')
		return (unsigned char)*d->p++;
	d->n = json_unescape(&d->p, d->bytes);
	d->at = 1;
	return (unsigned char)d->bytes[0];
}

static int
compare_decoded(const struct key *a, const struct key *b)
{
	struct decoder da = { .p = a->at, .end = a->at + a->len };
	struct decoder db = { .p = b->at, .end = b->at + b->len };
	int x, y;

	do {
		x = next_byte(&da);
		y = next_byte(&db);
	} while (x == y && x >= 0);
	return x < y ? -1 : x > y;
}

static int
compare_keys(const void *va, const void *vb)
{
	const struct key *a = va, *b = vb;
	size_t n = a->len < b->len ? a->len : b->len;
	int order;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->escaped || b->escaped)
		return compare_decoded(a, b);
	if ((order = memcmp(a->at, b->at, n)) != 0)
		return order;
	return a->len < b->len ? -1 : a->len > b->len;
}

/* Notes the key whose raw text begins at first and ends before s->p - 1. */
static enum err
push_key(struct scan *s, const char *first, bool escaped)
{
	struct level *level = &s->levels[s->depth - 1];
	struct decoder d = { .p = first, .end = s->p - 1 };
	uint32_t hash = 2166136261u;
	int c;

	while ((c = next_byte(&d)) >= 0) {
		if (c == 0)
			return fail(s, first, ERR_PARSE, "NUL in a key");
		hash = (hash ^ (uint32_t)c) * 16777619u;
	}
	if (s->n_keys - level->first_key >= JSON_MEMBERS_MAX)
		return fail(s, first, ERR_LIMIT, "too many members");
	if (s->p - first > UINT32_MAX)
		return fail(s, first, ERR_LIMIT, "key too long");
	if (grow((void **)&s->keys, &s->keys_cap, s->n_keys,
		sizeof(*s->keys)) != ERR_OK)
		return fail(s, first, ERR_NOMEM, "out of memory");
	s->keys[s->n_keys++] =
	    (struct key){ first, (uint32_t)(s->p - 1 - first), hash, escaped };
	return ERR_OK;
}

/* Sorting is bounded whatever keys a peer chooses; a hash set is not. */
static enum err
check_keys(struct scan *s, size_t first_key)
{
	size_t n = s->n_keys - first_key;
	struct key *keys;

	s->n_keys = first_key;
	if (n < 2)
		return ERR_OK;
	keys = s->keys + first_key;
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (size_t i = 1; i < n; i++) {
		const char *a = keys[i - 1].at, *b = keys[i].at;

		if (compare_keys(&keys[i - 1], &keys[i]) == 0)
			return fail(
			    s, a > b ? a : b, ERR_PARSE, "duplicate key");
	}
	return ERR_OK;
}

static enum err
open_level(struct scan *s, bool object)
{
	if (s->depth >= s->max_depth)
		return fail(s, s->p, ERR_LIMIT, "nested too deeply");
	if (grow((void **)&s->levels, &s->levels_cap, s->depth,
		sizeof(*s->levels)) != ERR_OK)
		return fail(s, s->p, ERR_NOMEM, "out of memory");
	s->levels[s->depth++] = (struct level){ object, s->n_keys };
	s->want = object ? WANT_FIRST_KEY : WANT_FIRST_ITEM;
	s->p++;
	return ERR_OK;
}

static enum err
close_level(struct scan *s)
{
	struct level level = s->levels[--s->depth];

	s->p++;
	s->want = s->depth > 0 ? WANT_NEXT : WANT_END;
	return level.object ? check_keys(s, level.first_key) : ERR_OK;
}

static enum err
step_value(struct scan *s)
{
	bool escaped = false;

	if (s->n_values++ >= JSON_VALUES_MAX)
		return fail(s, s->p, ERR_LIMIT, "too many values");
	s->want = s->depth > 0 ? WANT_NEXT : WANT_END;
	switch (*s->p) {
	case '{':
		return open_level(s, true);
	case '[':
		return open_level(s, false);
	case '"':
		return scan_string(s, &escaped);
	case '-':
	case '0':
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6':
	case '7':
	case '8':
	case '9':
		return scan_number(s);
	default:
		return scan_word(s);
	}
}

static enum err
step_first_item(struct scan *s)
{
	return *s->p == ']' ? close_level(s) : step_value(s);
}

static void
skip_space(struct scan *s)
{
	while (s->p < s->end &&
	    (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
		s->p++;
}

static enum err
step_key(struct scan *s)
{
	const char *first = s->p + 1;
	bool escaped = false;
	enum err rc;

	if (*s->p != '"')
		return refuse(s, "no key in quotes");
	if ((rc = scan_string(s, &escaped)) != ERR_OK ||
	    (rc = push_key(s, first, escaped)) != ERR_OK)
		return rc;
	skip_space(s);
	if (s->p == s->end || *s->p != ':')
		return refuse(s, "no ':' after a key");
	s->p++;
	s->want = WANT_VALUE;
	return ERR_OK;
}

static enum err
step_first_key(struct scan *s)
{
	return *s->p == '}' ? close_level(s) : step_key(s);
}

static enum err
step_next(struct scan *s)
{
	bool object = s->levels[s->depth - 1].object;

	if (*s->p == (object ? '}' : ']'))
		return close_level(s);
	if (*s->p != ',')
		return refuse(s,
		    object ? "no ',' or '}' after a member"
			   : "no ',' or ']' after an item");
	s->p++;
	s->want = object ? WANT_KEY : WANT_VALUE;
	return ERR_OK;
}

static enum err
step_end(struct scan *s)
{
	return refuse(s, "something follows the value");
}

static enum err (*const steps[])(struct scan *) = {
	[WANT_VALUE] = step_value,
	[WANT_FIRST_ITEM] = step_first_item,
	[WANT_FIRST_KEY] = step_first_key,
	[WANT_KEY] = step_key,
	[WANT_NEXT] = step_next,
	[WANT_END] = step_end,
};

static enum err
scan_text(struct scan *s)
{
	enum err rc;

	for (;;) {
		skip_space(s);
		if (s->p == s->end)
			break;
		if ((rc = steps[s->want](s)) != ERR_OK)
			return rc;
	}
	return s->want == WANT_END ? ERR_OK
				   : refuse(s, "the text ends too early");
}

enum err
json_check(const char *text, size_t len, unsigned max_depth,
    struct json_fault *ret_fault)
{
	struct scan s = { .start = text,
		.p = text,
		.end = text + len,
		.max_depth = max_depth };
	enum err rc = scan_text(&s);

	free(s.levels);
	free(s.keys);
	if (rc != ERR_OK && ret_fault != NULL)
		*ret_fault = s.fault;
	return rc;
}
