#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/save.h"

#define NAME_MAX_BYTES 200
#define TRIES 1000

/* A name that is one in any folder and on any terminal: "out/a.csv" becomes
 * "out_a.csv". */
static void
safe_name(const char *path, char ret_name[NAME_MAX_BYTES + 1])
{
	size_t n = strlen(path);

	/* of a long one the end, which tells the type; whole characters */
	if (n > NAME_MAX_BYTES)
		path += n - NAME_MAX_BYTES;
	while (((unsigned char)*path & 0xc0) == 0x80)
		path++;
	snprintf(ret_name, NAME_MAX_BYTES + 1, "%s", path);
	for (char *c = ret_name; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '/' ||
		    *c == '\\')
			*c = '_';
	}
	if (ret_name[0] == '.' || ret_name[0] == '-')
		ret_name[0] = '_';
	if (ret_name[0] == '\0')
		snprintf(ret_name, NAME_MAX_BYTES + 1, "file");
}

/* Makes the file under its name, or under a name with a number. */
static int
create(int dir, const char *name, char *ret_taken, size_t size)
{
	const char *dot = strrchr(name, '.');
	int stem = (int)(dot != NULL && dot != name ? (size_t)(dot - name)
						    : strlen(name));

	for (int i = 1; i <= TRIES; i++) {
		int fd;

		if (i == 1)
			snprintf(ret_taken, size, "%s", name);
		else
			snprintf(ret_taken, size, "%.*s-%d%s", stem, name, i,
			    name + stem);
		fd = openat(dir, ret_taken,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

static bool
write_whole(int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return true;
}

static bool
save(const struct outcome_file *file, int dir, const char *folder)
{
	char name[NAME_MAX_BYTES + 1], taken[NAME_MAX_BYTES + 16];
	CLEANUP_FD int fd = -1;

	safe_name(file->path, name);
	if (file->data == NULL) {
		fprintf(stderr, "not saved: %s (%s)\n", name,
		    file->reason != NULL ? file->reason : "not returned");
		return false;
	}
	fd = create(dir, name, taken, sizeof(taken));
	if (fd < 0 || !write_whole(fd, file->data, file->len)) {
		fprintf(stderr, "not saved: %s/%s (%s)\n", folder, name,
		    strerror(errno));
		return false;
	}
	if (strcmp(name, taken) == 0)
		fprintf(stderr, "saved: %s/%s\n", folder, name);
	else
		fprintf(stderr, "saved: %s/%s (%s is there already)\n", folder,
		    taken, name);
	return true;
}

bool
save_files(const struct outcome *outcome, const char *dir)
{
	CLEANUP_FD int fd = -1;
	bool all = true;

	if (outcome->n_files == 0)
		return true;
	if ((mkdir(dir, 0777) != 0 && errno != EEXIST) ||
	    (fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
		fprintf(stderr, "not saved: %s: %s\n", dir, strerror(errno));
		return false;
	}
	for (size_t i = 0; i < outcome->n_files; i++)
		all = save(&outcome->files[i], fd, dir) && all;
	return all;
}
