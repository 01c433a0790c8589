/* What a file is, told from its content by libmagic and our own tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/media.h"

static void
content_decides(void **state)
{
	static const struct {
		const char *name, *data;
		size_t len;
		const char *type;
	} rows[] = {
		{ "a.png", "just text\n", 10, "text/plain" },
		{ "a.txt", "<html><body>x</body></html>", 27, "text/html" },
		{ "a.txt", "  <!doctype HTML><p>", 20, "text/html" },
		{ "a", "<svg xmlns='http://www.w3.org/2000/svg'/>", 41,
		    "image/svg+xml" },
		{ "a", "{\"a\": [1, 2, {\"b\": null}]}\n", 27,
		    "application/json" },
		{ "a.csv", "a,b\n1,2\n", 8, "text/csv" },
		{ "a.md", "# Title\n", 8, "text/markdown" },
		{ "a.txt", "a,b\n1,2\n3,4\n", 12, "text/plain" },
		{ "a.json", "{\"cut", 5, "application/json" },
		{ "empty", "", 0, "text/plain" },
		{ "empty.csv", "", 0, "text/csv" },
		{ "a.txt", "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n", 24,
		    "application/pdf" },
		{ "a.txt", "\x1f\x8b\x08\0\0\0\0\0\0\x03", 10,
		    "application/gzip" },
		{ "a", "SQLite format 3\0\x10", 17, "application/vnd.sqlite3" },
		{ "a.bin", "\0\1\2\3\377\376\375", 7,
		    "application/octet-stream" },
		{ "a.txt", "caf\xe9 cr\xe8me br\xfbl\xe9\x65\n", 17,
		    "text/plain; charset=iso-8859-1" },
		{ "a.txt", "\xff\xfeh\0e\0l\0l\0o\0\n\0", 14,
		    "text/plain; charset=utf-16le" },
		{ "x.wav", "RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0", 24,
		    "audio/wav" },
		{ "x", "fLaC\0\0\0\x22\x10\0\x10\0", 12, "audio/flac" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct media m =
		    media_sniff(rows[i].name, rows[i].data, rows[i].len);

		if (strcmp(m.type, rows[i].type) != 0 || m.raster)
			fail_msg(
			    "row %zu: %s, not %s", i, m.type, rows[i].type);
	}
}

static void
a_type_is_the_same_text_each_time(void **state)
{
	static const char flac[] = "fLaC\0\0\0\x22\x10\0\x10";

	(void)state;
	assert_ptr_equal(media_sniff("x", flac, sizeof(flac)).type,
	    media_sniff("y", flac, sizeof(flac)).type);
}

static void *
sniff_many(void *arg)
{
	static const char flac[] = "fLaC\0\0\0\x22\x10\0\x10";

	(void)arg;
	for (int i = 0; i < 20; i++) {
		if (strcmp(media_sniff("x", flac, sizeof(flac)).type,
			"audio/flac") != 0)
			return "wrong";
	}
	return NULL;
}

static void
threads_ask_at_once(void **state)
{
	pthread_t threads[4];
	void *wrong;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, sniff_many, NULL), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
}

/* No prefix of anything is read beyond its end (sanitizers and valgrind see
 * it), and none lacks a type. */
static void
every_prefix_has_a_type(void **state)
{
	static const char data[] =
	    "PK\3\4\x14\0\0\0\x08\0xl/workbook.xml\0\0word/ppt/"
	    "<html>{\"a\":1}\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

	(void)state;
	for (size_t from = 0; from < sizeof(data); from += 5) {
		for (size_t n = 0; n <= sizeof(data) - from; n++) {
			char *copy = malloc(n + 1);
			struct media m;

			assert_non_null(copy);
			memcpy(copy, data + from, n);
			copy = realloc(copy, n > 0 ? n : 1);
			m = media_sniff("x.bin", copy, n);
			assert_non_null(strchr(m.type, '/'));
			free(copy);
		}
	}
	assert_non_null(media_sniff("x", NULL, 0).type);
}

static void
a_large_file_takes_little_time(void **state)
{
	size_t n = 32 << 20;
	char *data = malloc(n);

	(void)state;
	assert_non_null(data);
	memset(data, '<', n);
	assert_string_equal(media_sniff("x", data, n).type, "text/plain");
	memset(data, 0xf5, n);
	assert_non_null(media_sniff("x", data, n).type);
	free(data);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(content_decides),
		cmocka_unit_test(a_type_is_the_same_text_each_time),
		cmocka_unit_test(threads_ask_at_once),
		cmocka_unit_test(every_prefix_has_a_type),
		cmocka_unit_test(a_large_file_takes_little_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
