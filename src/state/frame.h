/*
 * The wire format between inboxes, private to state/. A message is a header of
 * FRAME_HEAD bytes and its body; the answer is FRAME_ACK bytes. Numbers are big
 * endian:
 *   0 "PSbx"  4 version (2)  6 type (2)  8 length (4)  12 zero (4)
 *   16 session id (48), zeros for INBOX_RING
 *   0 "PSak"  4 version (2)  6 ack (2)
 */
#ifndef STATE_FRAME_H
#define STATE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "state/inbox.h"
#include "state/session.h"

#define FRAME_VERSION 1
#define FRAME_HEAD 64
#define FRAME_ACK 8

struct frame {
	enum inbox_type type;
	char session[SESSION_ID_LEN + 1];
	size_t len;
};

/* Writes FRAME_HEAD bytes. ERR_PARSE when session does not fit the type,
 * ERR_LIMIT when the length does not. */
enum err
frame_encode(const struct frame *frame, unsigned char *ret_head) MUST_CHECK;

/* Reads FRAME_HEAD bytes. ERR_PARSE; ERR_LIMIT when the body would be longer
 * than body_max. */
enum err frame_decode(const unsigned char *head, size_t body_max,
    struct frame *ret_frame) MUST_CHECK;

void frame_ack_encode(enum inbox_ack ack, unsigned char *ret_bytes);
enum err frame_ack_decode(const unsigned char *bytes, enum inbox_ack *ret_ack)
    MUST_CHECK;

/* Gathers one message from however small pieces. */
struct frame_reader {
	size_t body_max;
	unsigned char head[FRAME_HEAD];
	size_t got;         /* bytes of head and body */
	struct frame frame; /* once the head is complete */
	char *body;         /* owned; a NUL follows */
};

void frame_reader_init(struct frame_reader *reader, size_t body_max);
void frame_reader_done(struct frame_reader *reader);

/* Where the next bytes belong and how many are missing there; borrowed until
 * the next call. *ret_n is 0 when the message is whole. */
void *frame_reader_space(struct frame_reader *reader, size_t *ret_n);

/* Notes that n bytes were put there. ERR_OK when the message is whole,
 * ERR_TRUNCATED when more must come; ERR_PARSE, ERR_LIMIT, ERR_NOMEM. */
enum err frame_reader_got(struct frame_reader *reader, size_t n) MUST_CHECK;

#endif
