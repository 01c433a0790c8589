/*
 * The text cleaner: whatever comes in, what goes out is UTF-8 without control
 * characters, cleaning it again changes nothing, and its bounded form keeps to
 * its budget.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void
check(bool holds)
{
	if (!holds)
		abort();
}

static bool
is_clean(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	CLEANUP_BUF struct buf once = { .max = n * 6 + 64 };
	CLEANUP_BUF struct buf twice = { .max = n * 36 + 64 };
	CLEANUP_BUF struct buf bound = { .max = n * 6 + 4096 };
	size_t budget = n > 0 ? 64 + data[0] : 64;
	bool cut;

	check(text_clean(&once, (const char *)data, n) == ERR_OK);
	check(is_clean(buf_str(&once), once.len));
	check(text_clean(&twice, buf_str(&once), once.len) == ERR_OK);
	check(once.len == twice.len &&
	    memcmp(buf_str(&once), buf_str(&twice), once.len) == 0);
	check(text_bound(&bound, buf_str(&once), once.len, budget, &cut) ==
	    ERR_OK);
	check(bound.len <= budget);
	check(cut == (once.len > budget));
	twice.len = 0;
	check(text_clean(&twice, buf_str(&bound), bound.len) == ERR_OK);
	check(twice.len == bound.len);
	return 0;
}
