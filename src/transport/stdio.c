#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "mcp/batch.h"
#include "mcp/envelope.h"
#include "mcp/listen.h"
#include "transport/lines.h"
#include "transport/stdio.h"

#define NAME "stdio" /* of the session; nobody else's table knows it */
#define FLUSH_MS 1000
#define ANSWER_MAX ((size_t)1 << 30)
#define LISTENS_MAX 64

/* A subscription that stands open. */
struct listen {
	LIST_ENTRY(listen) link;
	char *id; /* raw, owned */
};

LIST_HEAD(listen_list, listen);

struct stdio {
	struct stdio_plan plan;
	struct lines *lines;        /* owned */
	struct mcp_session *legacy; /* owned */
	struct mcp_session *modern; /* owned, never initialized */
	struct listen_list listens;
	unsigned n_listens;
	bool seen_modern; /* the peer speaks 2026-07-28 */
	bool closing;
};

/* What a line became. */
struct arrival {
	struct rpc_message *message; /* owned, or NULL */
	struct batch *batch;         /* owned, or NULL */
	struct rpc_fault fault;      /* where both are NULL */
};

/* The answers to a batch, which go out together. */
struct answers {
	struct buf text;
	unsigned open; /* requests not answered, and one while it is read */
};

struct line_sink {
	struct sink sink;
	struct stdio *stdio;
	struct answers *answers; /* NULL: on its own */
};

/* ---- lines come, in the reading thread ----------------------------------- */

static void
parse(struct arrival *arrival, const struct conf *conf, const char *line,
    size_t len)
{
	enum err rc;

	if (line == NULL) {
		arrival->fault.err = ERR_RPC_REQUEST;
		snprintf(arrival->fault.text, sizeof(arrival->fault.text),
		    "Invalid Request: the message is larger than %llu bytes "
		    "(setting body_max)",
		    (unsigned long long)conf->body_max);
		return;
	}
	rc = batch_is(line, len)
	    ? batch_parse(line, len, conf, &arrival->batch, &arrival->fault)
	    : rpc_parse(line, len, conf, &arrival->message, &arrival->fault);
	if (rc != ERR_OK)
		arrival->fault.err = rc;
}

static void *
read_line(void *arg, const char *line, size_t len)
{
	const struct stdio *stdio = arg;
	struct arrival *arrival = calloc(1, sizeof(*arrival));

	if (arrival != NULL)
		parse(arrival, stdio->plan.conf, line, len);
	return arrival;
}

static void
arrival_free(struct arrival *arrival)
{
	rpc_message_free(arrival->message);
	batch_free(arrival->batch);
	free(arrival);
}

/* ---- answers ------------------------------------------------------------- */

static void
answers_close(struct stdio *stdio, struct answers *answers)
{
	if (--answers->open > 0)
		return;
	if (answers->text.len > 0 && !stdio->closing &&
	    buf_putc(&answers->text, ']') == ERR_OK)
		lines_write(
		    stdio->lines, answers->text.data, answers->text.len);
	buf_done(&answers->text);
	free(answers);
}

static void
answers_add(struct answers *answers, const char *json, size_t len)
{
	struct buf *all = &answers->text;

	if (buf_putc(all, all->len == 0 ? '[' : ',') != ERR_OK ||
	    buf_append(all, json, len) != ERR_OK)
		log_warn("batch.answer", "an answer is lost: out of memory");
}

static void
say(struct stdio *stdio, struct answers *answers, const char *json, size_t len)
{
	if (answers != NULL)
		answers_add(answers, json, len);
	else
		lines_write(stdio->lines, json, len);
}

static void
sink_notify(struct sink *sink, const char *json, size_t len)
{
	lines_write(((struct line_sink *)sink)->stdio->lines, json, len);
}

static void
sink_drop(struct sink *sink)
{
	struct line_sink *mine = (struct line_sink *)sink;

	if (mine->answers != NULL)
		answers_close(mine->stdio, mine->answers);
	free(mine);
}

static void
sink_reply(struct sink *sink, const char *json, size_t len)
{
	struct line_sink *mine = (struct line_sink *)sink;

	say(mine->stdio, mine->answers, json, len);
	sink_drop(sink);
}

static const struct sink_ops sink_ops = {
	.notify = sink_notify,
	.reply = sink_reply,
	.drop = sink_drop,
};

