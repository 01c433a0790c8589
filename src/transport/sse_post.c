/* POST /messages/: here, or on its way to the process that has the stream. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "state/metrics.h"
#include "transport/route.h"
#include "transport/sse_internal.h"

#define SESSION_PARAM_MAX 129
#define NO_SESSION "there is no such session: open a new stream"

static void
answer_accepted(struct exchange *exchange)
{
	exchange->response.status = 202;
	exchange_answer(exchange);
}

/* ---- the session is here ---- */

static void
post_here(struct exchange *exchange, struct sse_session *session)
{
	struct rpc_message *message;
	struct sink *sink;
	enum err rc;

	if ((rc = sse_sink_new(session, exchange->message, &sink)) != ERR_OK) {
		exchange_refuse(exchange, rc, NULL);
		return;
	}
	message = STEAL_PTR(exchange->message);
	/* first 202, then the answer: clients may expect this order */
	answer_accepted(exchange);
	sse_deliver(session, message, sink);
}

/* ---- the session is elsewhere ---- */

static void
forwarded(void *arg, struct inbox_sent sent)
{
	struct exchange *exchange = arg;

	if (sent.err == ERR_OK && sent.ack == INBOX_ACCEPTED)
		answer_accepted(exchange);
	else if (sent.err == ERR_NOT_FOUND ||
	    (sent.err == ERR_OK && sent.ack == INBOX_UNKNOWN))
		exchange_refuse(exchange, ERR_NOT_FOUND, NO_SESSION);
	else
		exchange_refuse(exchange, ERR_BUSY, NULL);
}

/* The process that holds a session's stream. One that the table does not know
 * may be of another version of the program, with a table of its own, during an
 * upgrade: its inbox knows. */
static enum err
find_owner(struct sse *sse, const char *id, uint64_t *ret_owner)
{
	struct session_info info;
	enum err rc;

	if ((rc = session_find(sse->state, id, &info)) == ERR_NOT_FOUND)
		rc = session_process(id, &info.owner);
	else if (rc == ERR_OK && info.kind != SESSION_SSE)
		rc = ERR_NOT_FOUND;
	if (rc != ERR_OK)
		return rc;
	if (info.owner == state_process(sse->state))
		return ERR_NOT_FOUND;
	*ret_owner = info.owner;
	return ERR_OK;
}

static void
post_elsewhere(struct exchange *exchange, const char *id, uint64_t owner)
{
	struct sse *sse = exchange->transport->sse;
	const struct buf *body = &exchange->request.body;
	enum err rc = ERR_BUSY;

	rpc_message_free(STEAL_PTR(exchange->message));
	if (sse->inbox != NULL)
		rc = inbox_send(sse->inbox, owner, INBOX_POST, id,
		    buf_str(body), body->len, forwarded, exchange);
	if (rc != ERR_OK)
		exchange_refuse(exchange, ERR_BUSY, NULL);
	else
		metric_add(sse->state, METRIC_forwarded, 1);
}

static void
post_run(struct exchange *exchange)
{
	struct sse *sse = exchange->transport->sse;
	char id[SESSION_PARAM_MAX];
	struct sse_session *session;
	uint64_t owner;

	/* sse_post saw that it is there */
	if (http_query(exchange->request.query, "session_id", id, sizeof(id)) !=
	    ERR_OK) {
		exchange_refuse(exchange, ERR_INTERNAL, NULL);
		return;
	}
	if ((session = sse_table_find(&sse->sessions, id)) != NULL)
		post_here(exchange, session);
	else if (find_owner(sse, id, &owner) != ERR_OK)
		exchange_refuse(exchange, ERR_NOT_FOUND, NO_SESSION);
	else
		post_elsewhere(exchange, id, owner);
}

/* ---- in a worker ---- */

/* Whether a session id has a form that some server may have given: what has
 * not is a malformed request (400), the rest may be unknown (404). */
static bool
is_token(const char *id)
{
	return id[0] != '\0' &&
	    id[strspn(id,
		"0123456789abcdefghijklmnopqrstu"
		"vwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_")] == '\0';
}

static enum err
check_session(struct exchange *exchange)
{
	char id[SESSION_PARAM_MAX];
	enum err rc =
	    http_query(exchange->request.query, "session_id", id, sizeof(id));

	if (rc == ERR_OK && is_token(id))
		return ERR_OK;
	http_error_of(&exchange->response, ERR_HTTP_BAD_REQUEST,
	    rc == ERR_NOT_FOUND ? "session_id is missing"
				: "session_id is malformed");
	return ERR_HTTP_BAD_REQUEST;
}

