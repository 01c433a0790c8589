#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/listen.h"

#define UNIX_PREFIX "unix:"
#define SOCKET_NAME "sandboxd.sock"

__attribute__((format(printf, 2, 3))) static enum err
set_fault(struct conf_fault *fault, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, ap);
	va_end(ap);
	return ERR_CONF;
}

static void
default_address(char *text, size_t size)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		snprintf(
		    text, size, UNIX_PREFIX "/run/python-sandbox/" SOCKET_NAME);
	else if (dir != NULL && dir[0] == '/')
		snprintf(text, size,
		    UNIX_PREFIX "%s/python-sandbox/" SOCKET_NAME, dir);
	else
		snprintf(text, size,
		    UNIX_PREFIX "/tmp/python-sandbox-%u/" SOCKET_NAME,
		    geteuid());
}

/* A folder that others could have prepared (in /tmp) must be our own. */
static enum err
check_folder(const char *path, uid_t uid, gid_t gid, struct stat *ret_st,
    struct conf_fault *fault)
{
	char dir[LISTEN_PATH_MAX];
	char *slash;
	int made;

	snprintf(dir, sizeof(dir), "%s", path);
	if ((slash = strrchr(dir, '/')) == NULL || slash == dir)
		return set_fault(fault,
		    "sandboxd_listen: %s is no absolute "
		    "path in a folder",
		    path);
	*slash = '\0';
	made = mkdir(dir, 0750);
	if (made == 0 && geteuid() == 0 && chown(dir, uid, gid) != 0)
		return set_fault(
		    fault, "sandboxd_listen: %s: %s", dir, strerror(errno));
	if (lstat(dir, ret_st) != 0 || !S_ISDIR(ret_st->st_mode))
		return set_fault(fault,
		    "sandboxd_listen: %s is no folder: "
		    "make it",
		    dir);
	if (made != 0 && strncmp(dir, "/tmp/python-sandbox-", 20) == 0 &&
	    ret_st->st_uid != geteuid() && geteuid() != 0)
		return set_fault(fault,
		    "sandboxd_listen: %s belongs to "
		    "somebody else",
		    dir);
	return ERR_OK;
}

/* Whether somebody accepts connections on that path. */
static bool
is_served(const struct sockaddr_un *address)
{
	CLEANUP_FD int fd =
	    socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return false;
	return connect(fd, (const struct sockaddr *)address,
		   sizeof(*address)) == 0 ||
	    errno == EAGAIN;
}

static enum err
remove_stale(const struct sockaddr_un *address, struct conf_fault *fault)
{
	struct stat st;

	if (lstat(address->sun_path, &st) != 0)
		return ERR_OK;
	if (!S_ISSOCK(st.st_mode))
		return set_fault(fault,
		    "sandboxd_listen: %s is there and is "
		    "no socket",
		    address->sun_path);
	if (is_served(address))
		return set_fault(fault,
		    "sandboxd_listen: another sandboxd "
		    "already serves %s: stop it, or choose another path",
		    address->sun_path);
	if (unlink(address->sun_path) != 0)
		return set_fault(fault,
		    "sandboxd_listen: %s can't be "
		    "replaced: %s",
		    address->sun_path, strerror(errno));
	return ERR_OK;
}

/* Who may connect: the owner, and the folder's group. */
static enum err
give_socket(const struct listen *ls, uid_t uid, const struct stat *folder,
    struct conf_fault *fault)
{
	uid_t owner = geteuid() == 0 ? uid : (uid_t)-1;

	/* a user can give it to a group of his own only; else it stays ours */
	if (chown(ls->path, owner, folder->st_gid) != 0 && geteuid() == 0)
		return set_fault(fault, "%s: %s", ls->path, strerror(errno));
	if (chmod(ls->path, 0660) != 0)
		return set_fault(fault, "%s: %s", ls->path, strerror(errno));
	return ERR_OK;
}