/* Without an id it is null; from 2025-11-25 on it is left out. */
static void
say_error(struct stdio *stdio, struct answers *answers, const char *id,
    int code, const char *text, const char *data)
{
	CLEANUP_BUF struct buf out = { .max = ANSWER_MAX };
	bool bare = stdio->seen_modern ||
	    mcp_session_revision(stdio->legacy) >= REVISION_2025_11_25;
	enum err rc;

	if (id != NULL && id[0] != '\0')
		bare = false;
	if ((rc = rpc_error(&out, id, code, text, data)) != ERR_OK) {
		log_warn(
		    "stdio.error", "an answer is lost: %s", err_info(rc)->text);
		return;
	}
	if (bare) {
		static const char with[] = "{\"jsonrpc\":\"2.0\",\"id\":null,";
		static const char without[] = "{\"jsonrpc\":\"2.0\",";
		size_t cut = strlen(with) - strlen(without);

		buf_drop(&out, cut);
		memcpy(out.data, without, strlen(without));
	}
	say(stdio, answers, out.data, out.len);
}

static void
say_fault(
    struct stdio *stdio, struct answers *answers, const struct rpc_fault *fault)
{
	if (!fault->notification)
		say_error(stdio, answers, fault->id,
		    err_info(fault->err)->rpc_code, fault->text, NULL);
}

/* ---- subscriptions/listen ------------------------------------------------ */

static struct listen *
find_listen(struct stdio *stdio, const char *id)
{
	struct listen *listen;

	LIST_FOREACH(listen, &stdio->listens, link)
	{
		if (strcmp(listen->id, id) == 0)
			return listen;
	}
	return NULL;
}

static void
listen_end(struct stdio *stdio, struct listen *listen, bool conclude)
{
	CLEANUP_BUF struct buf out = { .max = 4096 };

	if (conclude && listen_concluded(&out, listen->id) == ERR_OK)
		lines_write(stdio->lines, out.data, out.len);
	LIST_REMOVE(listen, link);
	stdio->n_listens--;
	free(listen->id);
	free(listen);
}

/* Takes the id out of the message. */
static enum err
listen_new(struct stdio *stdio, struct rpc_message *message)
{
	CLEANUP_BUF struct buf out = { .max = 4096 };
	struct listen *listen;

	if (listen_acknowledged(&out, message->id) != ERR_OK ||
	    (listen = calloc(1, sizeof(*listen))) == NULL)
		return ERR_NOMEM;
	listen->id = STEAL_PTR(message->id);
	LIST_INSERT_HEAD(&stdio->listens, listen, link);
	stdio->n_listens++;
	lines_write(stdio->lines, out.data, out.len);
	return ERR_OK;
}

static void
take_listen(struct stdio *stdio, struct rpc_message *message)
{
	if (!listen_is_valid(message))
		say_error(stdio, NULL, message->id, -32602, LISTEN_FAULT, NULL);
	else if (find_listen(stdio, message->id) != NULL)
		say_error(stdio, NULL, message->id, -32600,
		    "Invalid Request: a request with this id is under way",
		    NULL);
	else if (stdio->n_listens >= LISTENS_MAX ||
	    listen_new(stdio, message) != ERR_OK)
		say_error(stdio, NULL, message->id, -32603,
		    "no more subscriptions can be opened now", NULL);
	rpc_message_free(message);
}

/* ---- messages ------------------------------------------------------------ */

/* A cancellation does not tell the era of the request that it means. */
static void
cancel(struct stdio *stdio, const struct rpc_message *message)
{
	static const char *const path[] = { "params", "requestId", NULL };
	char id[RPC_ID_MAX + 1];
	struct json_span span;
	struct listen *listen;

	if (json_find(message->text, message->text_len, path, &span) !=
		ERR_OK ||
	    span.len > RPC_ID_MAX)
		return;
	memcpy(id, span.at, span.len);
	id[span.len] = '\0';
	if ((listen = find_listen(stdio, id)) != NULL)
		listen_end(stdio, listen, false);
	else
		(void)mcp_cancel(stdio->plan.mcp, NAME, id);
}

/* Before initialize a peer that asks what only 2026-07-28 has means that. */
static bool
is_modern(const struct stdio *stdio, const struct rpc_message *message)
{
	if (envelope_is_there(message))
		return true;
	return mcp_session_revision(stdio->legacy) == REVISION_NONE &&
	    (strcmp(message->method, "server/discover") == 0 ||
		strcmp(message->method, "subscriptions/listen") == 0);
}

static bool
envelope_is_good(struct stdio *stdio, const struct rpc_message *message)
{
	struct envelope_fault fault;

	if (envelope_check(message, &fault) == ERR_OK &&
	    envelope_check_version(message, &fault) == ERR_OK)
		return true;
	say_error(stdio, NULL, message->id, fault.code, fault.text,
	    fault.data.len > 0 ? fault.data.data : NULL);
	buf_done(&fault.data);
	return false;
}

/* Hands a request to the core; takes ownership of message. */
static void
request(struct stdio *stdio, struct mcp_session *session,
    struct rpc_message *message, struct answers *answers)
{
	struct line_sink *sink = calloc(1, sizeof(*sink));

