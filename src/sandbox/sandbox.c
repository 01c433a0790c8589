#include <stdlib.h>
#include <string.h>

#include "sandbox/sandbox.h"

void
sandbox_job_done(struct sandbox_job *job)
{
	for (size_t i = 0; i < job->n_files; i++) {
		free(job->files[i].path);
		free(job->files[i].data);
	}
	free(job->files);
	free(job->code);
	free(job->input);
	*job = (struct sandbox_job){ .timeout_ms = 0 };
}

const char *
outcome_kind_name(enum outcome_kind kind)
{
	static const char *const names[OUTCOME_KIND_COUNT] = {
		[OUTCOME_OK] = "",
		[OUTCOME_EXECUTION_ERROR] = "execution_error",
		[OUTCOME_TIMEOUT] = "timeout",
		[OUTCOME_MEMORY_LIMIT] = "memory_limit",
		[OUTCOME_OUTPUT_LIMIT] = "output_limit",
		[OUTCOME_PROCESS_LIMIT] = "process_limit",
		[OUTCOME_CRASH] = "crash",
		[OUTCOME_BUSY] = "busy",
		[OUTCOME_SANDBOX_UNAVAILABLE] = "sandbox_unavailable",
		[OUTCOME_SANDBOX_ERROR] = "sandbox_error",
		[OUTCOME_CANCELLED] = "cancelled",
	};

	return (unsigned)kind < OUTCOME_KIND_COUNT
	    ? names[kind]
	    : names[OUTCOME_SANDBOX_ERROR];
}

static void
file_done(struct outcome_file *file)
{
	free(file->path);
	free(file->data);
	free(file->reason);
}

void
outcome_done(struct outcome *outcome)
{
	for (size_t i = 0; i < outcome->n_files; i++)
		file_done(&outcome->files[i]);
	free(outcome->files);
	free(outcome->text);
	free(outcome->whole);
	free(outcome->result);
	free(outcome->error_message);
	free(outcome->details);
	free(outcome->exception_type);
	free(outcome->exception_message);
	free(outcome->traceback);
	*outcome = (struct outcome){ .kind = OUTCOME_OK };
}
