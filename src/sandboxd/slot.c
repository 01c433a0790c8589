#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/channel.h"
#include "sandboxd/fonts.h"
#include "sandboxd/jail.h"
#include "sandboxd/reply.h"
#include "sandboxd/run.h"
#include "sandboxd/slot.h"
#include "sandboxd/tree.h"

#define FAULT_MAX (1u << 20)
#define GUARD_SECONDS 60 /* beyond the program's own time */

struct slot {
	const struct plan *plan;
	int control;
	struct jail jail;
	struct channel_job job;
	char *body; /* owned, one byte longer than its length */
};

/* ---- answering ---- */

static enum err
send_note(const struct slot *slot, enum channel_kind kind, int status,
    const char *text, int fd)
{
	struct channel_note note = { .kind = kind, .status = (uint32_t)status };

	snprintf(note.text, sizeof(note.text), "%s", text);
	return channel_send(slot->control, &note, sizeof(note), fd);
}

static enum err
answer_fault(const struct slot *slot, int status, const char *title,
    const struct buf *description)
{
	CLEANUP_FD int fd = -1;
	enum err rc;

	if ((rc = reply_fault(title, description, &fd)) != ERR_OK)
		return rc;
	return send_note(slot, CHANNEL_REPLY, status, "", fd);
}

/* What Snekbox answers when it can't run something: 200 and no return code. */
static enum err
answer_refusal(const struct slot *slot, const char *text)
{
	CLEANUP_FD int fd = -1;
	CLEANUP_BUF struct buf out = { 0 };
	struct result result = { .text = &out };
	enum err rc;

	buf_init(&out, FAULT_MAX);
	if ((rc = buf_puts(&out, text)) != ERR_OK ||
	    (rc = reply_result(&result, &fd)) != ERR_OK)
		return rc;
	return send_note(slot, CHANNEL_REPLY, 200, "", fd);
}

static enum err
answer_exec_error(const struct slot *slot, int error)
{
	CLEANUP_BUF struct buf text = { 0 };

	buf_init(&text, FAULT_MAX);
	if (buf_printf(&text, "the interpreter could not be executed: %s",
		strerror(error)) != ERR_OK)
		return ERR_NOMEM;
	return answer_fault(slot, 500, "500 Internal Server Error", &text);
}

static enum err
answer_run(const struct slot *slot, const struct request *req,
    const struct run *run, const struct collection *files)
{
	CLEANUP_FD int fd = -1;
	struct result result = {
		.text = &run->out.text,
		.error_text = req->split_stderr ? &run->err.text : NULL,
		.has_returncode = true,
		.returncode = run->returncode,
		.killed_by = run_killed_by(run),
		.duration_ms = run->duration_ms,
		.files = files,
		.dir = slot->jail.home,
	};
	enum err rc;

	if ((rc = reply_result(&result, &fd)) != ERR_OK)
		return rc;
	return send_note(slot, CHANNEL_REPLY, 200, "", fd);
}

/* ---- running ---- */

static enum err
collect_and_answer(struct slot *slot, const struct request *req,
    const struct upload *uploads, const struct run *run)
{
	const struct conf *conf = slot->plan->conf;
	struct collect_rules rules = { conf->jail_files, conf->jail_disk };
	struct collection files = { .n = 0 };
	enum err rc;

	if (slot->job.flags & CHANNEL_FONTS)
		fonts_keep(slot->plan->base, slot->jail.cache);
	rc = collect_list(&files, slot->jail.home, req, uploads, &rules);
	if (rc == ERR_OK)
		rc = answer_run(slot, req, run, &files);
	collection_done(&files);
	return rc;
}

static enum err
run_and_answer(
    struct slot *slot, const struct request *req, const struct upload *uploads)
{
	struct run run;
	enum err rc;

	alarm((unsigned)(req->timeout_ms / 1000) + GUARD_SECONDS);
	rc = run_program(&run, &slot->jail, slot->plan, req, slot->control);
	if (rc == ERR_OK && run.end == RUN_CANCELLED)
		rc = ERR_CLOSED;
	/* not found and the like are 255, as NsJail has it */
	if (rc == ERR_OK &&
	    (run.exec_error == E2BIG || run.exec_error == ENOMEM ||
		run.exec_error == EINVAL))
		rc = answer_exec_error(slot, run.exec_error);
	else if (rc == ERR_OK)
		rc = collect_and_answer(slot, req, uploads, &run);
	run_done(&run);
	return rc;
}

