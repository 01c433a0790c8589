#include <stdlib.h>
#include <string.h>

#include "state/frame.h"

static const unsigned char message_magic[4] = "PSbx";
static const unsigned char ack_magic[4] = "PSak";

static void
put16(unsigned char *at, unsigned n)
{
	at[0] = (unsigned char)(n >> 8);
	at[1] = (unsigned char)n;
}

static unsigned
get16(const unsigned char *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

static uint32_t
get32(const unsigned char *at)
{
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static enum err
session_fits(enum inbox_type type, const char *session, size_t len)
{
	uint64_t process;

	if (type == INBOX_RING)
		return session[0] == '\0' && len == 0 ? ERR_OK : ERR_PARSE;
	if (type != INBOX_POST && type != INBOX_CANCEL)
		return ERR_PARSE;
	return session_process(session, &process);
}

enum err
frame_encode(const struct frame *frame, unsigned char *ret_head)
{
	enum err rc;

	if (frame->len > UINT32_MAX)
		return ERR_LIMIT;
	rc = session_fits(frame->type, frame->session, frame->len);
	if (rc != ERR_OK)
		return rc;
	memset(ret_head, 0, FRAME_HEAD);
	memcpy(ret_head, message_magic, sizeof(message_magic));
	put16(ret_head + 4, FRAME_VERSION);
	put16(ret_head + 6, frame->type);
	put16(ret_head + 8, (unsigned)(frame->len >> 16));
	put16(ret_head + 10, (unsigned)(frame->len & 0xffff));
	memcpy(ret_head + 16, frame->session, strlen(frame->session));
	return ERR_OK;
}

static bool
all_zero(const unsigned char *at, size_t n)
{
	while (n > 0 && *at == 0) {
		at++;
		n--;
	}
	return n == 0;
}

enum err
frame_decode(
    const unsigned char *head, size_t body_max, struct frame *ret_frame)
{
	struct frame frame = { .len = get32(head + 8) };
	unsigned type = get16(head + 6);

	if (memcmp(head, message_magic, sizeof(message_magic)) != 0 ||
	    get16(head + 4) != FRAME_VERSION || get32(head + 12) != 0)
		return ERR_PARSE;
	if (type != INBOX_POST && type != INBOX_RING && type != INBOX_CANCEL)
		return ERR_PARSE;
	frame.type = (enum inbox_type)type;
	memcpy(frame.session, head + 16, SESSION_ID_LEN);
	if (type == INBOX_RING && !all_zero(head + 16, SESSION_ID_LEN))
		return ERR_PARSE;
	if (session_fits(frame.type, frame.session, frame.len) != ERR_OK)
		return ERR_PARSE;
	if (frame.len > body_max)
		return ERR_LIMIT;
	*ret_frame = frame;
	return ERR_OK;
}

void
frame_ack_encode(enum inbox_ack ack, unsigned char *ret_bytes)
{
	memcpy(ret_bytes, ack_magic, sizeof(ack_magic));
	put16(ret_bytes + 4, FRAME_VERSION);
	put16(ret_bytes + 6, ack);
}

enum err
frame_ack_decode(const unsigned char *bytes, enum inbox_ack *ret_ack)
{
	unsigned ack = get16(bytes + 6);

	if (memcmp(bytes, ack_magic, sizeof(ack_magic)) != 0 ||
	    get16(bytes + 4) != FRAME_VERSION || ack > INBOX_REFUSED)
		return ERR_PARSE;
	*ret_ack = (enum inbox_ack)ack;
	return ERR_OK;
}

void
frame_reader_init(struct frame_reader *reader, size_t body_max)
{
	memset(reader, 0, sizeof(*reader));
	reader->body_max = body_max;
}

void
frame_reader_done(struct frame_reader *reader)
{
	free(reader->body);
	reader->body = NULL;
}

void *
frame_reader_space(struct frame_reader *reader, size_t *ret_n)
{
	size_t at;

	if (reader->got < FRAME_HEAD) {
		*ret_n = FRAME_HEAD - reader->got;
		return reader->head + reader->got;
	}
	at = reader->got - FRAME_HEAD;
	*ret_n = reader->frame.len - at;
	return reader->body + at;
}

enum err
frame_reader_got(struct frame_reader *reader, size_t n)
{
	bool in_head = reader->got < FRAME_HEAD;
	enum err rc;

	reader->got += n;
	if (reader->got < FRAME_HEAD)
		return ERR_TRUNCATED;
	if (in_head) {
		rc = frame_decode(
		    reader->head, reader->body_max, &reader->frame);
		if (rc != ERR_OK)
			return rc;
		/* large ones are not touched before their bytes come */
		reader->body = malloc(reader->frame.len + 1);
		if (reader->body == NULL)
			return ERR_NOMEM;
		reader->body[reader->frame.len] = '\0';
	}
	return reader->got - FRAME_HEAD == reader->frame.len ? ERR_OK
							     : ERR_TRUNCATED;
}
