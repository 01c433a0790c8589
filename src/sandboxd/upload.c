#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/tree.h"

int
tree_open(int dir, const char *path, int flags, unsigned mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW |
		    O_NOCTTY | O_NONBLOCK),
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
		    RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* Makes the folders above path. They belong to the program, unlike in
 * Snekbox, so that it can write beside what was uploaded. */
static enum err
make_parents(int dir, const char *path)
{
	char part[PATH_MAX];
	struct stat st;

	if (strlen(path) >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return ERR_SYS;
	}
	for (const char *p = path; (p = strchr(p, '/')) != NULL; p++) {
		memcpy(part, path, (size_t)(p - path));
		part[p - path] = '\0';
		if (mkdirat(dir, part, 0755) == 0)
			continue;
		if (errno != EEXIST ||
		    fstatat(dir, part, &st, AT_SYMLINK_NOFOLLOW) != 0)
			return ERR_SYS;
		if (!S_ISDIR(st.st_mode)) {
			errno = EEXIST;
			return ERR_SYS;
		}
	}
	return ERR_OK;
}

static enum err
write_all(int fd, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t written = write(fd, data, n);

		if (written < 0)
			return ERR_SYS;
		data += written;
		n -= (size_t)written;
	}
	return ERR_OK;
}

static enum err
write_file(int dir, const struct request_file *file)
{
	CLEANUP_FD int fd = -1;
	enum err rc;

	if (file->path[0] == '\0') {
		errno = EISDIR;
		return ERR_SYS;
	}
	if ((rc = make_parents(dir, file->path)) != ERR_OK)
		return rc;
	fd = tree_open(dir, file->path, O_WRONLY | O_CREAT | O_TRUNC, 0777);
	if (fd < 0)
		return ERR_SYS;
	/* the mode as Snekbox has it, whatever our umask */
	if (fchmod(fd, 0777) != 0)
		return ERR_SYS;
	return write_all(fd, file->data, file->len);
}

/* Snekbox's words. */
static enum err
describe(struct buf *fault, const struct request_file *file)
{
	const char *name = errno == EISDIR        ? "IsADirectoryError"
	    : errno == EEXIST || errno == ENOTDIR ? "FileExistsError"
						  : "OSError";
	enum err rc;

	if ((rc = buf_printf(fault, "%s: Failed to create file '", name)) !=
		ERR_OK ||
	    (rc = buf_append(fault, file->given, file->given_len)) != ERR_OK ||
	    (rc = buf_puts(fault, "'.")) != ERR_OK)
		return rc;
	return ERR_SYS;
}

enum err
upload_write(int dir, const struct request *req, struct upload *ret_uploads,
    struct buf *fault)
{
	struct stat st;

	for (size_t i = 0; i < req->n_files; i++) {
		if (write_file(dir, &req->files[i]) != ERR_OK)
			return describe(fault, &req->files[i]);
	}
	/* afterwards, since one may have replaced another */
	for (size_t i = 0; i < req->n_files; i++) {
		if (fstatat(
			dir, req->files[i].path, &st, AT_SYMLINK_NOFOLLOW) != 0)
			return describe(fault, &req->files[i]);
		ret_uploads[i] =
		    (struct upload){ st.st_ino, st.st_mtim, st.st_ctim };
	}
	return ERR_OK;
}
