/*
 * Parsing of a gathered request by libfcgi. The only file that knows it.
 */
#ifndef SERVER_FCGI_H
#define SERVER_FCGI_H

#include "base/err.h"
#include "transport/http.h"

/* Once, before the first fcgi_parse and before signal handlers are set: libfcgi
 * sets its own. ERR_SYS. */
enum err fcgi_init(void) MUST_CHECK;

/* Reads the records of one whole request from a file, at its current offset,
 * and fills fields and body of an initialized request; takes ownership of fd.
 * ERR_PARSE when libfcgi does not take it; ERR_TRUNCATED when it ends early;
 * ERR_LIMIT, ERR_NOMEM. Any thread. */
enum err
fcgi_parse(int fd, size_t body_len, struct http_request *request) MUST_CHECK;

#endif