void
sse_post(struct exchange *exchange)
{
	const struct buf *body = &exchange->request.body;
	struct rpc_fault fault;

	if (check_session(exchange) != ERR_OK)
		return;
	if (rpc_parse(buf_str(body), body->len, exchange->transport->conf,
		&exchange->message, &fault) != ERR_OK)
		http_error(&exchange->response, 400, fault.id,
		    err_info(fault.err)->rpc_code, fault.text);
	else
		exchange->run = post_run;
}

/* ---- messages from other processes ---- */

struct sse_incoming {
	struct sse_incoming *next, **prev; /* sse->incoming */
	struct sse *sse;
	struct inbox_message *message; /* NULL: the inbox has closed */
	struct rpc_message *rpc;
	struct sink *sink;
	char id[SESSION_ID_LEN + 1];
	char *body;
	size_t len;
};

static void
incoming_free(struct sse_incoming *incoming)
{
	*incoming->prev = incoming->next;
	if (incoming->next != NULL)
		incoming->next->prev = incoming->prev;
	rpc_message_free(incoming->rpc);
	sse_sink_free(incoming->sink);
	free(incoming->body);
	free(incoming);
}

/* The sender knows that we have it: now it may be executed. */
static void
incoming_written(void *arg)
{
	struct sse_incoming *incoming = arg;
	struct sse_session *session =
	    sse_table_find(&incoming->sse->sessions, incoming->id);

	if (session != NULL)
		sse_deliver(session, STEAL_PTR(incoming->rpc),
		    STEAL_PTR(incoming->sink));
	incoming_free(incoming);
}

static void
incoming_lost(void *arg)
{
	incoming_free(arg);
}

static void
incoming_refuse(struct sse_incoming *incoming, enum inbox_ack ack)
{
	inbox_ack(STEAL_PTR(incoming->message), ack, NULL, NULL, NULL);
	incoming_free(incoming);
}

/* In a worker. */
static void
incoming_parse(void *arg)
{
	struct sse_incoming *incoming = arg;
	struct rpc_fault fault;

	/* the sender has parsed it too: a failure is one of memory */
	if (rpc_parse(incoming->body, incoming->len, incoming->sse->conf,
		&incoming->rpc, &fault) != ERR_OK)
		incoming->rpc = NULL;
}

static void
incoming_parsed(void *arg)
{
	struct sse_incoming *incoming = arg;
	struct sse_session *session =
	    sse_table_find(&incoming->sse->sessions, incoming->id);

	if (incoming->message == NULL)
		incoming_free(incoming);
	else if (session == NULL)
		incoming_refuse(incoming, INBOX_UNKNOWN);
	else if (incoming->rpc == NULL ||
	    sse_sink_new(session, incoming->rpc, &incoming->sink) != ERR_OK)
		incoming_refuse(incoming, INBOX_REFUSED);
	else
		inbox_ack(STEAL_PTR(incoming->message), INBOX_ACCEPTED,
		    incoming_written, incoming_lost, incoming);
}

static struct sse_incoming *
incoming_new(struct sse *sse, struct inbox_message *message,
    const struct inbox_view *view)
{
	struct sse_incoming *incoming = calloc(1, sizeof(*incoming));

	if (incoming == NULL ||
	    (incoming->body = malloc(view->len + 1)) == NULL) {
		free(incoming);
		return NULL;
	}
	memcpy(incoming->body, view->body, view->len);
	incoming->body[view->len] = '\0';
	incoming->len = view->len;
	memcpy(incoming->id, view->session, sizeof(incoming->id));
	incoming->sse = sse;
	incoming->message = message;
	incoming->next = sse->incoming;
	incoming->prev = &sse->incoming;
	if (sse->incoming != NULL)
		sse->incoming->prev = &incoming->next;
	sse->incoming = incoming;
	return incoming;
}

void
sse_received(struct sse *sse, struct inbox_message *message,
    const struct inbox_view *view)
{
	struct sse_incoming *incoming;

	if (strlen(view->session) != SESSION_ID_LEN ||
	    sse_table_find(&sse->sessions, view->session) == NULL)
		inbox_ack(message, INBOX_UNKNOWN, NULL, NULL, NULL);
	else if ((incoming = incoming_new(sse, message, view)) == NULL)
		inbox_ack(message, INBOX_REFUSED, NULL, NULL, NULL);
	else
		sse->host->offload(
		    sse->host, incoming_parse, incoming_parsed, incoming);
}

void
sse_set_inbox(struct sse *sse, struct inbox *inbox)
{
	sse->inbox = inbox;
	if (inbox != NULL)
		return;
	for (struct sse_incoming *incoming = sse->incoming; incoming != NULL;
	     incoming = incoming->next)
		incoming->message = NULL;
}

void
sse_incoming_done(struct sse *sse)
{
	while (sse->incoming != NULL)
		incoming_free(sse->incoming);
}
