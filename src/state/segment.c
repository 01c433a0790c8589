/* The segment: made, checked, mapped. Every step with files is here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/rnd.h"
#include "state/table.h"

#define NAMES_MAX 8
#define ATTEMPTS_MAX 50
#define CREATE_LOCK_MS 3000
#define SIZE_MAX_SLOTS (1u << 21)

static size_t
rounded(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

static uint32_t
bucket_count(uint32_t sessions)
{
	uint32_t n = 16;

	while (n < sessions)
		n *= 2;
	return n;
}

/* Fills in where everything is when the segment begins at base (NULL to learn
 * the size alone). */
static size_t
layout(struct table *t, char *base, const struct table_sizes *sizes)
{
	size_t at = rounded(sizeof(struct table_header));

	t->sizes = *sizes;
	t->buckets = bucket_count(sizes->slots[POOL_SESSION]);
	for (int kind = 0; kind < POOL_COUNT; kind++) {
		if (base != NULL)
			t->slots[kind] = base + at;
		at += rounded(sizes->slots[kind] * table_stride[kind]);
	}
	if (base != NULL) {
		t->head = (struct table_header *)(void *)base;
		t->texts = (struct session_text *)(void *)(base + at);
	}
	at += rounded(sizes->slots[POOL_SESSION] * sizeof(struct session_text));
	if (base != NULL)
		t->index = (uint32_t *)(void *)(base + at);
	return at + rounded(t->buckets * sizeof(uint32_t));
}

/* Whether an open file may be believed: ours, and nobody else could write or
 * read it. */
enum file_kind { FILE_OURS, FILE_SPOILT, FILE_FOREIGN };

static enum file_kind
file_kind(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid())
		return FILE_FOREIGN;
	return (st.st_mode & 077) == 0 ? FILE_OURS : FILE_SPOILT;
}

/* Removes the name if it still stands for the file that we saw. */
static void
unlink_same(const char *name, int fd)
{
	CLEANUP_FD int now = shm_open(name, O_RDONLY, 0);
	struct stat a, b;

	if (now >= 0 && fstat(fd, &a) == 0 && fstat(now, &b) == 0 &&
	    a.st_ino == b.st_ino && a.st_dev == b.st_dev)
		shm_unlink(name);
}

/* Opens the first of the names that is ours, else makes the first that is
 * free: somebody else's file under our name must not stop us. ret_name holds
 * 128 bytes. -1 with errno; EAGAIN to try again. */
static int
open_name(const char *base, char *ret_name)
{
	int missing = -1, fd;

	for (int i = 0; i < NAMES_MAX; i++) {
		snprintf(ret_name, 128, i == 0 ? "%s" : "%s.%d", base, i);
		fd = shm_open(ret_name, O_RDWR, 0);
		if (fd < 0 && errno == ENOENT && missing < 0)
			missing = i;
		if (fd < 0)
			continue;
		if (file_kind(fd) != FILE_FOREIGN)
			return fd;
		close(fd);
	}
	if (missing < 0) {
		errno = EEXIST;
		return -1;
	}
	snprintf(ret_name, 128, missing == 0 ? "%s" : "%s.%d", base, missing);
	fd = shm_open(ret_name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 && errno == EEXIST)
		errno = EAGAIN;
	return fd;
}

/* The creation lock. ERR_TIMEOUT when its holder does not go on. */
static enum err
lock_file(int fd)
{
	uint64_t until = clock_ms() + CREATE_LOCK_MS;
	struct timespec nap = { 0, 5000000 };

	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return ERR_SYS;
		if (clock_ms() > until)
			return ERR_TIMEOUT;
		nanosleep(&nap, NULL);
	}
	return ERR_OK;
}

static enum err
mutex_make(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;
	int rc;

	if (pthread_mutexattr_init(&attr) != 0)
		return ERR_SYS;
	rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (rc == 0)
		rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (rc == 0)
		rc = pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return rc == 0 ? ERR_OK : ERR_SYS;
}

static enum err
map_file(struct table *t, const struct table_sizes *sizes)
{
	char *base;

	t->size = layout(t, NULL, sizes);
	base =
	    mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (base == MAP_FAILED)
		return ERR_SYS;
	layout(t, base, sizes);
	return ERR_OK;
}

/* Makes an empty table of the file. The pages are had now: a full /dev/shm is
 * an error here and would be a SIGBUS later. */
static enum err
make(struct table *t, const struct table_sizes *sizes)
{
	size_t size = layout(t, NULL, sizes);
	struct table_header *h;

	if (ftruncate(t->fd, 0) != 0)
		return ERR_SYS;
	if ((errno = posix_fallocate(t->fd, 0, (off_t)size)) != 0)
		return ERR_SYS;
	table_point();
	if (map_file(t, sizes) != ERR_OK)
		return ERR_SYS;
	h = t->head;
	if (rnd_bytes(&h->id, sizeof(h->id)) != ERR_OK ||
	    mutex_make(&h->lock) != ERR_OK)
		return ERR_SYS;
	for (int kind = 0; kind < POOL_COUNT; kind++)
		STORE(h->pools[kind].size, sizes->slots[kind]);
	STORE(h->version, TABLE_VERSION);
	STORE(h->buckets, t->buckets);
	STORE(h->size, size);
	/* numbers keep rising when one segment follows another */
	STORE(h->ticket_next, clock_ms() << 20);
	STORE(h->grant_next, clock_ms() << 20);
	STORE(h->magic, TABLE_MAGIC);
	return ERR_OK;
}

