/*
 * What the service (event loop), the spawner and the slots say to each other
 * over Unix sockets. Same program, same machine: plain structs.
 *
 *   service -> spawner   struct channel_spawn with the slot's end of a pair
 *   service -> slot      struct channel_job, then the body
 *   slot -> service      struct channel_note (READY, then REPLY with a memfd,
 *                        or FAILED)
 *
 * The service closes its end to end a run; nobody else does.
 */
#ifndef SANDBOXD_CHANNEL_H
#define SANDBOXD_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct channel_spawn {
	uint32_t slot;
};

enum channel_flags {
	CHANNEL_FORM = 1,  /* the body is a form */
	CHANNEL_FONTS = 2, /* keep the font cache that the run makes */
};

struct channel_job {
	uint32_t magic;
	uint32_t flags;
	uint64_t body_len;
};

#define CHANNEL_MAGIC 0x53424a32u
#define CHANNEL_TEXT 500

enum channel_kind { CHANNEL_READY = 1, CHANNEL_REPLY, CHANNEL_FAILED };

struct channel_note {
	uint32_t kind;
	uint32_t status;         /* HTTP status of a reply */
	char text[CHANNEL_TEXT]; /* why it failed */
};

/* Sends n bytes with a descriptor (borrowed; -1: none) as one message.
 * ERR_CLOSED when nobody listens, ERR_SYS. */
enum err
channel_send(int socket, const void *data, size_t n, int fd) MUST_CHECK;

/* Receives a message of exactly n bytes; *ret_fd is owned, -1 when none came
 * with it. ERR_CLOSED at the end, ERR_TIMEOUT when a non-blocking socket has
 * none yet, ERR_PARSE for another length, ERR_SYS. */
enum err
channel_receive(int socket, void *ret_data, size_t n, int *ret_fd) MUST_CHECK;

#endif
