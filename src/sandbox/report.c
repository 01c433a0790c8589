#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "sandbox/report.h"

#define MARK 0x1d
#define NONCE_MAX 64
#define BEGIN_WITHIN 65536 /* bytes in which the runner must begin */
#define LINES_MAX 1000
#define LINE_DEPTH 8
#define SIZE_MAX_TOLD ((uint64_t)1 << 52)

/* The text behind the mark that opens (kind 'B') or closes ('E') a run:
 * hexadecimal digits and a line feed. 0 when it is none. */
static size_t
nonce_len(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && i < NONCE_MAX && text[i] != '\n')
		i++;
	return i < n && text[i] == '\n' && i > 0 ? i : 0;
}

/* Finds where the runner began; what was before is none of the program's.
 * Returns the offset behind the mark, 0 when there is none. */
static size_t
find_begin(
    const char *text, size_t n, const char **ret_nonce, size_t *ret_nonce_len)
{
	static const char mark[] = { MARK, 'B' };
	size_t within = n < BEGIN_WITHIN ? n : BEGIN_WITHIN, len;
	const char *at = memmem(text, within, mark, sizeof(mark));

	if (at == NULL)
		return 0;
	at += sizeof(mark);
	len = nonce_len(at, n - (size_t)(at - text));
	if (len == 0)
		return 0;
	*ret_nonce = at;
	*ret_nonce_len = len;
	return (size_t)(at - text) + len + 1;
}

/* Length of the bytes at p that stand for themselves. */
static size_t
verbatim_len(const unsigned char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] != MARK && p[i] < 0x80)
		i++;
	return i;
}

/* Takes one coded byte at p: an escape, or a character below U+0100. Returns
 * how much was read, and the byte. */
static size_t
coded(const unsigned char *p, size_t n, char *ret_byte)
{
	if (p[0] == MARK && n > 1) {
		*ret_byte = p[1] == 'r' ? '\r'
		    : p[1] == '0'       ? '\0'
					: (char)p[1];
		return 2;
	}
	if ((p[0] == 0xc2 || p[0] == 0xc3) && n > 1) {
		*ret_byte = (char)((p[0] & 3) << 6 | (p[1] & 0x3f));
		return 2;
	}
	*ret_byte = (char)p[0];
	return 1;
}

/* Decodes the program's output up to the closing mark. *ret_used: all that
 * was read, the mark included. */
static enum err
decode_output(struct report *report, const char *text, size_t n,
    const char *nonce, size_t len, size_t *ret_used)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t at = 0, run;
	enum err rc;
	char byte;

	while (at < n) {
		run = verbatim_len(p + at, n - at);
		if ((rc = buf_append(&report->output, p + at, run)) != ERR_OK)
			return rc;
		at += run;
		if (at >= n)
			break;
		if (n - at > len + 2 && p[at] == MARK && p[at + 1] == 'E' &&
		    memcmp(p + at + 2, nonce, len) == 0 &&
		    p[at + 2 + len] == '\n') {
			report->ended = true;
			at += len + 3;
			break;
		}
		at += coded(p + at, n - at, &byte);
		if ((rc = buf_putc(&report->output, byte)) != ERR_OK)
			return rc;
	}
	*ret_used = at;
	return ERR_OK;
}

/* Takes the lines of the report that are objects; others are passed over. */
static enum err
parse_lines(struct report *report, const char *text, size_t n)
{
	int count = 0;

	while (n > 0 && count < LINES_MAX) {
		const char *end = memchr(text, '\n', n);
		size_t len = end != NULL ? (size_t)(end - text) : n;
		cJSON *line = NULL;

		if (json_parse(text, len, LINE_DEPTH, &line, NULL) == ERR_OK) {
			if (!cJSON_IsObject(line) ||
			    !cJSON_AddItemToArray(report->lines, line))
				cJSON_Delete(line);
			count++;
		}
		len += end != NULL;
		text += len;
		n -= len;
	}
	return ERR_OK;
}

static void
read_first(struct report *report)
{
	const cJSON *first = cJSON_GetArrayItem(report->lines, 0);

	report->killed = json_get_string(first, "killed");
	if (report->killed == NULL)
		report->killed = "";
	report->exit_code = (int)report_number(first, "exit", 255);
	report->signal = (int)report_number(first, "signal", 127);
	report->warned = report_number(first, "soft", 1000000) > 0;
	report->had_input = report_number(first, "input", 1) > 0;
	report->bytes = report_number(first, "bytes", SIZE_MAX_TOLD);
	report->run_ms = report_number(first, "ms", SIZE_MAX_TOLD);
	report->rss_kib = report_number(first, "rss", SIZE_MAX_TOLD);
	report->descriptors = report_number(first, "fds", 1 << 30);
	report->disk_bytes = report_number(first, "disk", SIZE_MAX_TOLD);
	/* without its own line the runner has told nothing */
	report->ended = report_number(first, "v", 1) == 1;
}

enum err
report_decode(const char *text, size_t n, struct report *ret_report)
{
	struct report report = { .killed = "" };
	const char *nonce = NULL;
	size_t begin, len = 0, used = 0;
	enum err rc;

	buf_init(&report.output, n);
	if ((report.lines = cJSON_CreateArray()) == NULL)
		return ERR_NOMEM;
	begin = find_begin(text, n, &nonce, &len);
	report.began = begin > 0;
	if (report.began)
		rc = decode_output(
		    &report, text + begin, n - begin, nonce, len, &used);
	else
		rc = buf_append(&report.output, text, n);
	if (rc == ERR_OK && report.ended)
		rc =
		    parse_lines(&report, text + begin + used, n - begin - used);
	if (rc != ERR_OK) {
		report_done(&report);
		return rc;
	}
	if (report.ended)
		read_first(&report);
	*ret_report = report;
	return ERR_OK;
}

void
report_done(struct report *report)
{
	buf_done(&report->output);
	cJSON_Delete(report->lines);
	report->lines = NULL;
}

const cJSON *
report_find(const struct report *report, const char *kind, const char *key,
    const char *value)
{
	const cJSON *line;

	cJSON_ArrayForEach(line, report->lines)
	{
		const char *t = json_get_string(line, "t"), *v;

		if (t == NULL || strcmp(t, kind) != 0)
			continue;
		if (key == NULL)
			return line;
		if ((v = json_get_string(line, key)) != NULL &&
		    strcmp(v, value) == 0)
			return line;
	}
	return NULL;
}

uint64_t
report_number(const cJSON *line, const char *key, uint64_t max)
{
	const cJSON *item = json_get(line, key);

	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
	    item->valuedouble > (double)max)
		return 0;
	return (uint64_t)item->valuedouble;
}
