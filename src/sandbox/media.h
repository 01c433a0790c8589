/*
 * What a file is, told from its content; the name decides only between kinds
 * of text. Pure functions, never reading beyond the bytes given.
 */
#ifndef SANDBOX_MEDIA_H
#define SANDBOX_MEDIA_H

#include <stdbool.h>
#include <stddef.h>

struct media {
	const char *type;       /* borrowed, static */
	bool raster;            /* PNG, JPEG, GIF or WebP with a sound header */
	unsigned width, height; /* pixels of a raster image, else 0 */
};

struct media media_sniff(const char *name, const void *data, size_t n);

#endif
