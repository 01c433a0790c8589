/*
 * The only file that knows libmagic. It is asked about the first part of a
 * file alone, without its parsers of whole formats; what it can't tell, or
 * where its data base is missing, the tables below do. Whether a file is a
 * raster image is never left to it.
 */
#include <magic.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sandbox/media.h"

#define SIDE_MAX 65535
#define TAIL_MAX 1024          /* in which the end of a JPEG must stand */
#define MAGIC_BYTES 65536      /* of a file that libmagic sees */
#define MAGIC_REGEX_BYTES 4096 /* of it that its expressions see */
#define TYPES_MAX 512
#define TYPE_BYTES 96
#define CHARSET_BYTES 32

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

/* ---- libmagic ------------------------------------------------------------ */

/* One handle for each thread: they can't be shared. */
struct handle {
	magic_t magic; /* owned; NULL: the data base can't be had */
};

static pthread_key_t handle_key;
static pthread_once_t handle_once = PTHREAD_ONCE_INIT;

static void
handle_free(void *arg)
{
	struct handle *handle = arg;

	if (handle->magic != NULL)
		magic_close(handle->magic);
	free(handle);
}

static void
make_key(void)
{
	/* without a key nothing is kept, and nothing told */
	if (pthread_key_create(&handle_key, handle_free) != 0)
		abort();
}

static magic_t
open_magic(void)
{
	size_t bytes = MAGIC_BYTES, lines = MAGIC_REGEX_BYTES;
	magic_t magic = magic_open(MAGIC_MIME | MAGIC_NO_CHECK_COMPRESS |
	    MAGIC_NO_CHECK_ELF | MAGIC_NO_CHECK_CDF);

	if (magic == NULL)
		return NULL;
	if (magic_load(magic, NULL) != 0 ||
	    magic_setparam(magic, MAGIC_PARAM_BYTES_MAX, &bytes) != 0 ||
	    magic_setparam(magic, MAGIC_PARAM_REGEX_MAX, &lines) != 0) {
		magic_close(magic);
		return NULL;
	}
	return magic;
}

static magic_t
thread_magic(void)
{
	struct handle *handle;

	pthread_once(&handle_once, make_key);
	if ((handle = pthread_getspecific(handle_key)) != NULL)
		return handle->magic;
	if ((handle = calloc(1, sizeof(*handle))) == NULL)
		return NULL;
	handle->magic = open_magic();
	if (pthread_setspecific(handle_key, handle) != 0) {
		handle_free(handle);
		return NULL;
	}
	return handle->magic;
}

/* Types live for ever: there are only so many that libmagic knows. */
static const char *
intern(const char *type)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char known[TYPES_MAX][TYPE_BYTES];
	static size_t n;
	const char *found = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n && found == NULL; i++) {
		if (strcmp(known[i], type) == 0)
			found = known[i];
	}
	if (found == NULL && n < TYPES_MAX) {
		memcpy(known[n], type, strlen(type) + 1);
		found = known[n++];
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* Splits "type/subtype; charset=x" and checks what it is made of. */
static bool
split_type(const char *text, char *ret_type, char *ret_charset)
{
	static const char chars[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "0123456789.+-_";
	static const char mark[] = "; charset=";
	size_t n = strspn(text, chars), more, set;

	if (n == 0 || text[n] != '/')
		return false;
	more = strspn(text + n + 1, chars);
	if (more == 0 || n + 1 + more >= TYPE_BYTES)
		return false;
	memcpy(ret_type, text, n + 1 + more);
	ret_type[n + 1 + more] = '\0';
	text += n + 1 + more;
	if (strncmp(text, mark, strlen(mark)) != 0)
		return false;
	text += strlen(mark);
	set = strspn(text, chars);
	if (set == 0 || text[set] != '\0' || set >= CHARSET_BYTES)
		return false;
	memcpy(ret_charset, text, set + 1);
	return true;
}

struct opinion {
	char type[TYPE_BYTES]; /* "" for none */
	char charset[CHARSET_BYTES];
};

static struct opinion
ask_magic(const void *data, size_t n)
{
	struct opinion opinion = { "", "" };
	magic_t magic = thread_magic();
	const char *text = NULL;

	if (magic != NULL)
		text = magic_buffer(
		    magic, data, n < MAGIC_BYTES ? n : MAGIC_BYTES);
	if (text == NULL || !split_type(text, opinion.type, opinion.charset))
		opinion.type[0] = '\0';
	return opinion;
}

/* ---- the choice ---------------------------------------------------------- */

static bool
is_one_of(const char *type, const char *const *types)
{
	for (; *types != NULL; types++) {
		if (strcmp(type, *types) == 0)
			return true;
	}
	return false;
}

/* Of text: what could act in a browser is taken at its content's word; between
 * harmless kinds the name decides, and the content where it does not. */
static const char *
choose_text(const char *name, const unsigned char *p, size_t n)
{
	static const char *const acting[] = { "text/html", "image/svg+xml",
		"text/xml", "application/xhtml+xml", NULL };
	static const char *const told[] = { "application/json", "text/csv",
		"application/x-ndjson", "text/rtf", "text/calendar",
		"text/vcard", "message/rfc822", NULL };
	const char *by_name = text_type(name, p, n), *type = NULL;
	const char *dot = strrchr(name, '.');
	struct opinion opinion;

	if (n == 0 || is_one_of(by_name, acting))
		return by_name;
	opinion = ask_magic(p, n);
	if (is_one_of(opinion.type, acting) ||
	    (strcmp(by_name, "text/plain") == 0 &&
		is_one_of(opinion.type, told) &&
		(dot == NULL || strcasecmp(dot, ".txt") != 0)))
		type = intern(opinion.type);
	return type != NULL ? type : by_name;
}

/* Text in another encoding, named with it. */
static const char *
foreign_text(const struct opinion *opinion)
{
	static const char *const unknown[] = { "binary", "unknown-8bit",
		"utf-8", "us-ascii", NULL };
	char type[TYPE_BYTES + CHARSET_BYTES + 16];

	if (is_one_of(opinion->charset, unknown))
		return NULL;
	snprintf(
	    type, sizeof(type), "text/plain; charset=%s", opinion->charset);
	return strlen(type) < TYPE_BYTES ? intern(type) : NULL;
}

/* Of anything else: the tables know containers better, libmagic the rest. */
static const char *
choose_binary(const unsigned char *p, size_t n)
{
	static const char *const vague[] = { "", "application/octet-stream",
		"application/x-data", "text/plain", "application/zip",
		"application/x-empty", "inode/x-empty",
		/* our own check found these unsound */
		"image/png", "image/jpeg", "image/gif", "image/webp", NULL };
	const char *table = binary_type(p, n, false), *type = NULL;
	struct opinion opinion;

	if (table != NULL && strcmp(table, "application/zip") != 0)
		return table;
	opinion = ask_magic(p, n);
	if (table == NULL && strcmp(opinion.type, "text/plain") == 0)
		type = foreign_text(&opinion);
	else if (!is_one_of(opinion.type, vague))
		type = intern(opinion.type);
	return type != NULL ? type : table;
}

struct media
media_sniff(const char *name, const void *data, size_t n)
{
	const unsigned char *p = n > 0 ? data : (const unsigned char *)"";
	struct media media = { .type = "application/octet-stream" };
	bool text = is_text(p, n);
	const char *type;

	if (sniff_raster(p, n, &media))
		return media;
	if (!text)
		type = choose_binary(p, n);
	else if ((type = binary_type(p, n, true)) == NULL)
		type = choose_text(name, p, n);
	if (type != NULL)
		media.type = type;
	return media;
}
