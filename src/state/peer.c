/*
 * Which processes live. A process is its pid and its start time; one that we
 * know of is watched through a pidfd, which tells of its end at once, also
 * while it is a zombie.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "state/table.h"

/* Reads state and start time of a process. ERR_NOT_FOUND also where /proc
 * does not show it (hidepid). */
static enum err
read_stat(pid_t pid, char *ret_state, uint64_t *ret_start)
{
	char path[64], line[1024];
	CLEANUP_FILE FILE *f = NULL;
	unsigned long long start;
	char *at;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	if ((f = fopen(path, "re")) == NULL)
		return ERR_NOT_FOUND;
	if (fgets(line, sizeof(line), f) == NULL)
		return ERR_NOT_FOUND;
	/* the name may hold anything, the last parenthesis ends it */
	if ((at = strrchr(line, ')')) == NULL)
		return ERR_NOT_FOUND;
	if (sscanf(at + 1,
		" %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u "
		"%*u %*d %*d %*d %*d %*d %*d %llu",
		ret_state, &start) != 2)
		return ERR_NOT_FOUND;
	*ret_start = start;
	return ERR_OK;
}

uint64_t
peer_start(pid_t pid)
{
	uint64_t start = 0;
	char state;

	if (read_stat(pid, &state, &start) != ERR_OK)
		return 0;
	return start;
}

/* Whether the pid is in the hands of a process that began at another time, or
 * of one that has ended. */
static bool
stat_gone(pid_t pid, uint64_t start)
{
	uint64_t now;
	char state;

	if (read_stat(pid, &state, &now) != ERR_OK)
		return kill(pid, 0) != 0 && errno == ESRCH;
	return state == 'Z' || state == 'X' || (start != 0 && now != start);
}

static bool
pidfd_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

bool
peer_gone(pid_t pid, uint64_t start)
{
	CLEANUP_FD int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0 && errno == ESRCH)
		return true;
	if (fd >= 0 && pidfd_ended(fd))
		return true;
	return stat_gone(pid, start);
}

static void
peer_forget(struct peer *peer)
{
	if (peer->number != 0 && peer->pidfd >= 0)
		close(peer->pidfd);
	*peer = (struct peer){ .pidfd = -1 };
}

/* Whether a process in a slot lives; learns to watch it when it is new. */
bool
peer_alive(struct state *state, uint32_t slot, uint64_t number, pid_t pid,
    uint64_t start)
{
	struct peer *peer;

	if (number == state->number)
		return true;
	if (slot >= state->peer_count)
		return false;
	peer = &state->peers[slot];
	if (peer->number == number && peer->pidfd >= 0)
		return !pidfd_ended(peer->pidfd);
	if (peer->number != number) {
		peer_forget(peer);
		*peer = (struct peer){ number, start, pid,
			(int)syscall(SYS_pidfd_open, pid, 0) };
	}
	/* the start time is looked at after the pidfd was had: from then on
	 * the pidfd stands for that very process */
	if (!peer_gone(pid, start))
		return true;
	peer_forget(peer);
	return false;
}

void
peer_reclaim(struct state *state, uint32_t slot, uint64_t number)
{
	struct table *t = state->table;
	char inbox[TABLE_INBOX_MAX], name[32];
	struct process_slot *p = table_process(t, slot);
	char *base;

	if (table_lock(t) != ERR_OK)
		return;
	if (p->slot.state != SLOT_USED || p->number != number) {
		table_unlock(t);
		return;
	}
	memcpy(inbox, p->inbox, sizeof(inbox));
	process_reclaim_locked(t, slot);
	table_unlock(t);
	inbox[sizeof(inbox) - 1] = '\0';
	snprintf(
	    name, sizeof(name), "/%016llx.sock", (unsigned long long)number);
	if ((base = strrchr(inbox, '/')) != NULL && strcmp(base, name) == 0)
		unlink(inbox);
}

/* Copies who is registered; new ones get a pidfd. */
static void
peers_refresh(struct state *state, struct peer *ret_list)
{
	struct table *t = state->table;
	uint64_t generation =
	    __atomic_load_n(&t->head->generation, __ATOMIC_ACQUIRE);

	memset(ret_list, 0, state->peer_count * sizeof(*ret_list));
	if (generation == state->peers_generation || table_lock(t) != ERR_OK) {
		memcpy(ret_list, state->peers,
		    state->peer_count * sizeof(*ret_list));
		return;
	}
	for (uint32_t i = 0; i < table_high(t, POOL_PROCESS); i++) {
		const struct process_slot *p = table_process(t, i);

		if (p->slot.state == SLOT_USED)
			ret_list[i] =
			    (struct peer){ p->number, p->start, p->pid, -1 };
	}
	state->peers_generation = t->head->generation;
	table_unlock(t);
}

void
peer_reap(struct state *state, unsigned min_ms)
{
	CLEANUP_FREE struct peer *list = NULL;
	uint64_t now = clock_ms();

	if (now - state->reaped_ms < min_ms)
		return;
	state->reaped_ms = now;
	list = calloc(state->peer_count, sizeof(*list));
	if (list == NULL)
		return;
	peers_refresh(state, list);
	for (uint32_t i = 0; i < state->peer_count; i++) {
		const struct peer *p = &list[i];

		if (p->number == 0) {
			peer_forget(&state->peers[i]);
			continue;
		}
		if (peer_alive(state, i, p->number, p->pid, p->start))
			continue;
		peer_reclaim(state, i, p->number);
		peer_forget(&state->peers[i]);
		/* look again, should the lock not have been had */
		state->peers_generation = 0;
	}
}

void
peer_done(struct state *state)
{
	for (uint32_t i = 0; i < state->peer_count; i++)
		peer_forget(&state->peers[i]);
	free(state->peers);
	state->peers = NULL;
	state->peer_count = 0;
}