static enum err
open_unix(struct listen *ls, const char *path, int backlog, uid_t uid,
    gid_t gid, struct conf_fault *fault)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEANUP_FD int fd = -1;
	struct stat folder, st;
	enum err rc;
	mode_t mask;
	int bound;

	if (strlen(path) >= sizeof(address.sun_path))
		return set_fault(fault,
		    "sandboxd_listen: %s is longer than "
		    "107 bytes",
		    path);
	memcpy(address.sun_path, path, strlen(path));
	memcpy(ls->path, address.sun_path, sizeof(ls->path));
	if ((rc = check_folder(path, uid, gid, &folder, fault)) != ERR_OK ||
	    (rc = remove_stale(&address, fault)) != ERR_OK)
		return rc;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mask = umask(0177);
	bound = fd < 0
	    ? -1
	    : bind(fd, (const struct sockaddr *)&address, sizeof(address));
	umask(mask);
	if (bound != 0 || listen(fd, backlog) != 0 || lstat(path, &st) != 0)
		return set_fault(
		    fault, "sandboxd_listen: %s: %s", path, strerror(errno));
	ls->device = st.st_dev;
	ls->inode = st.st_ino;
	if ((rc = give_socket(ls, uid, &folder, fault)) != ERR_OK)
		return rc;
	snprintf(ls->name, sizeof(ls->name), UNIX_PREFIX "%s", path);
	ls->fd = STEAL_FD(fd);
	return ERR_OK;
}

/* A sandbox that everybody on the network may use is a mistake. */
static enum err
parse_tcp(
    const char *text, struct sockaddr_in *address, struct conf_fault *fault)
{
	const char *colon = strrchr(text, ':');
	char host[64], *end;
	unsigned long port;

	*address = (struct sockaddr_in){ .sin_family = AF_INET };
	if (colon == NULL || (size_t)(colon - text) >= sizeof(host))
		return set_fault(fault,
		    "sandboxd_listen: %s is neither "
		    "unix:/path nor 127.0.0.1:port",
		    text);
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	if (strcmp(host, "localhost") == 0)
		snprintf(host, sizeof(host), "127.0.0.1");
	port = strtoul(colon + 1, &end, 10);
	if (inet_pton(AF_INET, host, &address->sin_addr) != 1 ||
	    ntohl(address->sin_addr.s_addr) >> 24 != 127)
		return set_fault(fault,
		    "sandboxd_listen: %s: only loopback "
		    "addresses are served, there is no authentication",
		    text);
	if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port > 65535)
		return set_fault(fault,
		    "sandboxd_listen: %s: a port is a "
		    "number up to 65535",
		    text);
	address->sin_port = htons((uint16_t)port);
	return ERR_OK;
}

static enum err
open_tcp(
    struct listen *ls, const char *text, int backlog, struct conf_fault *fault)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	CLEANUP_FD int fd = -1;
	char host[INET_ADDRSTRLEN];
	enum err rc;
	int on = 1;

	if ((rc = parse_tcp(text, &address, fault)) != ERR_OK)
		return rc;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, (struct sockaddr *)&address, size) != 0 ||
	    listen(fd, backlog) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0)
		return set_fault(
		    fault, "sandboxd_listen: %s: %s", text, strerror(errno));
	snprintf(ls->name, sizeof(ls->name), "%s:%u",
	    inet_ntop(AF_INET, &address.sin_addr, host, sizeof(host)),
	    ntohs(address.sin_port));
	ls->fd = STEAL_FD(fd);
	return ERR_OK;
}

enum err
listen_open(struct listen *ls, const char *address, int backlog, uid_t uid,
    gid_t gid, struct conf_fault *fault)
{
	char text[256];

	*ls = (struct listen){ .fd = -1 };
	if (address[0] == '\0')
		default_address(text, sizeof(text));
	else
		snprintf(text, sizeof(text), "%s", address);
	if (strncmp(text, UNIX_PREFIX, sizeof(UNIX_PREFIX) - 1) == 0)
		return open_unix(ls, text + sizeof(UNIX_PREFIX) - 1, backlog,
		    uid, gid, fault);
	return open_tcp(ls, text, backlog, fault);
}

void
listen_remove(const struct listen *ls)
{
	struct stat st;

	if (ls->path[0] != '\0' && lstat(ls->path, &st) == 0 &&
	    st.st_dev == ls->device && st.st_ino == ls->inode)
		unlink(ls->path);
}
