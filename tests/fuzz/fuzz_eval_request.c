/*
 * The body of POST /eval. The first byte chooses between JSON and a form. What
 * is accepted must keep its promises.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandboxd/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
must(bool holds)
{
	if (!holds)
		abort();
}

/* A path that stays inside: no empty part, no "." and no "..". */
static void
check_path(const char *path)
{
	for (const char *p = path; *p != '\0'; p++) {
		size_t n = strcspn(p, "/");

		must(n > 0);
		must(!(n == 1 && p[0] == '.'));
		must(!(n == 2 && p[0] == '.' && p[1] == '.'));
		p += n;
		if (*p == '\0')
			break;
		must(p[1] != '\0');
	}
}

static void
check(const struct request *req, const struct request_rules *rules)
{
	must(req->n_args >= 1);
	must(req->args[req->n_args] == NULL);
	for (size_t i = 1; i < req->n_args; i++)
		must(strlen(req->args[i]) <= REQUEST_ARG_MAX);
	for (size_t i = 0; i < req->n_files; i++)
		check_path(req->files[i].path);
	must(req->timeout_ms > 0 && req->timeout_ms <= rules->time_limit_ms);
	must(req->executable != NULL && req->input != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct request_rules rules = { 100, 6000 };
	struct request_fault fault;
	struct request req;
	char *body;
	enum err rc;

	if (size == 0)
		return 0;
	/* one byte longer than the body, as the decoder asks */
	if ((body = malloc(size)) == NULL)
		return 0;
	memcpy(body, data + 1, size - 1);
	rc = request_decode(
	    &req, &fault, body, size - 1, data[0] == 'f', &rules);
	if (rc == ERR_OK)
		check(&req, &rules);
	else
		must(rc == ERR_PARSE && fault.status >= 400 &&
		    fault.title != NULL);
	request_done(&req);
	request_fault_done(&fault);
	free(body);
	return 0;
}
