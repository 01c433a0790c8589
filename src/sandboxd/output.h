/*
 * What a program writes, turned into text as Snekbox gives it: UTF-8, "\r\n"
 * and "\r" as "\n", at most so many characters. Bytes that are no UTF-8 become
 * U+FFFD, where Snekbox loses everything.
 */
#ifndef SANDBOXD_OUTPUT_H
#define SANDBOXD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"

struct output {
	struct buf text;
	struct utf8_decoder decoder;
	bool after_cr;
	uint64_t *left; /* characters still allowed; borrowed, may be
				 * shared by two outputs */
};

void output_init(struct output *out, uint64_t *left);
void output_done(struct output *out);

/* Takes n bytes. ERR_LIMIT when there were more characters than allowed (the
 * text holds those that were), ERR_NOMEM. */
enum err output_feed(struct output *out, const void *data, size_t n) MUST_CHECK;

/* The end: a character that is not complete is a bad one. */
enum err output_end(struct output *out) MUST_CHECK;

#endif
