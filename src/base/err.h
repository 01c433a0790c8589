/*
 * What can go wrong, as one enumeration. Everything fallible returns
 * "enum err" and is marked MUST_CHECK; out-parameters come last, are named
 * ret_… and stay untouched unless ERR_OK is returned.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define MUST_CHECK __attribute__((warn_unused_result))

enum err {
	ERR_OK = 0,
	/* the process and its surroundings */
	ERR_NOMEM,    /* memory could not be had */
	ERR_SYS,      /* a system call failed; errno says why */
	ERR_CONF,     /* a setting is wrong; the log says which */
	ERR_INTERNAL, /* a promise of our own was broken */
	/* what came in */
	ERR_LIMIT,     /* a buffer, list or depth reached its maximum */
	ERR_PARSE,     /* not the format it should be */
	ERR_TRUNCATED, /* ended before its announced length */
	ERR_NOT_FOUND, /* there is no such thing */
	ERR_CLOSED,    /* the peer is gone */
	ERR_TIMEOUT,   /* did not happen in time */
	ERR_BUSY,      /* a bounded queue is full; try again */
	ERR_EXPIRED,   /* was there, but its time is over */
	/* HTTP */
	ERR_HTTP_BAD_REQUEST,
	ERR_HTTP_FORBIDDEN,
	ERR_HTTP_METHOD,
	ERR_HTTP_TOO_LARGE,
	ERR_HTTP_MEDIA_TYPE,
	ERR_HTTP_HEADERS,
	ERR_HTTP_UNAVAILABLE,
	/* JSON-RPC */
	ERR_RPC_PARSE,
	ERR_RPC_REQUEST,
	ERR_RPC_METHOD,
	ERR_RPC_PARAMS,
	ERR_COUNT
};

struct err_info {
	const char *name; /* stable, for logs: "rpc_params" */
	int http_status;  /* what an HTTP peer is told */
	int rpc_code;     /* what a JSON-RPC peer is told */
	const char *text; /* one sentence without a full stop */
};

/* The row of an error. Never NULL, also for values out of range. Borrowed,
 * lives for ever. */
const struct err_info *err_info(enum err err);

#endif
