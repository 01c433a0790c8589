#include <string.h>
#include <strings.h>

#include "sandbox/media.h"

#define SIDE_MAX 65535
#define TAIL_MAX 1024 /* in which the end of a JPEG must stand */

static unsigned
be16(const unsigned char *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static unsigned
be32(const unsigned char *p)
{
	return be16(p) << 16 | be16(p + 2);
}

static unsigned
le16(const unsigned char *p)
{
	return (unsigned)p[1] << 8 | p[0];
}

static unsigned
le24(const unsigned char *p)
{
	return (unsigned)p[2] << 16 | le16(p);
}

static bool
starts(const unsigned char *p, size_t n, const char *with, size_t len)
{
	return n >= len && memcmp(p, with, len) == 0;
}

static bool
png_size(const unsigned char *p, size_t n, struct media *media)
{
	if (n < 33 || memcmp(p + 12, "IHDR", 4) != 0)
		return false;
	media->width = be32(p + 16);
	media->height = be32(p + 20);
	return true;
}

static bool
gif_size(const unsigned char *p, size_t n, struct media *media)
{
	if (n < 13 ||
	    (memcmp(p, "GIF87a", 6) != 0 && memcmp(p, "GIF89a", 6) != 0))
		return false;
	media->width = le16(p + 6);
	media->height = le16(p + 8);
	return true;
}

/* Walks the segments of a JPEG to the frame header. */
static bool
jpeg_size(const unsigned char *p, size_t n, struct media *media)
{
	size_t at = 2;

	while (at + 9 < n && p[at] == 0xff) {
		unsigned char kind = p[at + 1];

		if (kind == 0xff) {
			at++;
			continue;
		}
		if (kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 &&
		    kind != 0xc8 && kind != 0xcc) {
			media->height = be16(p + at + 5);
			media->width = be16(p + at + 7);
			return true;
		}
		if (kind == 0xd9 || kind == 0xda || be16(p + at + 2) < 2)
			return false;
		at += 2 + be16(p + at + 2);
	}
	return false;
}

static bool
webp_size(const unsigned char *p, size_t n, struct media *media)
{
	if (n < 30 || memcmp(p + 8, "WEBP", 4) != 0)
		return false;
	if (memcmp(p + 12, "VP8X", 4) == 0) {
		media->width = 1 + le24(p + 24);
		media->height = 1 + le24(p + 27);
		return true;
	}
	if (memcmp(p + 12, "VP8L", 4) == 0 && p[20] == 0x2f) {
		media->width = 1 + (le16(p + 21) & 0x3fff);
		media->height = 1 +
		    ((unsigned)p[22] >> 6 | (unsigned)p[23] << 2 |
			((unsigned)p[24] & 0xf) << 10);
		return true;
	}
	if (memcmp(p + 12, "VP8 ", 4) == 0 &&
	    memcmp(p + 23, "\x9d\x01\x2a", 3) == 0) {
		media->width = le16(p + 26) & 0x3fff;
		media->height = le16(p + 28) & 0x3fff;
		return true;
	}
	return false;
}

/* ---- whole or broken off ---- */

static bool
png_whole(const unsigned char *p, size_t n)
{
	size_t at = 8, len;
	bool pixels = false;

	while (n - at >= 12) {
		len = be32(p + at);
		if (len > n - at - 12)
			return false;
		if (memcmp(p + at + 4, "IEND", 4) == 0)
			return pixels;
		pixels = pixels || memcmp(p + at + 4, "IDAT", 4) == 0;
		at += 12 + len;
	}
	return false;
}

static bool
jpeg_whole(const unsigned char *p, size_t n)
{
	size_t tail = n < TAIL_MAX ? n : TAIL_MAX;

	return memmem(p + n - tail, tail, "\xff\xd9", 2) != NULL;
}

static bool
gif_whole(const unsigned char *p, size_t n)
{
	while (n > 0 && p[n - 1] == 0)
		n--;
	return n > 13 && p[n - 1] == ';';
}

static bool
webp_whole(const unsigned char *p, size_t n)
{
	size_t told = (size_t)le24(p + 4) | (size_t)p[7] << 24;

	return told >= 22 && told <= n - 8;
}

static const struct raster {
	const char *magic;
	size_t len;
	const char *type;
	bool (*size)(const unsigned char *p, size_t n, struct media *media);
	bool (*whole)(const unsigned char *p, size_t n);
} rasters[] = {
	{ "\x89PNG\r\n\x1a\n", 8, "image/png", png_size, png_whole },
	{ "\xff\xd8\xff", 3, "image/jpeg", jpeg_size, jpeg_whole },
	{ "GIF8", 4, "image/gif", gif_size, gif_whole },
	{ "RIFF", 4, "image/webp", webp_size, webp_whole },
};

static bool
sniff_raster(const unsigned char *p, size_t n, struct media *media)
{
	for (size_t i = 0; i < sizeof(rasters) / sizeof(rasters[0]); i++) {
		if (!starts(p, n, rasters[i].magic, rasters[i].len) ||
		    !rasters[i].size(p, n, media))
			continue;
		if (media->width == 0 || media->height == 0 ||
		    media->width > SIDE_MAX || media->height > SIDE_MAX)
			break;
		media->type = rasters[i].type;
		media->raster = rasters[i].whole(p, n);
		return true;
	}
	media->width = media->height = 0;
	return false;
}

static const struct magic {
	size_t at;
	const char *bytes;
	size_t len;
	const char *type;
} magics[] = {
	{ 0, "%PDF-", 5, "application/pdf" },
	{ 0, "%!PS", 4, "application/postscript" },
	{ 0, "\x1f\x8b", 2, "application/gzip" },
	{ 0, "BZh", 3, "application/x-bzip2" },
	{ 0,
	    "\xfd"
	    "7zXZ\0",
	    6, "application/x-xz" },
	{ 0, "\x28\xb5\x2f\xfd", 4, "application/zstd" },
	{ 0, "SQLite format 3\0", 16, "application/vnd.sqlite3" },
	{ 0, "\x89HDF\r\n\x1a\n", 8, "application/x-hdf5" },
	{ 0, "PAR1", 4, "application/vnd.apache.parquet" },
	{ 0, "\x93NUMPY", 6, "application/x-npy" },
	{ 0, "II*\0", 4, "image/tiff" },
	{ 0, "MM\0*", 4, "image/tiff" },
	{ 0, "BM", 2, "image/bmp" },
	{ 0, "OggS", 4, "audio/ogg" },
	{ 0, "ID3", 3, "audio/mpeg" },
	{ 0,
	    "\x7f"
	    "ELF",
	    4, "application/x-executable" },
	{ 4, "ftyp", 4, "video/mp4" },
	{ 0, "\x1a\x45\xdf\xa3", 4, "video/webm" },
	{ 8, "WAVE", 4, "audio/wav" },
	{ 8, "AVI ", 4, "video/x-msvideo" },
	{ 257, "ustar", 5, "application/x-tar" },
};

/* Office documents are ZIP archives; the first names in them tell. */
static const char *
zip_type(const unsigned char *p, size_t n)
{
	size_t within = n < 8192 ? n : 8192;

	if (p == NULL)
		return NULL;
	if (memmem(p, within, "xl/", 3) != NULL)
		return "application/vnd.openxmlformats-officedocument."
		       "spreadsheetml.sheet";
	if (memmem(p, within, "word/", 5) != NULL)
		return "application/vnd.openxmlformats-officedocument."
		       "wordprocessingml.document";
	if (memmem(p, within, "ppt/", 4) != NULL)
		return "application/vnd.openxmlformats-officedocument."
		       "presentationml.presentation";
	return "application/zip";
}

/* A short mark may also be how a text begins. */
static const char *
binary_type(const unsigned char *p, size_t n, bool text)
{
	if (starts(p, n, "PK\x03\x04", 4))
		return zip_type(p, n);
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		const struct magic *m = &magics[i];

		if (text && m->len < 4)
			continue;
		if (n >= m->at &&
		    starts(p + m->at, n - m->at, m->bytes, m->len))
			return m->type;
	}
	return NULL;
}

