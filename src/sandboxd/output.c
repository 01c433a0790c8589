#include "sandboxd/output.h"

void
output_init(struct output *out, uint64_t *left)
{
	*out = (struct output){ .left = left };
	buf_init(&out->text, (size_t)-1 / 2);
}

void
output_done(struct output *out)
{
	buf_done(&out->text);
}

static enum err
add_char(struct output *out, const void *bytes, size_t n)
{
	if (*out->left == 0)
		return ERR_LIMIT;
	--*out->left;
	return buf_append(&out->text, bytes, n);
}

static enum err
add_decoded(struct output *out)
{
	unsigned char *bytes = out->decoder.bytes;
	bool was_cr = out->after_cr;

	out->after_cr = bytes[0] == '\r';
	if (bytes[0] == '\n' && was_cr)
		return ERR_OK; /* the "\r" before has become a "\n" */
	if (bytes[0] == '\r')
		return add_char(out, "\n", 1);
	return add_char(out, bytes, out->decoder.have);
}

static enum err
add_bad(struct output *out)
{
	out->after_cr = false;
	return add_char(out, UTF8_REPLACEMENT, sizeof(UTF8_REPLACEMENT) - 1);
}

static enum err
feed_byte(struct output *out, unsigned char byte)
{
	enum utf8_step step = utf8_feed(&out->decoder, byte);
	enum err rc;

	if (step == UTF8_BAD) {
		if ((rc = add_bad(out)) != ERR_OK)
			return rc;
		step = utf8_feed(&out->decoder, byte);
	}
	if (step == UTF8_CHAR)
		return add_decoded(out);
	return step == UTF8_BAD_BYTE ? add_bad(out) : ERR_OK;
}

/* How many of the bytes are plain ASCII, which nearly all output is. */
static size_t
plain_run(const unsigned char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] < 0x80 && p[i] != '\r')
		i++;
	return i;
}

static bool
between_chars(const struct output *out)
{
	const struct utf8_decoder *d = &out->decoder;

	return !out->after_cr &&
	    (d->have == 0 || d->have == d->need || d->bytes[0] < 0x80);
}

enum err
output_feed(struct output *out, const void *data, size_t n)
{
	const unsigned char *p = data, *end = p + n;
	enum err rc = ERR_OK;

	while (p < end && rc == ERR_OK) {
		size_t run =
		    between_chars(out) ? plain_run(p, (size_t)(end - p)) : 0;

		if (run > *out->left)
			run = (size_t)*out->left;
		if (run == 0) {
			rc = feed_byte(out, *p++);
			continue;
		}
		rc = buf_append(&out->text, p, run);
		*out->left -= run;
		p += run;
	}
	return rc;
}

enum err
output_end(struct output *out)
{
	if (out->decoder.have == 0 || out->decoder.bytes[0] < 0x80 ||
	    out->decoder.have == out->decoder.need)
		return ERR_OK;
	out->decoder.have = 0;
	return add_bad(out);
}
