#include <stdlib.h>

#include "transport/exchange.h"
#include "transport/route.h"

enum {
	/* beside the bytes that header_max counts: what libfcgi adds, and a
	 * NUL for every variable (its lengths took two bytes at least) */
	FIELDS_SLACK = 4096
};

struct exchange *
exchange_new(struct transport *transport)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	if (exchange == NULL)
		return NULL;
	exchange->transport = transport;
	http_request_init(&exchange->request,
	    transport->conf->header_max + FIELDS_SLACK,
	    transport->conf->body_max);
	http_response_init(&exchange->response);
	return exchange;
}

void
exchange_free(struct exchange *exchange)
{
	if (exchange == NULL)
		return;
	rpc_message_free(exchange->message);
	batch_free(exchange->batch);
	http_request_done(&exchange->request);
	http_response_done(&exchange->response);
	free(exchange);
}

void
exchange_answer(struct exchange *exchange)
{
	exchange->peer->ops->answer(exchange->peer, exchange);
	exchange_free(exchange);
}

void
exchange_refuse(struct exchange *exchange, enum err err, const char *text)
{
	http_error_of(&exchange->response, err, text);
	exchange_answer(exchange);
}

enum err
exchange_streamable(struct exchange *exchange)
{
	return exchange->peer->ops->streamable(exchange->peer);
}

enum err
exchange_stream(struct exchange *exchange, const struct stream_events *events,
    void *arg, struct stream **ret_stream)
{
	enum err rc = exchange->peer->ops->stream(
	    exchange->peer, exchange, events, arg, ret_stream);

	if (rc == ERR_OK)
		exchange_free(exchange);
	return rc;
}