/* No control characters but those of text, and valid multi-byte sequences as
 * far as their lead and continuation bytes go. */
static bool
is_text(const unsigned char *p, size_t n)
{
	size_t more = 0;

	for (size_t i = 0; i < n; i++) {
		if (more > 0) {
			if ((p[i] & 0xc0) != 0x80)
				return false;
			more--;
		} else if (p[i] < 0x20) {
			if (strchr("\t\n\r\f\x1b", p[i]) == NULL ||
			    p[i] == '\0')
				return false;
		} else if (p[i] >= 0x80) {
			if (p[i] < 0xc2 || p[i] > 0xf4)
				return false;
			more = p[i] < 0xe0 ? 1 : p[i] < 0xf0 ? 2 : 3;
		}
	}
	return more == 0;
}

static bool
holds(const unsigned char *p, size_t n, const char *word)
{
	size_t len = strlen(word), within = n < 1024 ? n : 1024;

	for (size_t i = 0; i + len <= within; i++) {
		if (strncasecmp((const char *)p + i, word, len) == 0)
			return true;
	}
	return false;
}

static const struct {
	const char *ending, *type;
} texts[] = {
	{ ".csv", "text/csv" },
	{ ".tsv", "text/tab-separated-values" },
	{ ".md", "text/markdown" },
	{ ".json", "application/json" },
	{ ".py", "text/x-python" },
	{ ".xml", "application/xml" },
	{ ".css", "text/css" },
	{ ".js", "text/javascript" },
	{ ".yaml", "application/yaml" },
	{ ".yml", "application/yaml" },
};

static const char *
text_type(const char *name, const unsigned char *p, size_t n)
{
	const char *dot = strrchr(name, '.');

	while (n > 0 && (*p <= ' ' || *p == 0xef || *p == 0xbb || *p == 0xbf)) {
		p++;
		n--;
	}
	if (n > 0 && *p == '<') {
		if (holds(p, n, "<svg"))
			return "image/svg+xml";
		if (holds(p, n, "<!doctype html") || holds(p, n, "<html"))
			return "text/html";
		if (starts(p, n, "<?xml", 5))
			return "application/xml";
	}
	for (size_t i = 0; dot != NULL && i < sizeof(texts) / sizeof(texts[0]);
	     i++) {
		if (strcasecmp(dot, texts[i].ending) == 0)
			return texts[i].type;
	}
	return "text/plain";
}

struct media
media_sniff(const char *name, const void *data, size_t n)
{
	const unsigned char *p = data;
	struct media media = { .type = "application/octet-stream" };
	bool text = is_text(p, n);
	const char *type;

	if (sniff_raster(p, n, &media))
		return media;
	if ((type = binary_type(p, n, text)) != NULL)
		media.type = type;
	else if (text)
		media.type = text_type(name, p, n);
	return media;
}
