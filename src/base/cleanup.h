/*
 * Clean-up by attribute: a variable so marked releases what it owns when it
 * goes out of scope. Give it a value (NULL, -1) at its declaration, and hand
 * the thing out with STEAL_PTR() or STEAL_FD().
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/buf.h"

static inline void
cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void
cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void
cleanup_file(FILE **f)
{
	if (*f != NULL)
		fclose(*f);
}

static inline void
cleanup_dir(DIR **d)
{
	if (*d != NULL)
		closedir(*d);
}

static inline void
cleanup_json(cJSON **j)
{
	cJSON_Delete(*j);
}

static inline int
steal_fd(int *fd)
{
	int out = *fd;

	*fd = -1;
	return out;
}

static inline void *
steal_ptr(void *pp)
{
	void *out = *(void **)pp;

	*(void **)pp = NULL;
	return out;
}

#define CLEANUP_FREE __attribute__((cleanup(cleanup_free)))
#define CLEANUP_FD __attribute__((cleanup(cleanup_fd)))
#define CLEANUP_FILE __attribute__((cleanup(cleanup_file)))
#define CLEANUP_DIR __attribute__((cleanup(cleanup_dir)))
#define CLEANUP_JSON __attribute__((cleanup(cleanup_json)))
#define CLEANUP_BUF __attribute__((cleanup(buf_done)))

#define STEAL_FD(fd) steal_fd(&(fd))
#define STEAL_PTR(p) ((__typeof__(p))steal_ptr(&(p)))

#endif
