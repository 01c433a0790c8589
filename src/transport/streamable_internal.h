/* What the files of the streamable transport share; nobody else includes
 * it. */
#ifndef TRANSPORT_STREAMABLE_INTERNAL_H
#define TRANSPORT_STREAMABLE_INTERNAL_H

#include <sys/queue.h>

#include "transport/event_log.h"
#include "transport/route.h"
#include "transport/streamable.h"

struct post;
struct resume;

LIST_HEAD(post_list, post);
LIST_HEAD(standing_list, standing);
LIST_HEAD(resume_list, resume);

struct streamable {
	const struct conf *conf;
	struct state *state;
	struct mcp *mcp;
	struct event_base *base;
	struct inbox *inbox; /* borrowed, or NULL */
	struct post_list posts;
	struct standing_list standings;
	struct resume_list resumes;
	uint64_t swept_ms, looked_ms;
	unsigned posts_open;
	bool draining;
};

/* ---- streamable.c ---- */

#define NO_SESSION \
	"there is no such session: send initialize without a " \
	"session id"

/* The answer to an exchange is an error; its id is that of the message, or,
 * where that is unknown, null or left out, as the revision has it. data is
 * raw JSON or NULL. In a worker or in the loop. */
void streamable_error(struct exchange *exchange, int status, int code,
    const char *text, const char *data);

/* The value of a header field without blanks around it; NULL when it is
 * absent or empty. ret_value holds size bytes; longer ones are cut. */
const char *streamable_header(const struct exchange *exchange, const char *name,
    char *ret_value, size_t size);

/* Makes the head of an event stream. */
enum err streamable_stream_head(struct http_response *response) MUST_CHECK;

/* Finds the session that the request names. Where there is none, answers the
 * exchange and returns an error. */
enum err streamable_session(
    struct exchange *exchange, struct session_info *ret_info) MUST_CHECK;

void streamable_cancel(
    struct streamable *streamable, const char *session, const char *raw_id);

/* ---- streamable_era.c: in a worker ---- */

/* Whether a request is one of 2026-07-28. */
bool era_is_modern(const struct exchange *exchange);

/* Checks envelope and headers of such a request. Answers it with an error and
 * returns it, in the order that the revision wants. */
enum err era_check(struct exchange *exchange) MUST_CHECK;

/* ---- streamable_call.c ---- */

/* Begins to answer the exchange's message (or batch) by a session: id is
 * SESSION_STREAMABLE's or, for 2026-07-28, anything. Takes ownership of the
 * exchange. fresh: the session is new, made for an initialize. */
void post_begin(struct exchange *exchange, const char *session,
    enum revision revision, bool fresh);

/* Ends a post with an error for each open call. */
void post_fail(struct post *post, const char *text);

/* Ends the posts of sessions that are no more, and keeps the events of the
 * others. */
void post_tick(struct streamable *streamable);

/* Closes the connection of a kept stream, because its client is back. */
void post_supersede(struct streamable *streamable, const char *name);

/* Fails all of a session (NULL: all). */
void post_end_all(
    struct streamable *streamable, const char *session, const char *text);

/* ---- streamable_standing.c ---- */

/* Runs a GET without Last-Event-ID; takes ownership of the exchange. */
void standing_get(struct exchange *exchange, const struct session_info *info);

/* Runs subscriptions/listen; takes ownership of the exchange. */
void standing_listen(struct exchange *exchange);

/* Ends all, or those of one session. */
void standing_end_all(struct streamable *streamable, const char *session);

/* Ends those whose session is no more or has its stream elsewhere. */
void standing_tick(struct streamable *streamable);

/* ---- streamable_resume.c ---- */

/* Runs a GET with Last-Event-ID; takes ownership of the exchange. */
void resume_get(struct exchange *exchange, const struct session_info *info,
    const char *event_id);

void resume_end_all(struct streamable *streamable);

#endif
