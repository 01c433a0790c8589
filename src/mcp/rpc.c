#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "mcp/rpc.h"

static const char *const path_id[] = { "id", NULL };
static const char *const path_token[] = { "params", "_meta", "progressToken",
	NULL };

static enum err refuse(struct rpc_fault *fault, enum err err, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

static enum err
refuse(struct rpc_fault *fault, enum err err, const char *fmt, ...)
{
	va_list ap;

	fault->err = err;
	va_start(ap, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, ap);
	va_end(ap);
	return err;
}

void
rpc_message_trim(struct rpc_message *message)
{
	free(message->text);
	message->text = NULL;
	message->text_len = 0;
	cJSON_Delete(message->root);
	message->root = NULL;
	message->params = NULL;
}

void
rpc_message_free(struct rpc_message *message)
{
	if (message == NULL)
		return;
	rpc_message_trim(message);
	free(message->id);
	free(message->method);
	free(message->progress_token);
	free(message);
}

static enum err
read_json(struct rpc_message *m, const char *text, size_t len,
    const struct conf *conf, struct rpc_fault *fault)
{
	struct json_fault why;
	enum err rc;

	rc = json_parse(text, len, (unsigned)conf->json_depth, &m->root, &why);
	if (rc == ERR_NOMEM)
		return refuse(fault, ERR_NOMEM, "out of memory");
	if (rc != ERR_OK && len == 0)
		return refuse(
		    fault, ERR_RPC_PARSE, "Parse error: the message is empty");
	if (rc != ERR_OK)
		return refuse(fault, ERR_RPC_PARSE,
		    "Parse error: %s, at byte %zu", why.reason, why.offset);
	if (cJSON_IsArray(m->root))
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: batches are not supported, send one "
		    "message at a time");
	if (!cJSON_IsObject(m->root))
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: a message is an object");
	if ((m->text = malloc(len + 1)) == NULL)
		return refuse(fault, ERR_NOMEM, "out of memory");
	memcpy(m->text, text, len);
	m->text[len] = '\0';
	m->text_len = len;
	return ERR_OK;
}

/* What the schema of every revision allows as an id and as a token. */
static bool
string_or_integer(const cJSON *item)
{
	double value;

	if (cJSON_IsString(item))
		return true;
	if (!cJSON_IsNumber(item))
		return false;
	value = item->valuedouble;
	/* doubles beyond 2^53 have no fraction */
	return isfinite(value) &&
	    (value >= 0x1p53 || value <= -0x1p53 ||
		value == (double)(long long)value);
}

/* Copies the raw text at a path, which is there. */
static enum err
copy_raw(const struct rpc_message *m, const char *const *path, char **ret_raw)
{
	struct json_span span;
	enum err rc = json_find(m->text, m->text_len, path, &span);

	if (rc != ERR_OK)
		return rc;
	if (span.len > RPC_ID_MAX)
		return ERR_LIMIT;
	*ret_raw = strndup(span.at, span.len);
	return *ret_raw != NULL ? ERR_OK : ERR_NOMEM;
}

static enum err
read_id(struct rpc_message *m, struct rpc_fault *fault)
{
	const cJSON *id = json_get(m->root, "id");
	bool error = json_get(m->root, "error") != NULL;
	bool answer = json_get(m->root, "method") == NULL &&
	    (error || json_get(m->root, "result") != NULL);
	enum err rc;

	fault->notification = answer;
	if (id == NULL || (answer && error && cJSON_IsNull(id)))
		return ERR_OK;
	if (!string_or_integer(id))
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: id must be a string or an integer");
	rc = copy_raw(m, path_id, &m->id);
	if (rc == ERR_LIMIT)
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: id is longer than %d bytes", RPC_ID_MAX);
	if (rc != ERR_OK)
		return refuse(fault, rc, "out of memory");
	snprintf(fault->id, sizeof(fault->id), "%s", m->id);
	return ERR_OK;
}

/* The whole method, so that "ping\u0000…" is not taken for "ping". */
static enum err
read_method(struct rpc_message *m)
{
	static const char *const path[] = { "method", NULL };
	CLEANUP_BUF struct buf method = { .max = m->text_len };
	struct json_span span;
	enum err rc;

	if ((rc = json_find(m->text, m->text_len, path, &span)) != ERR_OK ||
	    (rc = json_string(span, &method)) != ERR_OK)
		return rc;
	if (strlen(buf_str(&method)) != method.len)
		return ERR_PARSE;
	m->method = buf_steal(&method, NULL);
	return m->method != NULL ? ERR_OK : ERR_NOMEM;
}

static enum err
read_kind(struct rpc_message *m, struct rpc_fault *fault)
{
	const char *version = json_get_string(m->root, "jsonrpc");
	const cJSON *method = json_get(m->root, "method");
	bool result = json_get(m->root, "result") != NULL;
	bool error = json_get(m->root, "error") != NULL;
	enum err rc;

	m->kind = method == NULL && (result || error) ? RPC_RESPONSE
	    : m->id != NULL                           ? RPC_REQUEST
						      : RPC_NOTIFICATION;
	fault->notification = m->kind == RPC_RESPONSE ||
	    (m->kind == RPC_NOTIFICATION && cJSON_IsString(method));
	if (version == NULL || strcmp(version, "2.0") != 0)
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: jsonrpc must be \"2.0\"");
	if (m->kind == RPC_RESPONSE) {
		if (result == error || (result && m->id == NULL))
			return refuse(fault, ERR_RPC_REQUEST,
			    "Invalid Request: a response has an id and either "
			    "result or error");
		return ERR_OK;
	}
	if (!cJSON_IsString(method) || result || error)
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: method must be a string, without "
		    "result or error beside it");
	if ((rc = read_method(m)) == ERR_PARSE)
		return refuse(fault, ERR_RPC_REQUEST,
		    "Invalid Request: method contains NUL");
	return rc == ERR_OK ? rc : refuse(fault, rc, "out of memory");
}

