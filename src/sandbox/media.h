/*
 * What a file is, told from its content; the name decides only between kinds
 * of text. Any thread; never reads beyond the bytes given. A thread's first
 * call loads libmagic's data base.
 */
#ifndef SANDBOX_MEDIA_H
#define SANDBOX_MEDIA_H

#include <stdbool.h>
#include <stddef.h>

struct media {
	const char *type;       /* borrowed, static */
	bool raster;            /* a PNG, JPEG, GIF or WebP with a sound header,
				 * as far as that shows not broken off */
	unsigned width, height; /* pixels of such an image, broken off or not */
};

struct media media_sniff(const char *name, const void *data, size_t n);

#endif
