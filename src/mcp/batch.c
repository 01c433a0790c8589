#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "mcp/batch.h"

bool
batch_is(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && memchr(" \t\r\n", text[n], 4) != NULL)
		n++;
	return n < len && text[n] == '[';
}

void
batch_free(struct batch *batch)
{
	if (batch == NULL)
		return;
	for (size_t i = 0; i < batch->n; i++)
		rpc_message_free(batch->items[i].message);
	free(batch);
}

static enum err
refuse(struct rpc_fault *fault, enum err err, const char *text)
{
	*fault = (struct rpc_fault){ .err = err };
	snprintf(fault->text, sizeof(fault->text), "%s", text);
	return err;
}

/* How many items there are; more than BATCH_MAX are not counted on. */
static size_t
count(struct json_span array)
{
	struct json_span item;
	size_t at = 0, n = 0;

	while (n <= BATCH_MAX && json_item(array, &at, &item) == ERR_OK)
		n++;
	return n;
}

static void
parse_items(struct batch *batch, struct json_span array, size_t n,
    const struct conf *conf)
{
	struct json_span span;
	size_t at = 0;

	while (batch->n < n && json_item(array, &at, &span) == ERR_OK) {
		struct batch_item *item = &batch->items[batch->n++];

		if (rpc_parse(span.at, span.len, conf, &item->message,
			&item->fault) != ERR_OK)
			item->message = NULL;
	}
}

enum err
batch_parse(const char *text, size_t len, const struct conf *conf,
    struct batch **ret_batch, struct rpc_fault *fault)
{
	struct json_span array = { text, len };
	struct batch *batch;
	size_t n;

	while (array.len > 0 && *array.at != '[') {
		array.at++;
		array.len--;
	}
	if (json_check(text, len, (unsigned)conf->json_depth, NULL) != ERR_OK)
		return refuse(fault, ERR_RPC_PARSE, "Parse error: not JSON");
	if ((n = count(array)) == 0)
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: the batch is empty");
	if (n > BATCH_MAX)
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: too many messages in a batch");
	batch = calloc(1, sizeof(*batch) + n * sizeof(batch->items[0]));
	if (batch == NULL)
		return refuse(fault, ERR_NOMEM, "out of memory");
	parse_items(batch, array, n, conf);
	*ret_batch = batch;
	return ERR_OK;
}
