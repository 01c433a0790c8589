/* The folder of the store: where it is, what lies in it, and what must go. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "mcp/artifact_private.h"

#define LOCK_WAIT_MS 1000
#define LOCK_LOOK_NS 5000000L
#define TMP_SECONDS \
	600        /* age at which a half-written file is left
				 * over from a dead process */
#define BLOCK 4096 /* what the smallest file takes on disk */

/* ---- where it is --------------------------------------------------------- */

/* Whether a folder is ours alone. The last component is never followed: in
 * /var/tmp anybody may have put a link there. */
static int
folder_open(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    (st.st_mode & 077) == 0 && (st.st_mode & 0700) == 0700)
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

static int
folder_make(const char *dir)
{
	if (mkdir(dir, 0700) != 0 && errno != EEXIST)
		return -1;
	return folder_open(dir);
}

int
store_folder(const struct artifacts *store)
{
	int fd;

	if (store->dir[0] == '\0') {
		errno = ENOTDIR;
		return -1;
	}
	if ((fd = folder_open(store->dir)) >= 0 || errno != ENOENT)
		return fd;
	return folder_make(store->dir);
}

static bool
try_folder(struct artifacts *store, const char *dir)
{
	int fd;

	snprintf(store->dir, sizeof(store->dir), "%s", dir);
	if ((fd = store_folder(store)) < 0)
		return false;
	close(fd);
	return true;
}

/* All instances of a user share the folder that is chosen: some live only for
 * one program, and what they leave must be swept by others. */
static void
choose_folder(struct artifacts *store)
{
	static const char *const places[] = { "/var/tmp", "/tmp" };
	const char *setting = store->conf->artifact_dir;
	char dir[64];

	for (size_t i = 0;
	     setting[0] == '\0' && i < sizeof(places) / sizeof(places[0]);
	     i++) {
		snprintf(dir, sizeof(dir), "%s/python-sandbox-%u", places[i],
		    (unsigned)geteuid());
		if (try_folder(store, dir))
			return;
	}
	if (setting[0] != '\0' && try_folder(store, setting))
		return;
	snprintf(store->why, sizeof(store->why),
	    "no folder for files: %s%s; give uid %u a folder of mode 0700 "
	    "(setting artifact_dir)",
	    setting[0] != '\0' ? setting : "/var/tmp and /tmp can't be used",
	    setting[0] == '\0' ? ""
		: errno == EPERM
		? " belongs to another user or is open to others"
		: " can't be made or opened",
	    (unsigned)geteuid());
	store->dir[0] = '\0';
}

enum err
artifacts_open(
    const struct conf *conf, struct artifacts **ret_store, const char **ret_why)
{
	struct artifacts *store = calloc(1, sizeof(*store));

	if (store == NULL)
		return ERR_NOMEM;
	store->conf = conf;
	if (conf->artifact_bytes == 0)
		snprintf(store->why, sizeof(store->why),
		    "files are not kept "
		    "(setting artifact_bytes)");
	else
		choose_folder(store);
	*ret_why = store->dir[0] == '\0' ? store->why : NULL;
	*ret_store = store;
	return ERR_OK;
}

void
artifacts_close(struct artifacts *store)
{
	free(store);
}

bool
store_expired(const struct artifacts *store, int64_t made, int64_t now)
{
	int64_t time = (int64_t)(store->conf->artifact_time + 999) / 1000;

	/* one from the future, after the clock was set back, must not live
	 * for ever */
	return made + time <= now || made > now + time;
}

/* ---- sums that all processes share --------------------------------------- */

struct usage {
	uint64_t bytes, files;
};