/* null instead of a missing member is common, and harmless here. */
static const cJSON *
get_present(const cJSON *object, const char *key)
{
	const cJSON *item = json_get(object, key);

	return cJSON_IsNull(item) ? NULL : item;
}

static enum err
read_params(struct rpc_message *m, struct rpc_fault *fault)
{
	const cJSON *params = json_get(m->root, "params"), *meta, *token;
	enum err rc;

	if (params == NULL || m->kind == RPC_RESPONSE)
		return ERR_OK;
	if (!cJSON_IsObject(params))
		return refuse(fault, ERR_RPC_PARAMS,
		    "Invalid params: params must be an object");
	m->params = params;
	if ((meta = get_present(params, "_meta")) == NULL)
		return ERR_OK;
	if (!cJSON_IsObject(meta))
		return refuse(fault, ERR_RPC_PARAMS,
		    "Invalid params: _meta must be an object");
	token = get_present(meta, "progressToken");
	if (token == NULL || m->kind != RPC_REQUEST)
		return ERR_OK;
	if (!string_or_integer(token))
		return refuse(fault, ERR_RPC_PARAMS,
		    "Invalid params: _meta.progressToken must be a string or "
		    "an integer");
	rc = copy_raw(m, path_token, &m->progress_token);
	if (rc == ERR_LIMIT)
		return refuse(fault, ERR_RPC_PARAMS,
		    "Invalid params: _meta.progressToken is longer than %d "
		    "bytes",
		    RPC_ID_MAX);
	return rc == ERR_OK ? rc : refuse(fault, rc, "out of memory");
}

enum err
rpc_parse(const char *text, size_t len, const struct conf *conf,
    struct rpc_message **ret_message, struct rpc_fault *fault)
{
	struct rpc_message *m = calloc(1, sizeof(*m));
	enum err rc;

	*fault = (struct rpc_fault){ .err = ERR_OK };
	if (m == NULL)
		return refuse(fault, ERR_NOMEM, "out of memory");
	if ((rc = read_json(m, text, len, conf, fault)) == ERR_OK &&
	    (rc = read_id(m, fault)) == ERR_OK &&
	    (rc = read_kind(m, fault)) == ERR_OK &&
	    (rc = read_params(m, fault)) == ERR_OK)
		*ret_message = m;
	else
		rpc_message_free(m);
	return rc;
}

enum err
rpc_fault_answer(struct buf *out, const struct rpc_fault *fault)
{
	if (fault->notification)
		return ERR_NOT_FOUND;
	return rpc_error(
	    out, fault->id, err_info(fault->err)->rpc_code, fault->text, NULL);
}

static enum err
begin(struct buf *out, const char *id)
{
	return buf_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%s,",
	    id != NULL && *id != '\0' ? id : "null");
}

/* Takes back what was appended when something went wrong. */
static enum err
settle(struct buf *out, size_t before, enum err rc)
{
	if (rc != ERR_OK && out->data != NULL) {
		out->len = before;
		out->data[before] = '\0';
	}
	return rc;
}

enum err
rpc_result(struct buf *out, const char *id, const char *result)
{
	size_t before = out->len;
	enum err rc;

	if ((rc = begin(out, id)) == ERR_OK &&
	    (rc = buf_puts(out, "\"result\":")) == ERR_OK &&
	    (rc = buf_puts(out, result)) == ERR_OK)
		rc = buf_putc(out, '}');
	return settle(out, before, rc);
}

enum err
rpc_error(struct buf *out, const char *id, int code, const char *message,
    const char *data)
{
	size_t before = out->len;
	enum err rc;

	if ((rc = begin(out, id)) == ERR_OK &&
	    (rc = buf_printf(
		 out, "\"error\":{\"code\":%d,\"message\":", code)) == ERR_OK &&
	    (rc = json_quote(out, message, strlen(message))) == ERR_OK &&
	    (data == NULL ||
		((rc = buf_puts(out, ",\"data\":")) == ERR_OK &&
		    (rc = buf_puts(out, data)) == ERR_OK)))
		rc = buf_puts(out, "}}");
	return settle(out, before, rc);
}

enum err
rpc_notification(struct buf *out, const char *method, const char *params)
{
	size_t before = out->len;
	enum err rc;

	if ((rc = buf_puts(out, "{\"jsonrpc\":\"2.0\",\"method\":")) ==
		ERR_OK &&
	    (rc = json_quote(out, method, strlen(method))) == ERR_OK &&
	    (params == NULL ||
		((rc = buf_puts(out, ",\"params\":")) == ERR_OK &&
		    (rc = buf_puts(out, params)) == ERR_OK)))
		rc = buf_putc(out, '}');
	return settle(out, before, rc);
}
