#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/tree.h"
#include "base/utf8.h"

#define DEPTH_MAX 100
#define COMPARE_BYTES 65536

struct walk {
	struct collection *out;
	const struct request *req;
	const struct upload *uploads;
	int root;
};

static enum err
walk_dir(struct walk *walk, int dir, const char *prefix, unsigned depth);

static bool
same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Whether the file still holds what was uploaded. */
static bool
same_content(
    int root, const struct found *file, const struct request_file *sent)
{
	char part[COMPARE_BYTES];
	CLEANUP_FD int fd = -1;
	uint64_t size;
	size_t at = 0;
	ssize_t n;

	if (file->size != sent->len ||
	    (fd = collect_open(root, file, &size)) < 0)
		return false;
	while ((n = read(fd, part, sizeof(part))) > 0) {
		if ((size_t)n > sent->len - at ||
		    memcmp(part, sent->data + at, (size_t)n) != 0)
			return false;
		at += (size_t)n;
	}
	return n == 0 && at == sent->len;
}

/* An uploaded file counts as new when it was written to, also with the same
 * content; not when only its mode changed or somebody looked at it. */
static bool
is_unchanged(const struct walk *walk, const struct found *file)
{
	for (size_t i = walk->req->n_files; i-- > 0;) {
		const struct request_file *sent = &walk->req->files[i];
		const struct upload *up = &walk->uploads[i];

		if (up->inode != file->inode ||
		    strcmp(sent->path, file->path) != 0)
			continue;
		if (!same_time(&up->mtime, &file->mtime))
			return false;
		/* the program can set the time of modification back */
		return same_time(&up->ctime, &file->ctime) ||
		    same_content(walk->root, file, sent);
	}
	return false;
}

static enum err
add(struct collection *out, struct found *file)
{
	if (out->n == out->cap) {
		size_t cap = out->cap == 0 ? 64 : out->cap * 2;
		struct found *files = realloc(out->files, cap * sizeof(*files));

		if (files == NULL) {
			free(file->path);
			return ERR_NOMEM;
		}
		out->files = files;
		out->cap = cap;
	}
	out->files[out->n++] = *file;
	return ERR_OK;
}

static enum err
add_path(struct walk *walk, char *path, const struct stat *st, const char *skip)
{
	struct found file = {
		.path = path,
		.size = (uint64_t)st->st_size,
		.inode = st->st_ino,
		.mtime = st->st_mtim,
		.ctime = st->st_ctim,
		.skip = skip,
	};

	if (skip == NULL && !S_ISREG(st->st_mode))
		file.skip =
		    S_ISLNK(st->st_mode) ? "a link" : "not a regular file";
	if (file.skip == NULL && is_unchanged(walk, &file)) {
		free(path);
		return ERR_OK;
	}
	if (file.skip == NULL && utf8_valid(path, strlen(path)) != strlen(path))
		file.skip = "its name is not UTF-8";
	return add(walk->out, &file);
}

static enum err
walk_entry(struct walk *walk, int dir, const char *prefix, const char *name,
    unsigned depth)
{
	CLEANUP_FREE char *path = NULL;
	struct stat st;
	int sub;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return ERR_OK;
	if (asprintf(&path, "%s%s%s", prefix, prefix[0] != '\0' ? "/" : "",
		name) < 0) {
		path = NULL;
		return ERR_NOMEM;
	}
	if (!S_ISDIR(st.st_mode))
		return name[0] == '_'
		    ? ERR_OK
		    : add_path(walk, STEAL_PTR(path), &st, NULL);
	if (depth == DEPTH_MAX)
		return add_path(
		    walk, STEAL_PTR(path), &st, "a folder nested too deeply");
	sub = tree_open(dir, name, O_RDONLY | O_DIRECTORY, 0);
	return sub < 0 ? ERR_OK : walk_dir(walk, sub, path, depth + 1);
}

/* Takes dir over. */
static enum err
walk_dir(struct walk *walk, int fd, const char *prefix, unsigned depth)
{
	CLEANUP_DIR DIR *d = fdopendir(fd);
	struct dirent *e;
	enum err rc = ERR_OK;

	if (d == NULL) {
		close(fd);
		return ERR_SYS;
	}
	while (rc == ERR_OK && (e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.')
			rc = walk_entry(walk, fd, prefix, e->d_name, depth);
	}
	return rc;
}

static int
newest_first(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->mtime.tv_sec != y->mtime.tv_sec)
		return x->mtime.tv_sec < y->mtime.tv_sec ? 1 : -1;
	if (x->mtime.tv_nsec != y->mtime.tv_nsec)
		return x->mtime.tv_nsec < y->mtime.tv_nsec ? 1 : -1;
	/* a clock tick holds several files; inodes rise */
	return x->inode < y->inode ? 1 : x->inode > y->inode ? -1 : 0;
}

static int
by_path(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static void
choose(struct collection *out, const struct collect_rules *rules)
{
	uint64_t files = 0, bytes = 0;

	if (out->n == 0)
		return;
	qsort(out->files, out->n, sizeof(*out->files), newest_first);
	for (size_t i = 0; i < out->n; i++) {
		struct found *file = &out->files[i];

		if (file->skip != NULL)
			continue;
		if (files >= rules->files)
			file->skip = "too many files";
		else if (file->size > rules->bytes - bytes)
			file->skip = "too large";
		if (file->skip != NULL)
			continue;
		files++;
		bytes += file->size;
	}
	qsort(out->files, out->n, sizeof(*out->files), by_path);
}

enum err
collect_list(struct collection *out, int dir, const struct request *req,
    const struct upload *uploads, const struct collect_rules *rules)
{
	struct walk walk = { out, req, uploads, dir };
	int root = tree_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);
	enum err rc;

	*out = (struct collection){ .n = 0 };
	if (root < 0)
		return ERR_SYS;
	if ((rc = walk_dir(&walk, root, "", 0)) != ERR_OK)
		return rc;
	choose(out, rules);
	return ERR_OK;
}

void
collection_done(struct collection *out)
{
	for (size_t i = 0; i < out->n; i++)
		free(out->files[i].path);
	free(out->files);
	*out = (struct collection){ .n = 0 };
}

int
collect_open(int dir, const struct found *file, uint64_t *ret_size)
{
	CLEANUP_FD int fd = tree_open(dir, file->path, O_RDONLY, 0);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return -1;
	*ret_size = (uint64_t)st.st_size;
	return STEAL_FD(fd);
}
