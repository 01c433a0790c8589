/* Keeping and opening artifacts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/rnd.h"
#include "mcp/artifact_private.h"

/* A file: MAGIC, eight hexadecimal digits (the length of the metadata), the
 * metadata as a JSON object, the content. */
#define MAGIC "PSARTIF1"
#define HEAD_BYTES 16
#define META_MAX 65536
#define META_DEPTH 2
#define TMP_NAME_MAX (sizeof(ARTIFACT_TMP) + ARTIFACT_ID_LEN)

/* ---- keeping ------------------------------------------------------------- */

static enum err
put_member(struct buf *out, const char *key, const char *text)
{
	enum err rc;

	if ((rc = buf_puts(out, key)) != ERR_OK)
		return rc;
	return json_quote(out, text, strlen(text));
}

static enum err
make_head(const struct artifact_new *new, struct buf *out)
{
	CLEANUP_BUF struct buf meta = { .max = META_MAX };
	enum err rc;

	if ((rc = put_member(&meta, "{\"name\":", new->name)) != ERR_OK ||
	    (rc = put_member(&meta, ",\"type\":", new->type)) != ERR_OK ||
	    (rc = put_member(&meta, ",\"owner\":", new->owner)) != ERR_OK ||
	    (rc = buf_printf(&meta, ",\"bytes\":%zu}", new->len)) != ERR_OK ||
	    (rc = buf_printf(out, MAGIC "%08zx", meta.len)) != ERR_OK)
		return rc;
	return buf_append(out, meta.data, meta.len);
}

static bool
write_all(int fd, const void *data, size_t n)
{
	const char *at = data;

	while (n > 0) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		at += done;
		n -= (size_t)done;
	}
	return true;
}

