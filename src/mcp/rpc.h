/*
 * JSON-RPC 2.0 messages as MCP narrows it. Pure functions: any thread.
 * Ids and progress tokens are kept as raw JSON text, so that they come back
 * digit for digit with their type.
 */
#ifndef MCP_RPC_H
#define MCP_RPC_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/err.h"

/* Bytes of a raw id or progress token, quotes included. */
#define RPC_ID_MAX 255

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

struct rpc_message {
	enum rpc_kind kind;
	char *id;             /* raw JSON text, owned; NULL: notification */
	char *method;         /* owned; NULL for RPC_RESPONSE */
	cJSON *root;          /* the whole message, owned */
	const cJSON *params;  /* an object inside root, or NULL; borrowed */
	char *progress_token; /* raw JSON text, owned; NULL: none asked */
	char *text;           /* the message as it came, owned: for strings
				 * that hold NUL (json_find, json_string) */
	size_t text_len;
};

/* Why a message was refused. */
struct rpc_fault {
	enum err err;            /* ERR_RPC_PARSE, ERR_RPC_REQUEST … */
	char id[RPC_ID_MAX + 1]; /* raw id to answer with; "" when
					 * unknown */
	char text[256];          /* what is wrong and where, for the peer */
	bool notification;       /* a notification or an answer: must not be
				 * answered */
};

/* Parses one message; text is copied. Batches are refused (-32600). Ids and
 * progress tokens are strings or whole numbers of at most RPC_ID_MAX bytes; a
 * progress token of null counts as none. On failure returns fault->err and
 * fills *fault. *ret_message is owned: rpc_message_free. */
enum err rpc_parse(const char *text, size_t len, const struct conf *conf,
    struct rpc_message **ret_message, struct rpc_fault *fault) MUST_CHECK;

/* Releases all but id, method and progress token, once the rest was read. */
void rpc_message_trim(struct rpc_message *message);

/* NULL is accepted. */
void rpc_message_free(struct rpc_message *message);

/* The answer to a refused message, from its fault; ERR_NOT_FOUND when it must
 * not be answered. */
enum err
rpc_fault_answer(struct buf *out, const struct rpc_fault *fault) MUST_CHECK;

/* Appends {"jsonrpc":"2.0","id":ID,"result":RESULT}; both raw JSON. */
enum err
rpc_result(struct buf *out, const char *id, const char *result) MUST_CHECK;

/* Appends an error answer. id NULL or "": null. data raw JSON or NULL. */
enum err rpc_error(struct buf *out, const char *id, int code,
    const char *message, const char *data) MUST_CHECK;

/* Appends a notification; params raw JSON or NULL. */
enum err rpc_notification(
    struct buf *out, const char *method, const char *params) MUST_CHECK;

#endif
