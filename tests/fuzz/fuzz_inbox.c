/*
 * The decoder of messages between processes: whatever bytes come, in whatever
 * pieces, it ends in a whole message, an error or the wish for more, and what it
 * took for a whole message says the same when it is encoded again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "state/frame.h"

#define BODY_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A whole message must come out as it went in. */
static void
check_whole(const struct frame_reader *reader, const uint8_t *data)
{
	unsigned char head[FRAME_HEAD];

	if (reader->frame.len > BODY_MAX ||
	    memcmp(reader->body, data + FRAME_HEAD, reader->frame.len) != 0 ||
	    reader->body[reader->frame.len] != '\0')
		abort();
	if (frame_encode(&reader->frame, head) != ERR_OK ||
	    memcmp(head, data, FRAME_HEAD) != 0)
		abort();
}

static void
read_pieces(const uint8_t *data, size_t size, size_t piece)
{
	struct frame_reader reader;
	enum err rc = ERR_TRUNCATED;
	size_t at = 0;

	frame_reader_init(&reader, BODY_MAX);
	while (rc == ERR_TRUNCATED && at < size) {
		size_t n;
		void *space = frame_reader_space(&reader, &n);

		if (n == 0)
			abort();
		n = n < piece ? n : piece;
		n = n < size - at ? n : size - at;
		memcpy(space, data + at, n);
		at += n;
		rc = frame_reader_got(&reader, n);
	}
	if (rc == ERR_OK)
		check_whole(&reader, data);
	frame_reader_done(&reader);
}

/* The same with the beginning put right, or random bytes seldom pass it. */
static void
read_mended(const uint8_t *data, size_t size, size_t piece)
{
	static const unsigned char start[] = "PSbx\0\1\0\1\0\0";
	uint8_t *copy;

	if (size < FRAME_HEAD || (copy = malloc(size)) == NULL)
		return;
	memcpy(copy, data, size);
	memcpy(copy, start, 10);
	copy[10] &= 0x1f;
	memset(copy + 12, 0, 4);
	for (size_t i = 16; i < FRAME_HEAD; i++)
		copy[i] = (uint8_t) "0123456789abcdef"[copy[i] & 15];
	read_pieces(copy, size, piece);
	free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum inbox_ack ack;
	unsigned char bytes[FRAME_ACK];
	size_t piece;

	if (size == 0)
		return 0;
	piece = (size_t)data[0] + 1;
	read_pieces(data, size, piece);
	read_pieces(data + 1, size - 1, piece);
	read_mended(data + 1, size - 1, piece);
	if (size >= FRAME_ACK && frame_ack_decode(data, &ack) == ERR_OK) {
		frame_ack_encode(ack, bytes);
		if (memcmp(bytes, data, FRAME_ACK) != 0)
			abort();
	}
	return 0;
}
