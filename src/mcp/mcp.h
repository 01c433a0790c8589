/*
 * The core that all transports share: sessions, methods, the tool. It knows no
 * transport and no FastCGI; what must go up goes through struct sink and
 * struct mcp_host. All functions are called from the loop's thread unless
 * said otherwise.
 */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include <event2/event.h>

#include "base/conf.h"
#include "mcp/revision.h"
#include "mcp/rpc.h"
#include "sandbox/snekbox.h"
#include "state/shm.h"

struct mcp;         /* the core of one process */
struct mcp_session; /* one peer */
struct artifacts;

/* Where the answer to one request goes: implemented by a transport. Exactly
 * one of reply and drop is called, last; after it the core does not touch the
 * sink again. json is one line without a line feed, borrowed. */
struct sink {
	const struct sink_ops *ops;
};

struct sink_ops {
	/* A notification that belongs to the request (progress). */
	void (*notify)(struct sink *sink, const char *json, size_t len);
	/* The answer, a result or an error. It may end the session, as notify
	 * may. */
	void (*reply)(struct sink *sink, const char *json, size_t len);
	/* No answer will come: cancelled, or the session has ended. */
	void (*drop)(struct sink *sink);
};

/* What the core needs of the program around it. */
struct mcp_host {
	struct event_base *base;
	/* Runs work(arg) in another thread, then done(arg) in the loop. Never
	 * fails; done comes after offload has returned. */
	void (*offload)(struct mcp_host *host, void (*work)(void *arg),
	    void (*done)(void *arg), void *arg);
	/* Rings the inbox of a process (INBOX_RING); for itself too. */
	void (*ring)(struct mcp_host *host, uint64_t process);
	/* The last call under way has ended; for shutting down. May be
	 * NULL. */
	void (*idle)(struct mcp_host *host);
};

/* All arguments are borrowed until mcp_close. */
enum err
mcp_open(const struct conf *conf, struct state *state, struct snekbox *snekbox,
    struct mcp_host *host, struct mcp **ret_mcp) MUST_CHECK;

/* Every session must have been freed, and all that was given to offload must
 * have come back (mcp_calls is 0). NULL is accepted. */
void mcp_close(struct mcp *mcp);

/* A peer begins; where the table knows the session as initialized, it is. id is the session's id in state/session.h (copied), client
 * its key for fairness (copied). *ret_session is owned: mcp_session_free. */
enum err mcp_session_new(struct mcp *mcp, const char *id, const char *client,
    struct mcp_session **ret_session) MUST_CHECK;

/* Tells under which path the peer reaches us ("" or "/…", plain ASCII), for the
 * addresses of files; the setting public_url goes before it. Without memory
 * there are no addresses. */
void mcp_session_prefix(struct mcp_session *session, const char *prefix);

/* A peer ends: its calls are cancelled, their sinks dropped at once. */
void mcp_session_free(struct mcp_session *session);

/* Handles one message; takes ownership of message, and of sink when the
 * message is a request (NULL otherwise). May answer before it returns. */
void mcp_handle(struct mcp_session *session, struct rpc_message *message,
    struct sink *sink);

/* Makes a new session serve requests of 2026-07-28, which need no
 * initialize. */
void mcp_session_stateless(struct mcp_session *session);

/* REVISION_NONE before initialize. */
enum revision mcp_session_revision(const struct mcp_session *session);

/* Cancels the call of this typed raw id that runs here for a session of that
 * id, whichever mcp_session it is; its sink is dropped. Returns whether there
 * was one. */
bool mcp_cancel(struct mcp *mcp, const char *session_id, const char *raw_id);

/* Whether a call of the session is under way. */
bool mcp_session_busy(const struct mcp_session *session);

/* Calls under way in this process, cancelled ones included that a worker still
 * holds. */
unsigned mcp_calls(const struct mcp *mcp);

/* The store of results' files. Borrowed until mcp_close. */
struct artifacts *mcp_artifacts(const struct mcp *mcp);

/* To be called at once when the loop begins, and then about once a second. */
void mcp_tick(struct mcp *mcp);

/* An INBOX_RING came: waiting calls look at the queue. */
void mcp_ring(struct mcp *mcp);

/* The process is to end: new calls are refused with a clear error. */
void mcp_drain(struct mcp *mcp);

#endif
