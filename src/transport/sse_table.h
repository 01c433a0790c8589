/* The sessions of one process by id; private to the sse transport. */
#ifndef TRANSPORT_SSE_TABLE_H
#define TRANSPORT_SSE_TABLE_H

#include "state/session.h"
#include "transport/sse.h"

struct sse_session {
	struct sse_session *next; /* of the same bucket */
	struct sse *sse;
	struct stream *stream;
	struct mcp_session *mcp; /* owned */
	char id[SESSION_ID_LEN + 1];
};

struct sse_table {
	struct sse_session **buckets; /* owned */
	size_t size;                  /* a power of two, or 0 */
	size_t count;
};

/* Makes room for one more, so that the next add can't fail. ERR_NOMEM. */
enum err sse_table_reserve(struct sse_table *table) MUST_CHECK;

/* Adds a session; sse_table_reserve was called before. */
void sse_table_add(struct sse_table *table, struct sse_session *session);
void sse_table_remove(struct sse_table *table, struct sse_session *session);

/* NULL when there is none. Borrowed. */
struct sse_session *
sse_table_find(const struct sse_table *table, const char *id);

/* Calls each(session, arg) with all; each may remove its session. */
void sse_table_each(struct sse_table *table,
    void (*each)(struct sse_session *session, void *arg), void *arg);

void sse_table_done(struct sse_table *table);

#endif
