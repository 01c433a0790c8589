#include <inttypes.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/rnd.h"
#include "sandbox/outcome.h"
#include "sandbox/runner_text.h"

/* The folder is hidden, so that neither the sandbox nor a program's own
 * listing takes what is ours for a result. */
#define FOLDER ".sandbox/"
#define NONCE_BYTES 16

/* What a Snekbox lets a program write; sandboxd's default too. */
#define OUTPUT_CHARACTERS "1000000"

static enum err
put_file(struct buf *out, const char *folder, const char *path,
    const void *data, size_t len)
{
	CLEANUP_BUF struct buf name = { .max = 65536 };
	enum err rc;

	if ((rc = buf_puts(&name, folder)) != ERR_OK ||
	    (rc = buf_puts(&name, path)) != ERR_OK ||
	    (rc = buf_puts(out, "{\"path\":")) != ERR_OK ||
	    (rc = json_quote(out, name.data, name.len)) != ERR_OK ||
	    (rc = buf_puts(out, ",\"content\":\"")) != ERR_OK ||
	    (rc = base64_encode(out, data, len)) != ERR_OK)
		return rc;
	return buf_puts(out, "\"},");
}

static enum err
put_runner(struct buf *out)
{
	enum err rc = ERR_OK;

	for (size_t i = 0; rc == ERR_OK && i < runner_files_count; i++)
		rc = put_file(out, FOLDER, runner_files[i].name,
		    runner_files[i].text, runner_files[i].len);
	return rc;
}

/* The program and what it is given. */
static enum err
put_job(struct buf *out, const struct sandbox_job *job)
{
	enum err rc;

	for (size_t i = 0; i < job->n_files; i++) {
		const struct sandbox_file *f = &job->files[i];

		if ((rc = put_file(out, "", f->path, f->data, f->len)) !=
		    ERR_OK)
			return rc;
	}
	if (job->input != NULL &&
	    (rc = put_file(out, FOLDER, "stdin", job->input, job->input_len)) !=
		ERR_OK)
		return rc;
	return put_file(out, "", "main.py", job->code, job->code_len);
}

/* Ends the list of files, which has a comma too many, and the request. */
static enum err
put_end(struct buf *out, const struct sandbox_job *job)
{
	enum err rc;

	out->len--;
	if ((rc = buf_putc(out, ']')) != ERR_OK)
		return rc;
	if (job->timeout_ms > 0 &&
	    (rc = buf_printf(out, ",\"timeout\":%" PRIu64 ".%03u",
		 job->timeout_ms / 1000, (unsigned)(job->timeout_ms % 1000))) !=
		ERR_OK)
		return rc;
	return buf_putc(out, '}');
}

enum err
outcome_request(
    struct buf *out, const struct sandbox_job *job, uint64_t time_limit_ms)
{
	char nonce[2 * NONCE_BYTES + 1];
	enum err rc;

	if ((rc = rnd_hex(nonce, NONCE_BYTES)) != ERR_OK)
		return rc;
	/* unbuffered, so that the two outputs keep their order */
	if ((rc = buf_printf(out,
		 "{\"args\":[\"-u\",\"" FOLDER "runner.py\","
		 "\"%s\",\"%" PRIu64 "\",\"" OUTPUT_CHARACTERS "\",\"%s%s\"],"
		 "\"files\":[",
		 nonce, time_limit_ms, job->input != NULL ? "i" : "",
		 job->n_files > 0 ? "f" : "")) != ERR_OK ||
	    (rc = put_runner(out)) != ERR_OK ||
	    (rc = put_job(out, job)) != ERR_OK)
		return rc;
	return put_end(out, job);
}

enum err
outcome_request_plain(struct buf *out, const struct sandbox_job *job)
{
	enum err rc;

	if ((rc = buf_puts(out, "{\"args\":[\"main.py\"],\"files\":[")) !=
		ERR_OK ||
	    (rc = put_job(out, job)) != ERR_OK)
		return rc;
	return put_end(out, job);
}
