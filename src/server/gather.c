#include <stdlib.h>
#include <string.h>

#include "server/gather.h"

void
gather_init(struct gather *gather)
{
	memset(gather, 0, sizeof(*gather));
}

void
gather_done(struct gather *gather)
{
	free(gather->values);
	gather->values = NULL;
}

void
gather_end(struct gather *gather)
{
	gather->active = false;
}

/* Whether the record under way belongs to the request under way. */
static bool
ours(const struct gather *gather)
{
	return gather->active && gather->record_id == gather->id;
}

static enum gather_event
begin_head(const struct gather *gather, const struct record_head *head)
{
	/* an id may be used again only after END_REQUEST */
	if (head->id == 0 || head->len != sizeof(gather->small) ||
	    (gather->active && head->id == gather->id))
		return GATHER_FAULT;
	return GATHER_MORE;
}

/* A head is complete: what follows from it alone. GATHER_MORE: go on with the
 * content. */
static enum gather_event
head_complete(struct gather *gather, struct gather_step *step)
{
	struct record_head head;

	record_head_decode(gather->head, &head);
	gather->head_have = 0;
	gather->small_have = 0;
	gather->in_record = true;
	gather->type = (uint8_t)head.type;
	gather->record_id = (uint16_t)head.id;
	gather->left = (uint16_t)head.len;
	gather->padding = (uint8_t)head.padding;
	if (head.version != RECORD_VERSION)
		return GATHER_FAULT;
	if (head.type == RECORD_BEGIN_REQUEST)
		return begin_head(gather, &head);
	if (!ours(gather) || head.len == 0)
		return GATHER_MORE;
	if ((head.type == RECORD_PARAMS && gather->params_done) ||
	    (head.type == RECORD_STDIN && !gather->params_done))
		return GATHER_FAULT;
	if (head.type == RECORD_PARAMS ||
	    (head.type == RECORD_STDIN && !gather->stdin_done)) {
		step->record_type = head.type;
		step->len = head.len;
		return GATHER_RECORD;
	}
	return GATHER_MORE;
}

static enum gather_event
reply_end(
    struct gather *gather, enum record_status status, struct gather_step *step)
{
	record_end(step->reply, gather->record_id, status);
	step->len = RECORD_END_SIZE;
	return GATHER_REPLY;
}

static enum gather_event
begin_complete(struct gather *gather, struct gather_step *step)
{
	unsigned role = (unsigned)gather->small[0] << 8 | gather->small[1];

	if (gather->active)
		return reply_end(gather, RECORD_CANT_MPX_CONN, step);
	if (role != RECORD_RESPONDER)
		return reply_end(gather, RECORD_UNKNOWN_ROLE, step);
	gather->id = gather->record_id;
	gather->keep = (gather->small[2] & RECORD_KEEP_CONN) != 0;
	gather->active = true;
	gather->params_done = false;
	gather->stdin_done = false;
	return GATHER_BEGIN;
}

static enum gather_event
values_complete(
    struct gather *gather, unsigned connections, struct gather_step *step)
{
	step->len = record_values(
	    step->reply, gather->values, gather->values_len, connections);
	free(gather->values);
	gather->values = NULL;
	gather->values_len = 0;
	return GATHER_REPLY;
}

static enum gather_event
request_record_complete(struct gather *gather, struct gather_step *step)
{
	bool empty = gather->head[4] == 0 && gather->head[5] == 0;

	if (!ours(gather))
		return GATHER_MORE;
	if (gather->type == RECORD_ABORT_REQUEST)
		return GATHER_ABORT;
	if (gather->type == RECORD_PARAMS && empty) {
		if (gather->params_done)
			return GATHER_FAULT;
		gather->params_done = true;
		step->record_type = RECORD_PARAMS;
		return GATHER_PARAMS_END;
	}
	if (gather->type == RECORD_STDIN && empty && !gather->stdin_done) {
		if (!gather->params_done)
			return GATHER_FAULT;
		gather->stdin_done = true;
		return GATHER_COMPLETE;
	}
	return GATHER_MORE;
}

/* A record is complete, padding and all. */
static enum gather_event
record_complete(
    struct gather *gather, unsigned connections, struct gather_step *step)
{
	gather->in_record = false;
	if (gather->type == RECORD_BEGIN_REQUEST)
		return begin_complete(gather, step);
	if (gather->record_id != 0)
		return request_record_complete(gather, step);
	if (gather->type == RECORD_GET_VALUES)
		return values_complete(gather, connections, step);
	record_unknown(step->reply, gather->type);
	step->len = RECORD_END_SIZE;
	return GATHER_REPLY;
}

/* Keeps the names of GET_VALUES; of too many the rest is not answered. */
static void
values_keep(struct gather *gather, const uint8_t *data, size_t n)
{
	size_t room = GATHER_VALUES_MAX - gather->values_len;

	if (gather->values == NULL &&
	    (gather->values = malloc(GATHER_VALUES_MAX)) == NULL)
		return;
	if (n > room)
		n = room;
	memcpy(gather->values + gather->values_len, data, n);
	gather->values_len = (uint8_t)(gather->values_len + n);
}

/* Takes content of the record under way, n > 0 bytes. */
static enum gather_event
content(struct gather *gather, const uint8_t *data, size_t n,
    struct gather_step *step)
{
	if (n > gather->left)
		n = gather->left;
	gather->left = (uint16_t)(gather->left - n);
	step->used += n;
	if (gather->type == RECORD_BEGIN_REQUEST) {
		memcpy(gather->small + gather->small_have, data, n);
		gather->small_have = (uint8_t)(gather->small_have + n);
		return GATHER_MORE;
	}
	if (gather->type == RECORD_GET_VALUES && gather->record_id == 0) {
		values_keep(gather, data, n);
		return GATHER_MORE;
	}
	if (!ours(gather) ||
	    (gather->type != RECORD_PARAMS &&
		(gather->type != RECORD_STDIN || gather->stdin_done)))
		return GATHER_MORE;
	step->record_type = gather->type;
	step->data = data;
	step->len = n;
	return GATHER_DATA;
}

static size_t
take_head(struct gather *gather, const uint8_t *data, size_t n)
{
	size_t want = (size_t)RECORD_HEAD - gather->head_have;

	if (n > want)
		n = want;
	memcpy(gather->head + gather->head_have, data, n);
	gather->head_have = (uint8_t)(gather->head_have + n);
	return n;
}

static size_t
take_padding(struct gather *gather, size_t n)
{
	if (n > gather->padding)
		n = gather->padding;
	gather->padding = (uint8_t)(gather->padding - n);
	return n;
}

enum gather_event
gather_next(struct gather *gather, const uint8_t *data, size_t n,
    unsigned connections, struct gather_step *ret_step)
{
	struct gather_step *step = ret_step;
	enum gather_event event = GATHER_MORE;

	step->used = 0;
	step->len = 0;
	step->data = NULL;
	while (event == GATHER_MORE) {
		size_t left = n - step->used;
		const uint8_t *at = data + step->used;

		if (!gather->in_record) {
			if (left == 0)
				break;
			step->used += take_head(gather, at, left);
			if (gather->head_have == RECORD_HEAD)
				event = head_complete(gather, step);
		} else if (gather->left > 0) {
			if (left == 0)
				break;
			event = content(gather, at, left, step);
		} else if (gather->padding > 0) {
			if (left == 0)
				break;
			step->used += take_padding(gather, left);
		} else {
			event = record_complete(gather, connections, step);
		}
	}
	return event;
}
