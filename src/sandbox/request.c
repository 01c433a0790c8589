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

/* Appends the input files as unpack.py reads them: the lines of the index,
 * then the bytes. */
static enum err
pack(struct buf *out, const struct sandbox_job *job)
{
	enum err rc;

	for (size_t i = 0; i < job->n_files; i++) {
		const char *path = job->files[i].path;

		rc = buf_printf(out, "%zu ", job->files[i].len);
		for (; rc == ERR_OK && *path != '\0'; path++)
			rc = buf_printf(out, "%02x", (unsigned char)*path);
		if (rc != ERR_OK || (rc = buf_putc(out, '\n')) != ERR_OK)
			return rc;
	}
	if ((rc = buf_putc(out, '\n')) != ERR_OK)
		return rc;
	for (size_t i = 0; i < job->n_files && rc == ERR_OK; i++)
		rc = buf_append(out, job->files[i].data, job->files[i].len);
	return rc;
}

/* The sandbox would make the folders of input files itself, and not the
 * program's own: so they travel in one file that the runner unpacks. */
static enum err
put_archive(struct buf *out, const struct sandbox_job *job)
{
	CLEANUP_BUF struct buf archive = { .max = out->max };
	enum err rc;

	if ((rc = pack(&archive, job)) != ERR_OK)
		return rc;
	return put_file(out, FOLDER, "files", archive.data, archive.len);
}

/* The program and what it reads. */
static enum err
put_job(struct buf *out, const struct sandbox_job *job)
{
	enum err rc;

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
outcome_request(struct buf *out, const struct sandbox_job *job,
    const struct conf *conf, const struct sandbox_limits *limits)
{
	char nonce[2 * NONCE_BYTES + 1];
	uint64_t output = limits->output_bytes > 0 ? limits->output_bytes
						   : OUTCOME_OUTPUT_SNEKBOX;
	enum err rc;

	if ((rc = rnd_hex(nonce, NONCE_BYTES)) != ERR_OK)
		return rc;
	/* unbuffered, so that the two outputs keep their order */
	if ((rc = buf_printf(out,
		 "{\"args\":[\"-u\",\"" FOLDER "runner.py\","
		 "\"%s\",\"%" PRIu64 "\",\"%" PRIu64 "\",\"%s%s\",\"%" PRIu64
		 "\"],\"files\":[",
		 nonce, limits->time_ms, output, job->input != NULL ? "i" : "",
		 job->n_files > 0 ? "f" : "", conf->figures_pixels_max)) !=
		ERR_OK ||
	    (rc = put_runner(out)) != ERR_OK ||
	    (job->n_files > 0 && (rc = put_archive(out, job)) != ERR_OK) ||
	    (rc = put_job(out, job)) != ERR_OK)
		return rc;
	return put_end(out, job);
}

enum err
outcome_request_plain(struct buf *out, const struct sandbox_job *job)
{
	enum err rc = buf_puts(out, "{\"args\":[\"main.py\"],\"files\":[");

	for (size_t i = 0; i < job->n_files && rc == ERR_OK; i++)
		rc = put_file(out, "", job->files[i].path, job->files[i].data,
		    job->files[i].len);
	if (rc != ERR_OK || (rc = put_job(out, job)) != ERR_OK)
		return rc;
	return put_end(out, job);
}
