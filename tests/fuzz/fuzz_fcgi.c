/* Whatever a connection brings, in whatever pieces: the gatherer must tell the
 * same for every way of cutting it, and what it calls a complete request
 * libfcgi must take. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "server/arrival.h"
#include "server/fcgi.h"

#define MUST(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct conf conf;

struct run {
	struct gather gather;
	struct arrival *arrival;
	struct buf trace;
	unsigned parsed;
};

static void
start(void)
{
	static bool started;

	if (started)
		return;
	MUST(fcgi_init() == ERR_OK && conf_init(&conf) == ERR_OK);
	conf.header_max = 4096;
	conf.body_max = 4096;
	started = true;
}

static void
parse(struct run *run)
{
	struct http_request request;
	size_t body_len;
	enum err rc;
	int fd;

	MUST(arrival_record(run->arrival, RECORD_STDIN, run->gather.id, 0) ==
	    ERR_OK);
	MUST(arrival_finish(run->arrival, &fd, &body_len) == ERR_OK);
	http_request_init(&request, conf.header_max + 4096, conf.body_max);
	rc = fcgi_parse(fd, body_len, &request);
	MUST(rc == ERR_OK && request.body.len == body_len);
	http_request_done(&request);
	arrival_free(run->arrival);
	run->arrival = NULL;
}

/* What is refused goes on being gathered: how much of it had come by then is
 * for the pieces to say. */
static void
store(struct run *run, enum err rc)
{
	if (rc == ERR_OK)
		return;
	MUST(rc == ERR_HTTP_HEADERS || rc == ERR_HTTP_TOO_LARGE ||
	    rc == ERR_PARSE);
	arrival_free(run->arrival);
	run->arrival = NULL;
}

static void
trace(struct run *run, const void *data, size_t n)
{
	MUST(buf_append(&run->trace, data, n) == ERR_OK);
}

static void
handle(struct run *run, enum gather_event event, const struct gather_step *step)
{
	unsigned id = run->gather.id;

	if (event == GATHER_DATA)
		trace(run, step->data, step->len);
	else if (event != GATHER_MORE)
		trace(run, &event, sizeof(event));
	if (event == GATHER_REPLY) {
		MUST(step->len <= sizeof(step->reply));
		trace(run, step->reply, step->len);
	}
	if (event == GATHER_BEGIN || event == GATHER_ABORT) {
		arrival_free(run->arrival);
		run->arrival = NULL;
	}
	if (event == GATHER_ABORT || event == GATHER_COMPLETE)
		gather_end(&run->gather);
	if (event == GATHER_BEGIN)
		MUST(arrival_new(&conf, id, &run->arrival) == ERR_OK);
	if (run->arrival == NULL)
		return;
	if (event == GATHER_RECORD)
		store(run,
		    arrival_record(
			run->arrival, step->record_type, id, step->len));
	else if (event == GATHER_DATA)
		store(run,
		    arrival_data(run->arrival, step->record_type, step->data,
			step->len));
	else if (event == GATHER_PARAMS_END)
		store(run, arrival_record(run->arrival, RECORD_PARAMS, id, 0));
	else if (event == GATHER_COMPLETE)
		parse(run);
}

static void
feed(struct run *run, const uint8_t *data, size_t size, size_t piece)
{
	enum gather_event event = GATHER_MORE;
	struct gather_step step;

	memset(run, 0, sizeof(*run));
	gather_init(&run->gather);
	buf_init(&run->trace, 1 << 24);
	while (size > 0 && event != GATHER_FAULT) {
		size_t n = size < piece ? size : piece;

		do {
			event = gather_next(&run->gather, data, n, 7, &step);
			MUST(step.used <= n);
			handle(run, event, &step);
			data += step.used;
			size -= step.used;
			n -= step.used;
		} while (event != GATHER_MORE && event != GATHER_FAULT);
		MUST(event == GATHER_FAULT || n == 0);
	}
	arrival_free(run->arrival);
	gather_done(&run->gather);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run whole, cut;

	start();
	feed(&whole, data, size, size);
	feed(&cut, data, size, size > 0 ? 1 + data[0] % 11 : 1);
	MUST(whole.trace.len == cut.trace.len);
	MUST(memcmp(buf_str(&whole.trace), buf_str(&cut.trace),
		 cut.trace.len) == 0);
	buf_done(&whole.trace);
	buf_done(&cut.trace);
	return 0;
}
