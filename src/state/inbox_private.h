/* What the two halves of the inbox share: receiving (inbox.c) and sending
 * (inbox_send.c). */
#ifndef STATE_INBOX_PRIVATE_H
#define STATE_INBOX_PRIVATE_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "state/frame.h"
#include "state/table.h"

struct outgoing;

LIST_HEAD(message_list, inbox_message);
LIST_HEAD(outgoing_list, outgoing);

struct inbox {
	struct state *state;
	struct event_base *base;
	const struct inbox_ops *ops;
	void *arg;
	int fd;
	bool listening;
	ino_t inode; /* of our socket's name */
	dev_t device;
	struct event *readable;
	struct event *watch;
	unsigned count; /* messages */
	struct message_list messages;
	struct outgoing_list sends;
	char path[TABLE_INBOX_MAX];
};

/* Whether the other end of a connected socket is of our user. */
bool inbox_peer_ours(int fd);

/* Opens a socket and connects it without waiting. -1 with errno. */
int inbox_connect(const char *path);

/* Ends every send under way. */
void inbox_send_close(struct inbox *inbox);

#endif