	if (sink == NULL) {
		say_error(
		    stdio, answers, message->id, -32603, "out of memory", NULL);
		rpc_message_free(message);
		return;
	}
	sink->sink.ops = &sink_ops;
	sink->stdio = stdio;
	sink->answers = answers;
	if (answers != NULL)
		answers->open++;
	mcp_handle(session, message, &sink->sink);
}

static void
take_message(
    struct stdio *stdio, struct rpc_message *message, struct answers *answers)
{
	if (message->kind == RPC_NOTIFICATION &&
	    strcmp(message->method, "notifications/cancelled") == 0) {
		cancel(stdio, message);
		rpc_message_free(message);
	} else if (message->kind != RPC_REQUEST) {
		mcp_handle(stdio->legacy, message, NULL);
	} else if (answers != NULL || !is_modern(stdio, message)) {
		request(stdio, stdio->legacy, message, answers);
	} else if (stdio->seen_modern = true,
	    !envelope_is_good(stdio, message)) {
		rpc_message_free(message);
	} else if (strcmp(message->method, "subscriptions/listen") == 0) {
		take_listen(stdio, message);
	} else {
		request(stdio, stdio->modern, message, NULL);
	}
}

static void
take_batch(struct stdio *stdio, struct batch *batch)
{
	struct answers *answers;

	if (mcp_session_revision(stdio->legacy) != REVISION_2025_03_26) {
		say_error(stdio, NULL, NULL, -32600,
		    "Invalid Request: this revision has no batches, send one "
		    "message a line",
		    NULL);
		return;
	}
	if ((answers = calloc(1, sizeof(*answers))) == NULL) {
		say_error(stdio, NULL, NULL, -32603, "out of memory", NULL);
		return;
	}
	buf_init(&answers->text, ANSWER_MAX);
	answers->open = 1;
	for (size_t i = 0; i < batch->n; i++) {
		struct batch_item *item = &batch->items[i];

		if (item->message != NULL)
			take_message(stdio, STEAL_PTR(item->message), answers);
		else
			say_fault(stdio, answers, &item->fault);
	}
	answers_close(stdio, answers);
}

static void
take(void *arg, void *what)
{
	struct stdio *stdio = arg;
	struct arrival *arrival = what;

	if (stdio->closing) {
		/* nobody waits for an answer any more */
	} else if (arrival->message != NULL) {
		take_message(stdio, STEAL_PTR(arrival->message), NULL);
	} else if (arrival->batch != NULL) {
		take_batch(stdio, arrival->batch);
	} else {
		say_fault(stdio, NULL, &arrival->fault);
	}
	arrival_free(arrival);
}

/* ---- life ---------------------------------------------------------------- */

static void
ended(void *arg)
{
	struct stdio *stdio = arg;

	if (!stdio->closing)
		stdio->plan.ended(stdio->plan.arg);
}

static const struct lines_ops lines_ops = {
	.read = read_line,
	.take = take,
	.ended = ended,
};

enum err
stdio_open(const struct stdio_plan *plan, struct stdio **ret_stdio)
{
	struct stdio *stdio = calloc(1, sizeof(*stdio));
	struct lines_plan lines = { .loop = plan->loop,
		.in = plan->in,
		.out = plan->out,
		.line_max = plan->conf->body_max,
		.queue_max = plan->conf->stream_queue_max,
		.ops = &lines_ops,
		.arg = stdio };
	enum err rc;

	if (stdio == NULL)
		return ERR_NOMEM;
	stdio->plan = *plan;
	LIST_INIT(&stdio->listens);
	if ((rc = mcp_session_new(plan->mcp, NAME, NAME, &stdio->legacy)) ==
		ERR_OK &&
	    (rc = mcp_session_new(plan->mcp, NAME, NAME, &stdio->modern)) ==
		ERR_OK) {
		mcp_session_stateless(stdio->modern);
		rc = lines_open(&lines, &stdio->lines);
	}
	if (rc != ERR_OK) {
		stdio_close(stdio);
		return rc;
	}
	*ret_stdio = stdio;
	return ERR_OK;
}

void
stdio_close(struct stdio *stdio)
{
	struct listen *listen;

	if (stdio == NULL)
		return;
	while ((listen = LIST_FIRST(&stdio->listens)) != NULL)
		listen_end(stdio, listen, true);
	stdio->closing = true;
	mcp_session_free(stdio->legacy);
	mcp_session_free(stdio->modern);
	if (stdio->lines != NULL)
		lines_stop(stdio->lines);
	lines_close(stdio->lines, FLUSH_MS);
	free(stdio);
}
