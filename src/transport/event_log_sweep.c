/* Old event files go; declared in event_log.h. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "transport/event_log.h"
#include "transport/event_log_file.h"

#define FILES_MAX 65536

struct file {
	int64_t touched_ms;
	uint64_t bytes;
	char name[80];
};

struct files {
	struct file *list; /* owned */
	size_t n, room;
	uint64_t bytes;
};

static int64_t
wall_ms(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000 + t->tv_nsec / 1000000;
}

static int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return wall_ms(&now);
}

static void
files_add(struct files *files, int folder, const char *name)
{
	struct file *file;
	struct stat st;

	if (strlen(name) >= sizeof(file->name) || files->n >= FILES_MAX ||
	    fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	if (files->n == files->room) {
		size_t room = files->room == 0 ? 64 : files->room * 2;
		void *more = realloc(files->list, room * sizeof(*file));

		if (more == NULL)
			return;
		files->list = more;
		files->room = room;
	}
	file = &files->list[files->n++];
	file->touched_ms = wall_ms(&st.st_mtim);
	file->bytes = (uint64_t)st.st_size;
	files->bytes += file->bytes;
	snprintf(file->name, sizeof(file->name), "%s", name);
}

static int
older_first(const void *a, const void *b)
{
	const struct file *one = a, *other = b;

	return (one->touched_ms > other->touched_ms) -
	    (one->touched_ms < other->touched_ms);
}

static bool
is_event_file(const char *name)
{
	return strncmp(name, EVENT_LOG_PREFIX, strlen(EVENT_LOG_PREFIX)) == 0;
}

void
event_log_sweep(const char *dir, uint64_t time_ms, uint64_t bytes_max)
{
	CLEANUP_DIR DIR *folder = opendir(dir);
	int64_t limit = now_ms() - (int64_t)time_ms;
	struct files files = { 0 };
	struct dirent *entry;

	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		if (is_event_file(entry->d_name))
			files_add(&files, dirfd(folder), entry->d_name);
	}
	if (files.n > 0)
		qsort(files.list, files.n, sizeof(files.list[0]), older_first);
	for (size_t i = 0; i < files.n; i++) {
		const struct file *file = &files.list[i];

		if (file->touched_ms >= limit && files.bytes <= bytes_max)
			break;
		unlinkat(dirfd(folder), file->name, 0);
		files.bytes -= file->bytes;
	}
	free(files.list);
}

/* Removes the files whose names begin so. */
static void
remove_all(const char *dir, const char *prefix)
{
	CLEANUP_DIR DIR *folder = opendir(dir);
	struct dirent *entry;

	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
			unlinkat(dirfd(folder), entry->d_name, 0);
	}
}

void
event_log_forget(const char *dir, const char *session)
{
	char prefix[sizeof(EVENT_LOG_PREFIX) + EVENT_LOG_SESSION + 1];

	snprintf(prefix, sizeof(prefix), EVENT_LOG_PREFIX "%.*s-",
	    EVENT_LOG_SESSION, session);
	remove_all(dir, prefix);
}

void
event_log_leave(const char *dir)
{
	CLEANUP_DIR DIR *folder = opendir(dir);
	struct dirent *entry;

	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		size_t n = strlen(entry->d_name);

		if (n > 5 && strcmp(entry->d_name + n - 5, ".sock") == 0)
			return;
	}
	remove_all(dir, EVENT_LOG_PREFIX);
}
