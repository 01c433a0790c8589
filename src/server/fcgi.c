#include <limits.h>
#include <unistd.h>

#include <fcgiapp.h>

#include "server/fcgi.h"

enum err
fcgi_init(void)
{
	return FCGX_Init() == 0 ? ERR_OK : ERR_SYS;
}

static enum err
take_body(FCGX_Stream *in, size_t body_len, struct buf *body)
{
	enum err rc;

	if ((rc = buf_reserve(body, body_len)) != ERR_OK)
		return rc;
	while (body->len < body_len) {
		size_t left = body_len - body->len;
		int n = FCGX_GetStr(body->data + body->len,
		    left < INT_MAX ? (int)left : INT_MAX, in);

		if (n <= 0)
			break;
		body->len += (size_t)n;
	}
	body->data[body->len] = '\0';
	/* a short count alone would look like the end of the body */
	if (FCGX_GetChar(in) != -1 || FCGX_GetError(in) != 0)
		return ERR_TRUNCATED;
	return body->len == body_len ? ERR_OK : ERR_TRUNCATED;
}

static enum err
take(FCGX_Request *fcgx, size_t body_len, struct http_request *request)
{
	enum err rc;

	for (char **field = fcgx->envp; *field != NULL; field++) {
		if ((rc = http_request_add(request, *field)) != ERR_OK)
			return rc;
	}
	return take_body(fcgx->in, body_len, &request->body);
}

enum err
fcgi_parse(int fd, size_t body_len, struct http_request *request)
{
	FCGX_Request fcgx;
	enum err rc;

	if (FCGX_InitRequest(&fcgx, -1, 0) != 0) {
		close(fd);
		return ERR_INTERNAL;
	}
	/* libfcgi finds a "connection" that is open already: our file. With
	 * keepConnection it does not close it before it has begun. */
	fcgx.ipcFd = fd;
	fcgx.keepConnection = 1;
	if (FCGX_Accept_r(&fcgx) < 0)
		return ERR_PARSE; /* and the file is closed */
	rc = take(&fcgx, body_len, request);
	FCGX_Free(&fcgx, 1);
	return rc;
}
