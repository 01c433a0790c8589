/*
 * The reply decoder with the runner's report, files and images in it: no
 * answer may break us, and an outcome always holds what its kind promises.
 * Half of the inputs are taken as the output inside of a sound answer, so that
 * the report is reached.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "sandbox/media.h"
#include "sandbox/outcome.h"
#include "sandbox/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void
check(bool holds)
{
	if (!holds)
		abort();
}

static const struct conf *
settings(void)
{
	static struct conf conf;
	static bool ready;

	if (!ready)
		check(conf_init(&conf) == ERR_OK);
	ready = true;
	return &conf;
}

static void
check_outcome(const struct outcome *o)
{
	check((unsigned)o->kind < OUTCOME_KIND_COUNT);
	check(o->kind == OUTCOME_OK ||
	    (o->error_message != NULL && o->details != NULL));
	check(
	    o->text == NULL || strlen(o->text) <= settings()->output_max + 256);
	for (size_t i = 0; i < o->n_files; i++) {
		const struct outcome_file *f = &o->files[i];

		check(f->path != NULL && f->media_type != NULL);
		check(f->data != NULL || f->reason != NULL);
		check(!f->figure || (f->width > 0 && f->height > 0));
	}
}

static void
parse(const char *body, size_t n, const uint8_t *how)
{
	struct sandbox_limits limits = { 6000, 70 << 20, 1000000, 48 << 20,
		15 };
	struct sandbox_reply reply = {
		.transport = how[0] < 250 ? ERR_OK : (enum err)(how[0] - 245),
		.transport_text = "text",
		.http_status = how[1] < 200 ? 200 : 100 + how[1],
		.body = body,
		.body_len = n,
		.duration_ms = how[2] * 40,
	};
	struct outcome outcome;

	check(outcome_parse(&reply, settings(), &limits, &outcome) == ERR_OK);
	check_outcome(&outcome);
	outcome_done(&outcome);
}

/* Puts data as escaped text into a sound answer, and as a file. */
static void
wrap(struct buf *body, const uint8_t *data, size_t n, uint8_t code)
{
	check(buf_puts(body, "{\"stdout\":\"") == ERR_OK);
	for (size_t i = 0; i < n; i++)
		check(buf_printf(body, "\\u%04x", data[i]) == ERR_OK);
	check(buf_printf(body,
		  "\",\"returncode\":%d,\"files\":[{\"path\":"
		  "\"__sandbox__/figure-1.png\",\"size\":1,\"content\":\"",
		  code) == ERR_OK);
	check(base64_encode(body, data, n) == ERR_OK);
	check(buf_puts(body, "\"}]}") == ERR_OK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	CLEANUP_BUF struct buf body = { .max = n * 10 + 4096 };
	struct media media;

	if (n < 4)
		return 0;
	media = media_sniff("x.csv", data, n);
	check(media.type != NULL && (!media.raster || media.width > 0));
	if (data[0] & 1) {
		parse((const char *)data + 4, n - 4, data + 1);
		return 0;
	}
	wrap(&body, data + 4, n - 4, data[3]);
	parse(buf_str(&body), body.len, data + 1);
	return 0;
}
