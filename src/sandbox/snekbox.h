/*
 * The client of Snekbox and sandboxd: libcurl multi inside an event loop. The
 * only file that knows libcurl. Speaks HTTP/1.1 over TCP and Unix sockets,
 * Content-Length always, Accept: application/json. Retries nothing that may
 * have run.
 */
#ifndef SANDBOX_SNEKBOX_H
#define SANDBOX_SNEKBOX_H

#include <event2/event.h>

#include "sandbox/outcome.h"
#include "sandbox/sandbox.h"

struct snekbox;     /* all endpoints of a process */
struct snekbox_run; /* one request under way */

/* Reads the setting snekbox_url and prepares the endpoints; conf is borrowed
 * until snekbox_close. Connects to nothing. ERR_CONF with the reason in
 * *fault. */
enum err snekbox_open(const struct conf *conf, struct event_base *base,
    struct conf_fault *fault, struct snekbox **ret_snekbox) MUST_CHECK;

/* Drops all runs without callbacks. NULL is accepted. */
void snekbox_close(struct snekbox *snekbox);

/* The version of libcurl, for --version. Borrowed, lives for ever. */
const char *snekbox_version(void);

unsigned snekbox_endpoints(const struct snekbox *snekbox);

/* The address of an endpoint, for people. Borrowed. */
const char *snekbox_name(const struct snekbox *snekbox, unsigned endpoint);

/* Whether the endpoint ends a run when its connection closes: sandboxd does
 * (Unix sockets), a Snekbox does not. */
bool snekbox_stops(const struct snekbox *snekbox, unsigned endpoint);

struct snekbox_callbacks {
	/* The request is on its way: the run's clock starts. May be NULL. */
	void (*started)(void *arg);
	/* The end, exactly once. reply and all it points to are borrowed during
	 * the call, but for *body, which may be taken: set it to NULL. */
	void (*done)(
	    void *arg, const struct sandbox_reply *reply, struct buf *body);
};

/* Sends body to an endpoint; takes ownership of what body holds (it is empty
 * afterwards, on failure too). timeout_ms bounds the whole request; callbacks
 * is borrowed until the end. Callbacks come from the loop, never before this
 * returns. *ret_run is borrowed until done returns. */
enum err
snekbox_submit(struct snekbox *snekbox, unsigned endpoint, struct buf *body,
    uint64_t timeout_ms, const struct snekbox_callbacks *callbacks, void *arg,
    struct snekbox_run **ret_run) MUST_CHECK;

/* Hands the request's body back, for another endpoint. Only inside done, and
 * only to be sent again when transport is ERR_NOT_FOUND. ret_body is owned:
 * buf_done. */
void snekbox_take_body(struct snekbox_run *run, struct buf *ret_body);

/* Ends the request at once; no callback comes any more. Not to be called
 * inside or after the run's own done: there the run ends by itself. */
void snekbox_cancel(struct snekbox_run *run);

#endif
