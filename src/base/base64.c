#include <nettle/base64.h>

#include "base/base64.h"

enum err
base64_encode(struct buf *out, const void *data, size_t n)
{
	size_t len = BASE64_ENCODE_RAW_LENGTH(n);
	enum err rc;

	if ((rc = buf_reserve(out, len)) != ERR_OK)
		return rc;
	base64_encode_raw(out->data + out->len, n, data);
	out->len += len;
	out->data[out->len] = '\0';
	return ERR_OK;
}

enum err
base64_decode(struct buf *out, const char *text, size_t n)
{
	struct base64_decode_ctx ctx;
	size_t len = BASE64_DECODE_LENGTH(n);
	enum err rc;

	if ((rc = buf_reserve(out, len)) != ERR_OK)
		return rc;
	base64_decode_init(&ctx);
	if (!base64_decode_update(
		&ctx, &len, (uint8_t *)out->data + out->len, n, text) ||
	    !base64_decode_final(&ctx)) {
		out->data[out->len] = '\0';
		return ERR_PARSE;
	}
	out->len += len;
	out->data[out->len] = '\0';
	return ERR_OK;
}
