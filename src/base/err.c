#include <stddef.h>

#include "base/err.h"

static const struct err_info table[ERR_COUNT] = {
	[ERR_OK] = { "ok", 200, 0, "no error" },
	[ERR_NOMEM] = { "nomem", 503, -32603, "out of memory" },
	[ERR_SYS] = { "sys", 500, -32603, "a system call failed" },
	[ERR_CONF] = { "conf", 500, -32603, "a setting is wrong" },
	[ERR_INTERNAL] = { "internal", 500, -32603, "internal error" },
	[ERR_LIMIT] = { "limit", 413, -32600, "a limit was reached" },
	[ERR_PARSE] = { "parse", 400, -32600, "malformed input" },
	[ERR_TRUNCATED] = { "truncated", 400, -32600, "the input ended early" },
	[ERR_NOT_FOUND] = { "not_found", 404, -32600, "not found" },
	[ERR_CLOSED] = { "closed", 502, -32603, "the peer is gone" },
	[ERR_TIMEOUT] = { "timeout", 408, -32600, "timed out" },
	[ERR_BUSY] = { "busy", 503, -32603, "busy, try again" },
	[ERR_EXPIRED] = { "expired", 410, -32002, "its time is over" },
	[ERR_HTTP_BAD_REQUEST] = { "http_bad_request", 400, -32600,
	    "bad request" },
	[ERR_HTTP_FORBIDDEN] = { "http_forbidden", 403, -32600, "forbidden" },
	[ERR_HTTP_METHOD] = { "http_method", 405, -32600,
	    "method not allowed" },
	[ERR_HTTP_TOO_LARGE] = { "http_too_large", 413, -32600,
	    "the body is too large" },
	[ERR_HTTP_MEDIA_TYPE] = { "http_media_type", 415, -32600,
	    "unsupported media type" },
	[ERR_HTTP_HEADERS] = { "http_headers", 431, -32600,
	    "the header fields are too large" },
	[ERR_HTTP_UNAVAILABLE] = { "http_unavailable", 503, -32603,
	    "temporarily unavailable" },
	[ERR_RPC_PARSE] = { "rpc_parse", 400, -32700, "Parse error" },
	[ERR_RPC_REQUEST] = { "rpc_request", 400, -32600, "Invalid Request" },
	[ERR_RPC_METHOD] = { "rpc_method", 200, -32601, "Method not found" },
	[ERR_RPC_PARAMS] = { "rpc_params", 200, -32602, "Invalid params" },
};

const struct err_info *
err_info(enum err err)
{
	unsigned i = (unsigned)err;

	return i < ERR_COUNT && table[i].name != NULL ? &table[i]
						      : &table[ERR_INTERNAL];
}