/* The checks that Snekbox makes outside the jail, with its words. */
static const char *
executable_fault(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return "executable_path does not exist";
	if (!S_ISREG(st.st_mode))
		return "executable_path is not a file";
	if (access(path, X_OK) != 0)
		return "executable_path is not executable";
	return NULL;
}

static enum err
upload_and_run(struct slot *slot, struct request *req)
{
	CLEANUP_FREE struct upload *uploads = NULL;
	CLEANUP_BUF struct buf fault = { 0 };
	enum err rc;

	buf_init(&fault, FAULT_MAX);
	uploads = calloc(req->n_files + 1, sizeof(*uploads));
	if (uploads == NULL)
		return ERR_NOMEM;
	rc = upload_write(slot->jail.home, req, uploads, &fault);
	if (rc == ERR_SYS)
		return answer_refusal(slot, buf_str(&fault));
	if (rc != ERR_OK)
		return rc;
	return run_and_answer(slot, req, uploads);
}

static enum err
serve_request(struct slot *slot, struct request *req)
{
	const char *fault;

	req->args[0] = (char *)(uintptr_t)slot->plan->python;
	if (req->executable[0] != '\0') {
		fault = executable_fault(req->executable);
		if (fault != NULL)
			return answer_fault(slot, 400, fault, NULL);
		req->args[0] = (char *)(uintptr_t)req->executable;
	}
	if (req->refusal != NULL)
		return answer_refusal(slot, req->refusal);
	return upload_and_run(slot, req);
}

static enum err
serve(struct slot *slot)
{
	const struct conf *conf = slot->plan->conf;
	struct request_rules rules = { (unsigned)conf->json_depth,
		conf->sandbox_time_limit };
	struct request_fault fault;
	struct request req;
	enum err rc;

	alarm(GUARD_SECONDS);
	rc = request_decode(&req, &fault, slot->body,
	    (size_t)slot->job.body_len, slot->job.flags & CHANNEL_FORM, &rules);
	if (rc == ERR_OK)
		rc = serve_request(slot, &req);
	else if (rc == ERR_PARSE)
		rc = answer_fault(
		    slot, fault.status, fault.title, &fault.description);
	request_done(&req);
	request_fault_done(&fault);
	return rc;
}

/* ---- waiting ---- */

static enum err
read_all(int fd, void *data, size_t n)
{
	char *p = data;

	while (n > 0) {
		ssize_t got = read(fd, p, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return ERR_CLOSED;
		p += got;
		n -= (size_t)got;
	}
	return ERR_OK;
}

/* Waits for a request; ERR_CLOSED when nobody wants one, or when the jail
 * does not stand any more. */
static enum err
await_job(struct slot *slot)
{
	struct pollfd fds[] = { { slot->control, POLLIN, 0 },
		{ slot->jail.pidfd, POLLIN, 0 } };
	enum err rc;

	while (poll(fds, 2, -1) < 0) {
		if (errno != EINTR)
			return ERR_SYS;
	}
	if (fds[1].revents != 0)
		return ERR_CLOSED;
	rc = read_all(slot->control, &slot->job, sizeof(slot->job));
	if (rc != ERR_OK)
		return rc;
	if (slot->job.magic != CHANNEL_MAGIC ||
	    slot->job.body_len > slot->plan->conf->sandboxd_body_max)
		return ERR_PARSE;
	slot->body = malloc((size_t)slot->job.body_len + 1);
	if (slot->body == NULL)
		return ERR_NOMEM;
	return read_all(slot->control, slot->body, (size_t)slot->job.body_len);
}

static enum err
prepare(struct slot *slot, unsigned index)
{
	CLEANUP_BUF struct buf text = { 0 };
	enum err rc;

	buf_init(&text, FAULT_MAX);
	rc = jail_prepare(&slot->jail, slot->plan, index, &text);
	if (rc == ERR_OK)
		return send_note(slot, CHANNEL_READY, 0, "", -1);
	if (send_note(slot, CHANNEL_FAILED, 500, buf_str(&text), -1) != ERR_OK)
		return ERR_CLOSED;
	return rc;
}

int
slot_main(const struct plan *plan, unsigned index, int control)
{
	struct slot slot = { .plan = plan, .control = control };
	enum err rc;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return 1;
	/* a jail that can't even be ended must not hold its place for ever */
	alarm(GUARD_SECONDS);
	if (prepare(&slot, index) != ERR_OK)
		return 1;
	alarm(0);
	if ((rc = await_job(&slot)) == ERR_OK)
		rc = serve(&slot);
	jail_reap(&slot.jail, true);
	free(slot.body);
	return rc == ERR_OK ? 0 : 1;
}
