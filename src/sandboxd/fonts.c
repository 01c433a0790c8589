#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandboxd/fonts.h"
#include "sandboxd/jail.h"
#include "sandboxd/tree.h"

#define PREFIX "fontlist-"
#define SUFFIX ".json"
#define PART ".part"

static bool
is_list(const char *name)
{
	size_t n = strlen(name);

	return n > sizeof(PREFIX SUFFIX) - 1 &&
	    strncmp(name, PREFIX, sizeof(PREFIX) - 1) == 0 &&
	    strcmp(name + n - (sizeof(SUFFIX) - 1), SUFFIX) == 0;
}

/* Under a hidden name first: a jail that starts meanwhile sees all or
 * nothing. */
static void
keep(int folder, const char *name, int from)
{
	CLEANUP_FD int to = openat(
	    folder, PART, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	struct stat st;
	ssize_t n = 1;

	if (to < 0 || fstat(from, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	for (off_t left = st.st_size; left > 0 && n > 0; left -= n)
		n = sendfile(to, from, NULL, (size_t)left);
	if (n <= 0 || renameat(folder, PART, folder, name) != 0)
		unlinkat(folder, PART, 0);
}

void
fonts_keep(const char *base, int cache)
{
	int fd = tree_open(cache, ".", O_RDONLY | O_DIRECTORY, 0);
	CLEANUP_DIR DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	CLEANUP_FD int folder = -1;
	char path[PATH_MAX];
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/" JAIL_FONTS, base);
	folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (d != NULL && folder >= 0 && (e = readdir(d)) != NULL) {
		CLEANUP_FD int from = -1;

		if (!is_list(e->d_name))
			continue;
		from = tree_open(cache, e->d_name, O_RDONLY, 0);
		if (from >= 0)
			keep(folder, e->d_name, from);
	}
}
