#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/loop.h"

struct loop {
	struct event_base *base; /* owned */
	struct event *wake;      /* owned */
	int wake_fd;             /* an eventfd, owned */
	pthread_mutex_t lock;    /* of the list */
	struct task *first, **last;
};

static struct task *
take_all(struct loop *loop)
{
	struct task *first;

	pthread_mutex_lock(&loop->lock);
	first = loop->first;
	loop->first = NULL;
	loop->last = &loop->first;
	pthread_mutex_unlock(&loop->lock);
	return first;
}

void
loop_flush(struct loop *loop)
{
	struct task *task, *next;

	while ((task = take_all(loop)) != NULL) {
		for (; task != NULL; task = next) {
			next = task->next;
			task->run(task);
		}
	}
}

static void
woken(evutil_socket_t fd, short what, void *arg)
{
	uint64_t n;

	(void)what;
	/* nothing to read: somebody flushed before, no harm */
	if (read(fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	loop_flush(arg);
}

void
loop_post(struct loop *loop, struct task *task)
{
	static const uint64_t one = 1;
	bool first;

	task->next = NULL;
	pthread_mutex_lock(&loop->lock);
	first = loop->first == NULL;
	*loop->last = task;
	loop->last = &task->next;
	pthread_mutex_unlock(&loop->lock);
	/* can't fail but for a full counter, and then the loop is woken */
	if (first && write(loop->wake_fd, &one, sizeof(one)) < 0)
		return;
}

struct event_base *
loop_base(const struct loop *loop)
{
	return loop->base;
}

static struct event_base *
base_new(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	/* no thread but the loop's touches the base: no locks */
	if (config != NULL &&
	    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0)
		base = event_base_new_with_config(config);
	if (config != NULL)
		event_config_free(config);
	return base;
}

enum err
loop_open(struct loop **ret_loop)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (loop == NULL)
		return ERR_NOMEM;
	loop->last = &loop->first;
	pthread_mutex_init(&loop->lock, NULL);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->base = base_new();
	if (loop->wake_fd >= 0 && loop->base != NULL)
		loop->wake = event_new(loop->base, loop->wake_fd,
		    EV_READ | EV_PERSIST, woken, loop);
	if (loop->wake == NULL || event_add(loop->wake, NULL) != 0) {
		loop_close(loop);
		return ERR_SYS;
	}
	*ret_loop = loop;
	return ERR_OK;
}

void
loop_close(struct loop *loop)
{
	if (loop == NULL)
		return;
	if (loop->wake != NULL)
		event_free(loop->wake);
	if (loop->base != NULL)
		event_base_free(loop->base);
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}
