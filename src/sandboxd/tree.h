/*
 * Files in and out of a program's folder. Nothing here follows a link or
 * leaves the folder: names come from clients, contents from programs.
 */
#ifndef SANDBOXD_TREE_H
#define SANDBOXD_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "sandboxd/request.h"

/* Opens path beneath dir (openat2: no links, no other file system). */
int tree_open(int dir, const char *path, int flags, unsigned mode);

/* ---- in ---- */

/* What a file looked like when we had written it. */
struct upload {
	uint64_t inode;
	struct timespec mtime, ctime;
};

/* Writes the request's files beneath dir; ret_uploads has one entry for each.
 * ERR_SYS when one can't be written: *fault (at least 512 bytes) is then what
 * Snekbox says. */
enum err upload_write(int dir, const struct request *req,
    struct upload *ret_uploads, struct buf *fault) MUST_CHECK;

/* ---- out ---- */

struct found {
	char *path; /* owned; any bytes */
	uint64_t size;
	uint64_t inode;
	struct timespec mtime, ctime;
	const char *skip; /* why it is not returned, or NULL */
};

struct collection {
	struct found *files; /* owned; sorted by path */
	size_t n;
	size_t cap;
};

struct collect_rules {
	uint64_t files; /* most that are returned: the newest */
	uint64_t bytes; /* most in sum */
};

/* Lists what the program left in dir and marks what is not returned. Uploaded
 * files that have not changed are not listed at all, nor are names that begin
 * with "_" or "." (as Snekbox has it). The program must have ended. */
enum err
collect_list(struct collection *out, int dir, const struct request *req,
    const struct upload *uploads, const struct collect_rules *rules) MUST_CHECK;
void collection_done(struct collection *out);

/* Opens a listed file for reading; its size may be another than listed only
 * if something is very wrong. -1 when it can't be. */
int collect_open(int dir, const struct found *file, uint64_t *ret_size);

#endif
