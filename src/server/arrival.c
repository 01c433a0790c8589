#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "server/arrival.h"

static enum err
store(struct arrival *arrival, const void *data, size_t n)
{
	const char *at = data;

	while (n > 0) {
		ssize_t done = write(arrival->fd, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return ERR_SYS;
		at += done;
		n -= (size_t)done;
		arrival->stored += (size_t)done;
	}
	return ERR_OK;
}

static enum err
store_head(struct arrival *arrival, unsigned type, unsigned id, size_t len)
{
	uint8_t head[RECORD_HEAD];

	record_head_encode(head, (enum record_type)type, id, len);
	return store(arrival, head, sizeof(head));
}

static enum err
store_begin(struct arrival *arrival, unsigned id)
{
	static const uint8_t body[8] = { 0, RECORD_RESPONDER };
	enum err rc;

	rc = store_head(arrival, RECORD_BEGIN_REQUEST, id, sizeof(body));
	return rc == ERR_OK ? store(arrival, body, sizeof(body)) : rc;
}

enum err
arrival_new(const struct conf *conf, unsigned id, struct arrival **ret_arrival)
{
	struct arrival *arrival = calloc(1, sizeof(*arrival));

	if (arrival == NULL)
		return ERR_NOMEM;
	arrival->conf = conf;
	arrival->fd = memfd_create("request", MFD_CLOEXEC);
	if (arrival->fd < 0 || store_begin(arrival, id) != ERR_OK) {
		arrival_free(arrival);
		return ERR_SYS;
	}
	*ret_arrival = arrival;
	return ERR_OK;
}

void
arrival_free(struct arrival *arrival)
{
	if (arrival == NULL)
		return;
	if (arrival->fd >= 0)
		close(arrival->fd);
	free(arrival);
}

enum err
arrival_record(struct arrival *arrival, unsigned type, unsigned id, size_t len)
{
	const struct conf *conf = arrival->conf;
	size_t *sum =
	    type == RECORD_PARAMS ? &arrival->params_len : &arrival->body_len;

	if (type == RECORD_PARAMS && len > conf->header_max - *sum)
		return ERR_HTTP_HEADERS;
	if (type == RECORD_STDIN && len > conf->body_max - *sum)
		return ERR_HTTP_TOO_LARGE;
	/* a body in records of one byte each must not take nine times its
	 * length */
	if (arrival->stored > 2 * (conf->header_max + conf->body_max))
		return ERR_HTTP_TOO_LARGE;
	if (type == RECORD_PARAMS && len == 0 &&
	    !params_complete(&arrival->params))
		return ERR_PARSE;
	*sum += len;
	return store_head(arrival, type, id, len);
}

enum err
arrival_data(
    struct arrival *arrival, unsigned type, const uint8_t *data, size_t n)
{
	enum err rc;

	if (type == RECORD_PARAMS &&
	    (rc = params_take(&arrival->params, data, n,
		 arrival->conf->header_max)) != ERR_OK)
		return rc;
	return store(arrival, data, n);
}

enum err
arrival_finish(struct arrival *arrival, int *ret_fd, size_t *ret_body_len)
{
	if (lseek(arrival->fd, 0, SEEK_SET) != 0)
		return ERR_SYS;
	*ret_body_len = arrival->body_len;
	*ret_fd = STEAL_FD(arrival->fd);
	return ERR_OK;
}
