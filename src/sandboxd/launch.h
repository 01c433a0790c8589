/*
 * What goes over descriptor LAUNCH_FD between a slot (outside) and the small
 * program that waits inside its finished jail (init/init.c): one byte when it
 * stands, then one launch_head with the strings of argv, and back an errno if
 * the interpreter can't be executed. Nothing after that: the descriptor closes
 * at the exec, so the program never sees it.
 */
#ifndef SANDBOXD_LAUNCH_H
#define SANDBOXD_LAUNCH_H

#include <stdint.h>

#define LAUNCH_FD 3         /* the socket, in the jail */
#define LAUNCH_SECCOMP_FD 4 /* bwrap reads the filter from it */
#define LAUNCH_READY 'R'
#define LAUNCH_MAGIC 0x53424a31u
#define LAUNCH_ARGS_MAX (4u << 20)
#define LAUNCH_MPLCONFIGDIR "/var/cache/matplotlib"

struct launch_head {
	uint32_t magic;
	uint32_t merge_stderr;  /* 1: descriptor 2 becomes 1 */
	uint32_t n_args;        /* argv[0] is what is executed */
	uint32_t bytes;         /* of all strings with their NULs */
	uint64_t address_space; /* RLIMIT_AS */
	uint64_t processes;     /* RLIMIT_NPROC */
	uint64_t descriptors;   /* RLIMIT_NOFILE */
	uint64_t file_size;     /* RLIMIT_FSIZE */
};

#endif
