#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/sse_table.h"

#define FIRST_SIZE 64

/* Ids are random and made by us, so any hash that spreads will do. */
static size_t
bucket_of(const struct sse_table *table, const char *id)
{
	uint64_t h = 14695981039346656037u;

	for (; *id != '\0'; id++)
		h = (h ^ (unsigned char)*id) * 1099511628211u;
	return (size_t)(h ^ h >> 32) & (table->size - 1);
}

static void
put(struct sse_table *table, struct sse_session *session)
{
	struct sse_session **at =
	    &table->buckets[bucket_of(table, session->id)];

	session->next = *at;
	*at = session;
}

enum err
sse_table_reserve(struct sse_table *table)
{
	struct sse_table wide = { .count = table->count };

	if (table->count < table->size)
		return ERR_OK;
	wide.size = table->size == 0 ? FIRST_SIZE : table->size * 2;
	wide.buckets = calloc(wide.size, sizeof(*wide.buckets));
	if (wide.buckets == NULL)
		return ERR_NOMEM;
	for (size_t i = 0; i < table->size; i++) {
		while (table->buckets[i] != NULL) {
			struct sse_session *session = table->buckets[i];

			table->buckets[i] = session->next;
			put(&wide, session);
		}
	}
	free(table->buckets);
	*table = wide;
	return ERR_OK;
}

void
sse_table_add(struct sse_table *table, struct sse_session *session)
{
	put(table, session);
	table->count++;
}

void
sse_table_remove(struct sse_table *table, struct sse_session *session)
{
	struct sse_session **at =
	    &table->buckets[bucket_of(table, session->id)];

	while (*at != NULL && *at != session)
		at = &(*at)->next;
	if (*at == NULL)
		return;
	*at = session->next;
	session->next = NULL;
	table->count--;
}

struct sse_session *
sse_table_find(const struct sse_table *table, const char *id)
{
	struct sse_session *session;

	if (table->size == 0)
		return NULL;
	session = table->buckets[bucket_of(table, id)];
	while (session != NULL && strcmp(session->id, id) != 0)
		session = session->next;
	return session;
}

void
sse_table_each(struct sse_table *table,
    void (*each)(struct sse_session *session, void *arg), void *arg)
{
	for (size_t i = 0; i < table->size; i++) {
		struct sse_session *session = table->buckets[i], *next;

		for (; session != NULL; session = next) {
			next = session->next;
			each(session, arg);
		}
	}
}

void
sse_table_done(struct sse_table *table)
{
	free(table->buckets);
	*table = (struct sse_table){ 0 };
}
