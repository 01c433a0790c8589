#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "mcp/call.h"

#define SLACK_MS 20 /* a timer may come that much early */

static enum err
append_progress(struct buf *out, const struct call *call, uint64_t value_ms,
    uint64_t total_ms, const char *text)
{
	CLEANUP_BUF struct buf params = { .max = 2048 };
	enum err rc;

	rc = buf_printf(&params,
	    "{\"progressToken\":%s,\"progress\":%" PRIu64 ".%03u",
	    call->message->progress_token, value_ms / 1000,
	    (unsigned)(value_ms % 1000));
	if (rc == ERR_OK && total_ms > 0)
		rc = buf_printf(&params, ",\"total\":%" PRIu64 ".%03u",
		    total_ms / 1000, (unsigned)(total_ms % 1000));
	if (rc == ERR_OK)
		rc = buf_puts(&params, ",\"message\":");
	if (rc == ERR_OK)
		rc = json_quote(&params, text, strlen(text));
	if (rc == ERR_OK)
		rc = buf_puts(&params, "}");
	return rc == ERR_OK
	    ? rpc_notification(out, "notifications/progress", buf_str(&params))
	    : rc;
}

/* Time since the call arrived is what rises through queue and run. */
void
call_tell(struct call *call, uint64_t total_ms, const char *fmt, ...)
{
	CLEANUP_BUF struct buf out = { .max = 4096 };
	uint64_t now = clock_ms(), value = now - call->begun_ms;
	bool first = call->told_ms == 0;
	char text[256];
	va_list ap;

	if (call->message->progress_token == NULL ||
	    (!first && now < call->told_ms + PROGRESS_MS - SLACK_MS))
		return;
	if (!first && value <= call->told_value_ms)
		value = call->told_value_ms + 1;
	call->told_ms = now;
	call->told_value_ms = value;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (append_progress(&out, call, value, total_ms, text) == ERR_OK)
		call->sink->ops->notify(call->sink, out.data, out.len);
}

void
call_tell_running(struct call *call)
{
	uint64_t ran = clock_ms() - call->started_ms;

	call_tell(call, call->queued_ms + call->limit_ms,
	    "running for %.1f s of at most %g s", (double)ran / 1000,
	    (double)call->limit_ms / 1000);
}
