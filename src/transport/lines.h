/*
 * Lines in, lines out, over two descriptors of any kind (pipes, sockets,
 * terminals, files), which stay in blocking mode: they may be shared with
 * other processes. One thread reads, one writes; neither is ever stuck where
 * lines_close could not end it. While the peer does not read its answers,
 * nothing more is read from it.
 */
#ifndef TRANSPORT_LINES_H
#define TRANSPORT_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

struct lines;

struct lines_ops {
	/* In the reading thread: makes something of a line that is not blank,
	 * without its end (borrowed); NULL and 0 for one that was too long.
	 * Returns what take gets, or NULL for nothing. */
	void *(*read)(void *arg, const char *line, size_t len);
	/* In the loop, in order. */
	void (*take)(void *arg, void *item);
	/* In the loop: no more lines come, or none can be written. May come
	 * twice. */
	void (*ended)(void *arg);
};

/* in, out and ops are borrowed until lines_close. Lines longer than line_max
 * bytes are passed over; reading pauses while more than queue_max bytes wait
 * to be written. */
struct lines_plan {
	struct loop *loop; /* borrowed */
	int in, out;
	size_t line_max, queue_max;
	const struct lines_ops *ops;
	void *arg;
};

enum err
lines_open(const struct lines_plan *plan, struct lines **ret_lines) MUST_CHECK;

/* Writes a line, to which the line feed is added. In the loop. */
void lines_write(struct lines *lines, const char *text, size_t len);

/* Ends reading; what was read and not taken yet is taken now. */
void lines_stop(struct lines *lines);

/* After lines_stop: gives the peer flush_ms to take what is queued, and
 * ends. NULL is accepted. */
void lines_close(struct lines *lines, uint64_t flush_ms);

#endif