/* The header of a file that somebody made before. ERR_PARSE. */
static enum err
read_sizes(int fd, struct table_sizes *ret_sizes)
{
	struct table_header h;
	struct table probe = { .fd = -1 };
	struct table_sizes sizes;
	struct stat st;

	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) ||
	    fstat(fd, &st) != 0 || h.magic != TABLE_MAGIC ||
	    h.version != TABLE_VERSION)
		return ERR_PARSE;
	for (int kind = 0; kind < POOL_COUNT; kind++) {
		sizes.slots[kind] = h.pools[kind].size;
		if (sizes.slots[kind] == 0 ||
		    sizes.slots[kind] > SIZE_MAX_SLOTS)
			return ERR_PARSE;
	}
	if (layout(&probe, NULL, &sizes) != h.size ||
	    h.size != (uint64_t)st.st_size || h.buckets != probe.buckets)
		return ERR_PARSE;
	*ret_sizes = sizes;
	return ERR_OK;
}

/* Whether a process registered in it lives. Needs no lock: nobody registers
 * while we have the creation lock. */
static bool
inhabited(const struct table *t)
{
	uint32_t high = table_high(t, POOL_PROCESS);

	for (uint32_t i = 0; i < high; i++) {
		const struct process_slot *p = table_process(t, i);

		if (p->slot.state == SLOT_USED && !peer_gone(p->pid, p->start))
			return true;
	}
	return false;
}

/* Brings the content in order. ERR_PARSE when it can't be believed. */
static enum err
settle(struct table *t)
{
	enum err rc;

	if (table_lock(t) != ERR_OK)
		return ERR_PARSE;
	if ((rc = table_check_locked(t)) == ERR_INTERNAL) {
		table_repair_locked(t);
		rc = table_check_locked(t);
	}
	table_unlock(t);
	return rc == ERR_OK ? ERR_OK : ERR_PARSE;
}

/* Maps what is there. ERR_PARSE when it must be replaced. */
static enum err
adopt(struct table *t, const struct table_sizes *wanted)
{
	struct table_sizes sizes;

	if (read_sizes(t->fd, &sizes) != ERR_OK)
		return ERR_PARSE;
	if (map_file(t, &sizes) != ERR_OK)
		return ERR_SYS;
	/* changed settings hold once nobody uses the old table */
	if (memcmp(&sizes, wanted, sizeof(sizes)) != 0 && !inhabited(t))
		return ERR_PARSE;
	return settle(t);
}

/* One attempt with an open file; ERR_BUSY: begin again. */
static enum err
attach(struct table *t, const char *name, const struct table_sizes *wanted)
{
	enum err rc = lock_file(t->fd);
	struct stat st;

	if (rc == ERR_SYS || fstat(t->fd, &st) != 0)
		return ERR_SYS;
	if (st.st_nlink == 0)
		return ERR_BUSY;
	if (rc == ERR_TIMEOUT || file_kind(t->fd) != FILE_OURS) {
		unlink_same(name, t->fd);
		return ERR_BUSY;
	}
	/* empty: we made it, or its maker died at once */
	rc = st.st_size == 0 ? make(t, wanted) : adopt(t, wanted);
	if (rc != ERR_PARSE)
		return rc;
	unlink_same(name, t->fd);
	return ERR_BUSY;
}

enum err
segment_open(const char *name, const struct table_sizes *wanted,
    struct table **ret_table)
{
	char full[128];
	struct table *t;
	enum err rc;

	for (int i = 0; i < ATTEMPTS_MAX; i++) {
		int fd = open_name(name, full);

		if (fd < 0 && errno == EAGAIN)
			continue;
		if (fd < 0)
			break;
		if ((t = calloc(1, sizeof(*t))) == NULL) {
			close(fd);
			return ERR_NOMEM;
		}
		t->fd = fd;
		if ((rc = attach(t, full, wanted)) == ERR_OK) {
			*ret_table = t;
			return ERR_OK;
		}
		segment_close(t);
		if (rc != ERR_BUSY)
			break;
	}
	state_fault_set("shared memory %s can't be had: %s; free /dev/shm or "
			"set state_name",
	    name, strerror(errno));
	return ERR_SYS;
}

void
segment_ready(struct table *t)
{
	flock(t->fd, LOCK_UN);
}

void
segment_retire(struct table *t)
{
	close(t->fd);
	t->fd = -1;
}

void
segment_close(struct table *t)
{
	if (t == NULL)
		return;
	if (t->head != NULL)
		munmap(t->head, t->size);
	if (t->fd >= 0)
		close(t->fd);
	free(t);
}

bool
segment_unlinked(const struct table *t)
{
	struct stat st;

	return fstat(t->fd, &st) == 0 && st.st_nlink == 0;
}
