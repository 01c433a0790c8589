/*
 * The store of artifacts: files and figures of results, and whole outputs,
 * kept on disk for a while and fetched over HTTP or MCP. All processes of a
 * user share one folder, unless they are told of others; an artifact lives on
 * when the process that made it has died.
 *
 * On disk an artifact is one file, named by its id: a head with its metadata
 * (name, media type, owner), then the content. It is written under another
 * name first and renamed, so that there are only whole ones. Nothing that
 * comes from a program is ever a path on disk. The time of its making is its
 * mtime, that of its last use its atime.
 *
 * All functions may be called from any thread; those that touch the disk may
 * block and belong into a worker.
 */
#ifndef MCP_ARTIFACT_H
#define MCP_ARTIFACT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/conf.h"

/* Hexadecimal digits of an id: 128 random bits. It is a capability. */
#define ARTIFACT_ID_LEN 32
#define ARTIFACT_TYPE_MAX 127

/* Scheme and path of URIs: sandbox://files/ID/NAME. */
#define ARTIFACT_URI "sandbox://files/"
#define ARTIFACT_PATH "/files/"

struct artifacts; /* the store, as one process has it */

/* Finds the folder. Never fails but for ERR_NOMEM: without a folder every put
 * is refused with the reason, which is *ret_why then (borrowed from the store;
 * else NULL). conf is borrowed until artifacts_close. */
enum err artifacts_open(const struct conf *conf, struct artifacts **ret_store,
    const char **ret_why) MUST_CHECK;

/* NULL is accepted. */
void artifacts_close(struct artifacts *store);

/* What is to be kept; all borrowed. */
struct artifact_new {
	const char *name;  /* for people and downloads, any UTF-8 */
	const char *type;  /* its media type */
	const char *owner; /* key of whom it belongs to, "" for none */
	const void *data;
	size_t len;
};

/* Why an artifact was not kept, in words for the result. */
struct artifact_fault {
	char text[300];
};

/* Keeps an artifact; ret_id gets ARTIFACT_ID_LEN digits and a NUL. ERR_LIMIT
 * when it is too large, ERR_SYS or ERR_NOMEM; *fault then says why. */
enum err artifact_put(struct artifacts *store, const struct artifact_new *new,
    char *ret_id, struct artifact_fault *fault) MUST_CHECK;

/* An artifact, open for reading; released by artifact_done. */
struct artifact {
	int fd;      /* owned, or -1 */
	uint64_t at; /* where its content begins in the file */
	uint64_t len;
	int64_t made;              /* seconds since 1970 */
	char *name, *type, *owner; /* owned */
};

/* Opens an artifact and notes its use. ERR_NOT_FOUND for what is no id, not
 * there or damaged; ERR_EXPIRED; ERR_BUSY without a descriptor; ERR_NOMEM. */
enum err artifact_get(struct artifacts *store, const char *id,
    struct artifact *ret_artifact) MUST_CHECK;
void artifact_done(struct artifact *artifact);

/* Reads the whole content, at most max bytes: ERR_LIMIT, ERR_SYS, ERR_NOMEM.
 * out is initialised by the caller with that maximum. */
enum err
artifact_read(const struct artifact *artifact, struct buf *out) MUST_CHECK;

/* Removes what is expired, left over or beyond the limits. Takes a bounded
 * time; several processes may do it at once. */
void artifacts_sweep(struct artifacts *store);

/* How often to sweep, in ms. */
uint64_t artifacts_sweep_ms(const struct artifacts *store);

/* ---- notes: small texts beside the artifacts, shared by all processes ---- */

/* Writes a note, whole or not at all. ERR_SYS. */
enum err artifact_note_put(struct artifacts *store, const char *name,
    const char *text, size_t len) MUST_CHECK;

/* Reads a note, and how many seconds old it is. ERR_NOT_FOUND; ERR_LIMIT when
 * out does not hold it; ERR_SYS, ERR_NOMEM. */
enum err artifact_note_get(struct artifacts *store, const char *name,
    struct buf *out, int64_t *ret_age) MUST_CHECK;

/* Claims a note, for the one process that shall renew it: *ret_claim is a
 * descriptor to be closed when it is done; dying gives a claim up too. ERR_BUSY
 * when another has it, ERR_SYS when there can be none. */
enum err artifact_note_claim(
    struct artifacts *store, const char *name, int *ret_claim) MUST_CHECK;

/* ---- names and addresses: pure functions --------------------------------- */

/* Whether text begins with an id, and nothing hexadecimal follows. */
bool artifact_is_id(const char *text);

/* What of a name is shown: its last component, and of a long one the end;
 * never empty, "." or "..". Borrowed. */
const char *artifact_base_name(const char *name);

/* Appends "ID/NAME" with the last component of name, percent-encoded so that
 * every web server passes it on: no control characters, never "." or "..",
 * bounded in length. */
enum err
artifact_ref(struct buf *out, const char *id, const char *name) MUST_CHECK;

/* The id in a URI sandbox://files/ID/NAME, with a name of at least one
 * character, without a slash: copied to ret_id. ERR_NOT_FOUND. */
enum err artifact_uri_parse(const char *uri, char *ret_id) MUST_CHECK;

#endif
