/* Notes beside the artifacts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rnd.h"
#include "mcp/artifact_private.h"

#define NAME_MAX_BYTES 64

static void
note_name(char *ret_name, const char *kind, const char *name)
{
	snprintf(ret_name, NAME_MAX_BYTES, "%s.%s", kind, name);
}

static bool
write_note(int folder, const char *tmp, const char *text, size_t len)
{
	CLEANUP_FD int fd = openat(folder, tmp,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd >= 0 && write(fd, text, len) == (ssize_t)len;
}

enum err
artifact_note_put(
    struct artifacts *store, const char *name, const char *text, size_t len)
{
	CLEANUP_FD int folder = store_folder(store);
	char tmp[NAME_MAX_BYTES], note[NAME_MAX_BYTES], random[17];

	if (folder < 0 || rnd_hex(random, 8) != ERR_OK)
		return ERR_SYS;
	note_name(note, "note", name);
	snprintf(tmp, sizeof(tmp), ARTIFACT_TMP "%s", random);
	if (write_note(folder, tmp, text, len) &&
	    renameat(folder, tmp, folder, note) == 0)
		return ERR_OK;
	unlinkat(folder, tmp, 0);
	return ERR_SYS;
}

enum err
artifact_note_get(struct artifacts *store, const char *name, struct buf *out,
    int64_t *ret_age)
{
	CLEANUP_FD int folder = store_folder(store);
	CLEANUP_FD int fd = -1;
	char note[NAME_MAX_BYTES];
	struct stat st;
	enum err rc;

	note_name(note, "note", name);
	if (folder >= 0)
		fd = openat(folder, note,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid())
		return ERR_NOT_FOUND;
	if ((rc = buf_reserve(out, (size_t)st.st_size)) != ERR_OK)
		return rc;
	if (st.st_size > 0) {
		if (pread(fd, out->data + out->len, (size_t)st.st_size, 0) !=
		    st.st_size)
			return ERR_SYS;
		out->len += (size_t)st.st_size;
		out->data[out->len] = '\0';
	}
	*ret_age = clock_wall() - st.st_mtim.tv_sec;
	return ERR_OK;
}

enum err
artifact_note_claim(struct artifacts *store, const char *name, int *ret_claim)
{
	CLEANUP_FD int folder = store_folder(store);
	CLEANUP_FD int fd = -1;
	char claim[NAME_MAX_BYTES];

	note_name(claim, "claim", name);
	if (folder >= 0)
		fd = openat(folder, claim,
		    O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return ERR_SYS;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? ERR_BUSY : ERR_SYS;
	*ret_claim = STEAL_FD(fd);
	return ERR_OK;
}