static uint64_t
on_disk(uint64_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* Locks the sums: -1 where another process holds them too long (it may be
 * stopped). Closing unlocks, dying too. */
static int
usage_lock(int folder)
{
	const struct timespec pause = { .tv_nsec = LOCK_LOOK_NS };
	uint64_t until = clock_ms() + LOCK_WAIT_MS;
	CLEANUP_FD int fd = openat(folder, ARTIFACT_USAGE,
	    O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -1;
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if ((errno != EWOULDBLOCK && errno != EINTR) ||
		    clock_ms() >= until)
			return -1;
		nanosleep(&pause, NULL);
	}
	return STEAL_FD(fd);
}

static struct usage
usage_read(int fd)
{
	struct usage usage;

	if (pread(fd, &usage, sizeof(usage), 0) != sizeof(usage))
		return (struct usage){ .bytes = 0 };
	return usage;
}

static void
usage_write(int fd, struct usage usage)
{
	/* what could not be written is found by the next sweep */
	if (pwrite(fd, &usage, sizeof(usage), 0) != sizeof(usage))
		return;
}

/* ---- sweeping ------------------------------------------------------------ */

struct entry {
	char name[ARTIFACT_ID_LEN + 1];
	uint64_t bytes;
	struct timespec used;
};

struct entries {
	struct entry *items; /* owned */
	size_t n, cap;
	struct usage usage;
};

static void
entries_add(struct entries *all, const char *name, const struct stat *st)
{
	struct entry *items = all->items;

	all->usage.bytes += on_disk((uint64_t)st->st_size);
	all->usage.files++;
	if (all->n == all->cap) {
		size_t cap = all->cap == 0 ? 256 : all->cap * 2;

		/* without memory it is counted, but stays */
		if ((items = realloc(items, cap * sizeof(*items))) == NULL)
			return;
		all->items = items;
		all->cap = cap;
	}
	memcpy(items[all->n].name, name, ARTIFACT_ID_LEN + 1);
	items[all->n].bytes = on_disk((uint64_t)st->st_size);
	items[all->n++].used = st->st_atim;
}

static void
look_at(const struct artifacts *store, int folder, const char *name,
    int64_t now, struct entries *all)
{
	bool is_id = artifact_is_id(name) && name[ARTIFACT_ID_LEN] == '\0';
	bool is_tmp = strncmp(name, ARTIFACT_TMP, strlen(ARTIFACT_TMP)) == 0;
	struct stat st;

	if ((!is_id && !is_tmp) ||
	    fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	if (!S_ISREG(st.st_mode) ||
	    (is_tmp ? st.st_mtim.tv_sec + TMP_SECONDS < now
		    : store_expired(store, st.st_mtim.tv_sec, now))) {
		/* gone already: another process sweeps too */
		if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
			return;
	}
	if (is_id) {
		entries_add(all, name, &st);
		return;
	}
	all->usage.bytes += on_disk((uint64_t)st.st_size);
	all->usage.files++;
}

/* Reads the folder, a bounded part of it when somebody filled it up. */
static void
scan(const struct artifacts *store, int folder, struct entries *all)
{
	uint64_t most = store->conf->artifact_files * 2 + 1024;
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_DIR DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	int64_t now = clock_wall();
	const struct dirent *e;

	if (dir == NULL && fd >= 0)
		close(fd);
	while (dir != NULL && most-- > 0 && (e = readdir(dir)) != NULL)
		look_at(store, folder, e->d_name, now, all);
}

static int
by_use(const void *left, const void *right)
{
	const struct timespec *a = &((const struct entry *)left)->used;
	const struct timespec *b = &((const struct entry *)right)->used;

	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

static bool
fits(const struct conf *conf, const struct usage *usage, uint64_t need,
    unsigned part)
{
	/* parts of sixteen: making room makes a little more than is needed,
	 * lest every put sweep */
	return usage->files + (need > 0) <= conf->artifact_files * part / 16 &&
	    usage->bytes + need <= conf->artifact_bytes / 16 * part;
}

static bool
is_full(const struct conf *conf, const struct usage *usage, uint64_t need)
{
	return usage->files + (need > 0) > conf->artifact_files ||
	    usage->bytes + need > conf->artifact_bytes;
}

/* Removes what must go; with the sums locked. */
static struct usage
sweep(const struct artifacts *store, int folder, uint64_t need)
{
	struct entries all = { .n = 0 };

	scan(store, folder, &all);
	if (is_full(store->conf, &all.usage, need)) {
		qsort(all.items, all.n, sizeof(all.items[0]), by_use);
		for (size_t i = 0; i < all.n &&
		     (is_full(store->conf, &all.usage, need) ||
			 !fits(store->conf, &all.usage, need, 15));
		     i++) {
			if (unlinkat(folder, all.items[i].name, 0) != 0 &&
			    errno != ENOENT)
				continue;
			all.usage.bytes -= all.items[i].bytes;
			all.usage.files--;
		}
	}
	free(all.items);
	return all.usage;
}

void
artifacts_sweep(struct artifacts *store)
{
	CLEANUP_FD int folder = store_folder(store);
	CLEANUP_FD int lock = folder >= 0 ? usage_lock(folder) : -1;

	if (lock >= 0)
		usage_write(lock, sweep(store, folder, 0));
}

uint64_t
artifacts_sweep_ms(const struct artifacts *store)
{
	uint64_t ms = store->conf->artifact_time / 4;

	return ms < 1000 ? 1000 : ms > 60000 ? 60000 : ms;
}

void
store_reserve(struct artifacts *store, int folder, uint64_t bytes)
{
	CLEANUP_FD int lock = usage_lock(folder);
	struct usage usage;

	if (lock < 0)
		return;
	usage = usage_read(lock);
	if (is_full(store->conf, &usage, on_disk(bytes)))
		usage = sweep(store, folder, on_disk(bytes));
	usage.bytes += on_disk(bytes);
	usage.files++;
	usage_write(lock, usage);
}

void
store_release(struct artifacts *store, int folder, uint64_t bytes)
{
	CLEANUP_FD int lock = usage_lock(folder);
	struct usage usage;

	(void)store;
	if (lock < 0)
		return;
	usage = usage_read(lock);
	usage.bytes -=
	    usage.bytes < on_disk(bytes) ? usage.bytes : on_disk(bytes);
	usage.files -= usage.files > 0;
	usage_write(lock, usage);
}