/* Writes the file under its other name, then gives it its own. */
static bool
write_file(int folder, const char *id, const struct buf *head,
    const struct artifact_new *new)
{
	char tmp[TMP_NAME_MAX];
	int fd, saved;
	bool done;

	snprintf(tmp, sizeof(tmp), ARTIFACT_TMP "%s", id);
	fd = openat(folder, tmp,
	    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	done = write_all(fd, head->data, head->len) &&
	    write_all(fd, new->data, new->len);
	saved = errno;
	/* some file systems tell of a full disk only here */
	if (close(fd) != 0 && done) {
		done = false;
		saved = errno;
	}
	if (done && renameat(folder, tmp, folder, id) == 0)
		return true;
	if (done)
		saved = errno;
	unlinkat(folder, tmp, 0);
	errno = saved;
	return false;
}

static enum err
refuse(struct artifact_fault *fault, enum err err, const char *what,
    const char *why)
{
	snprintf(fault->text, sizeof(fault->text), "%s%s", what, why);
	return err;
}

static const char *
disk_fault(void)
{
	switch (errno) {
	case ENOSPC:
	case EDQUOT:
		return "the server's disk is full";
	case EMFILE:
	case ENFILE:
		return "the server has no descriptor free";
	default:
		return "the server's store can't be written (setting "
		       "artifact_dir)";
	}
}

static enum err
check_size(
    const struct artifacts *store, size_t len, struct artifact_fault *fault)
{
	const struct conf *conf = store->conf;

	if (store->dir[0] == '\0')
		return refuse(fault, ERR_SYS, "",
		    conf->artifact_bytes == 0
			? store->why
			: "the server has no folder for files "
			  "(setting artifact_dir)");
	if (len > conf->artifact_max)
		return refuse(fault, ERR_LIMIT, "larger than the server keeps",
		    " (setting artifact_max)");
	if (len + META_MAX + HEAD_BYTES > conf->artifact_bytes)
		return refuse(fault, ERR_LIMIT,
		    "larger than all that the "
		    "server keeps",
		    " (setting artifact_bytes)");
	return ERR_OK;
}

enum err
artifact_put(struct artifacts *store, const struct artifact_new *new,
    char *ret_id, struct artifact_fault *fault)
{
	CLEANUP_BUF struct buf head = { .max = META_MAX + HEAD_BYTES };
	char id[ARTIFACT_ID_LEN + 1];
	CLEANUP_FD int folder = -1;
	enum err rc;

	if ((rc = check_size(store, new->len, fault)) != ERR_OK)
		return rc;
	if ((rc = make_head(new, &head)) != ERR_OK ||
	    (rc = rnd_hex(id, ARTIFACT_ID_LEN / 2)) != ERR_OK)
		return refuse(fault, rc, "not kept: ", err_info(rc)->text);
	if ((folder = store_folder(store)) < 0)
		return refuse(fault, ERR_SYS, "not kept: ", disk_fault());
	store_reserve(store, folder, head.len + new->len);
	if (!write_file(folder, id, &head, new)) {
		const char *why = disk_fault();

		store_release(store, folder, head.len + new->len);
		return refuse(fault, ERR_SYS, "not kept: ", why);
	}
	memcpy(ret_id, id, sizeof(id));
	return ERR_OK;
}

/* ---- opening ------------------------------------------------------------- */

static bool
read_all(int fd, void *data, size_t n, uint64_t at)
{
	char *to = data;

	while (n > 0) {
		ssize_t got = pread(fd, to, n, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		to += got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	return true;
}

/* Reads the length of the metadata. */
static bool
read_head(int fd, size_t *ret_len)
{
	char head[HEAD_BYTES + 1] = "";
	char *end;

	if (!read_all(fd, head, HEAD_BYTES, 0) ||
	    memcmp(head, MAGIC, strlen(MAGIC)) != 0)
		return false;
	*ret_len = strtoul(head + strlen(MAGIC), &end, 16);
	return *end == '\0' && *ret_len > 0 && *ret_len <= META_MAX;
}

static bool
copy_member(const cJSON *meta, const char *key, char **ret_text)
{
	const char *text = json_get_string(meta, key);

	return text != NULL && (*ret_text = strdup(text)) != NULL;
}

/* A file that is not as we write them is none. */
static enum err
read_meta(struct artifact *artifact, uint64_t file_len)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_JSON cJSON *meta = NULL;
	const cJSON *bytes;
	size_t len;

	if (!read_head(artifact->fd, &len) || file_len < HEAD_BYTES + len)
		return ERR_NOT_FOUND;
	if ((text = malloc(len)) == NULL)
		return ERR_NOMEM;
	if (!read_all(artifact->fd, text, len, HEAD_BYTES) ||
	    json_parse(text, len, META_DEPTH, &meta, NULL) != ERR_OK)
		return ERR_NOT_FOUND;
	artifact->at = HEAD_BYTES + len;
	artifact->len = file_len - artifact->at;
	bytes = json_get(meta, "bytes");
	if (!cJSON_IsNumber(bytes) ||
	    bytes->valuedouble != (double)artifact->len)
		return ERR_NOT_FOUND;
	if (!copy_member(meta, "name", &artifact->name) ||
	    !copy_member(meta, "type", &artifact->type) ||
	    !copy_member(meta, "owner", &artifact->owner))
		return ERR_NOT_FOUND;
	return strlen(artifact->type) <= ARTIFACT_TYPE_MAX ? ERR_OK
							   : ERR_NOT_FOUND;
}

static enum err
open_file(
    const struct artifacts *store, const char *id, struct artifact *artifact)
{
	CLEANUP_FD int folder = store_folder(store);

	if (folder >= 0)
		artifact->fd = openat(
		    folder, id, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (artifact->fd >= 0)
		return ERR_OK;
	return errno == EMFILE || errno == ENFILE ? ERR_BUSY : ERR_NOT_FOUND;
}

enum err
artifact_get(
    struct artifacts *store, const char *id, struct artifact *ret_artifact)
{
	static const struct timespec used[2] = { { .tv_nsec = UTIME_NOW },
		{ .tv_nsec = UTIME_OMIT } };
	struct artifact artifact = { .fd = -1 };
	struct stat st;
	enum err rc;

	if (!artifact_is_id(id) || id[ARTIFACT_ID_LEN] != '\0')
		return ERR_NOT_FOUND;
	if ((rc = open_file(store, id, &artifact)) != ERR_OK)
		return rc;
	if (fstat(artifact.fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid())
		rc = ERR_NOT_FOUND;
	else if (store_expired(store, st.st_mtim.tv_sec, clock_wall()))
		rc = ERR_EXPIRED;
	else
		rc = read_meta(&artifact, (uint64_t)st.st_size);
	if (rc != ERR_OK) {
		artifact_done(&artifact);
		return rc;
	}
	artifact.made = st.st_mtim.tv_sec;
	/* a store that can't note a use still serves */
	(void)futimens(artifact.fd, used);
	*ret_artifact = artifact;
	return ERR_OK;
}

void
artifact_done(struct artifact *artifact)
{
	if (artifact->fd >= 0)
		close(artifact->fd);
	free(artifact->name);
	free(artifact->type);
	free(artifact->owner);
	*artifact = (struct artifact){ .fd = -1 };
}

enum err
artifact_read(const struct artifact *artifact, struct buf *out)
{
	enum err rc;

	if (artifact->len > out->max)
		return ERR_LIMIT;
	if ((rc = buf_reserve(out, (size_t)artifact->len)) != ERR_OK)
		return rc;
	if (artifact->len == 0)
		return ERR_OK;
	if (!read_all(artifact->fd, out->data + out->len, (size_t)artifact->len,
		artifact->at))
		return ERR_SYS;
	out->len += (size_t)artifact->len;
	out->data[out->len] = '\0';
	return ERR_OK;
}
