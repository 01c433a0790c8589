#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/workers.h"

/* cJSON recurses as deep as the setting json_depth lets it, libfcgi not at
 * all */
#define STACK_SIZE ((size_t)1 << 20)

struct workers {
	struct loop *loop;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct work *first, **last;
	bool ending;
	unsigned n;
	pthread_t threads[];
};

static struct work *
take(struct workers *workers)
{
	struct work *work;

	pthread_mutex_lock(&workers->lock);
	while (workers->first == NULL && !workers->ending)
		pthread_cond_wait(&workers->more, &workers->lock);
	work = workers->first;
	if (work != NULL) {
		workers->first = work->next;
		if (workers->first == NULL)
			workers->last = &workers->first;
	}
	pthread_mutex_unlock(&workers->lock);
	return work;
}

static void
done_in_loop(struct task *task)
{
	struct work *work = (struct work *)task;

	work->done(work);
}

static void *
worker(void *arg)
{
	struct workers *workers = arg;
	struct work *work;

	while ((work = take(workers)) != NULL) {
		work->work(work);
		work->task.run = done_in_loop;
		loop_post(workers->loop, &work->task);
	}
	return NULL;
}

/* Starts one thread; signals belong to the loop's. */
static int
start(struct workers *workers, pthread_t *ret_thread)
{
	sigset_t all, old;
	pthread_attr_t attr;
	int rc;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(ret_thread, &attr, worker, workers);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

enum err
workers_open(struct loop *loop, unsigned threads, struct workers **ret_workers)
{
	struct workers *workers =
	    calloc(1, sizeof(*workers) + threads * sizeof(workers->threads[0]));

	if (workers == NULL)
		return ERR_NOMEM;
	workers->loop = loop;
	workers->last = &workers->first;
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->more, NULL);
	for (; workers->n < threads; workers->n++) {
		if (start(workers, &workers->threads[workers->n]) != 0) {
			workers_close(workers);
			return ERR_SYS;
		}
	}
	*ret_workers = workers;
	return ERR_OK;
}

void
workers_close(struct workers *workers)
{
	if (workers == NULL)
		return;
	pthread_mutex_lock(&workers->lock);
	workers->ending = true;
	pthread_cond_broadcast(&workers->more);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned i = 0; i < workers->n; i++)
		pthread_join(workers->threads[i], NULL);
	pthread_cond_destroy(&workers->more);
	pthread_mutex_destroy(&workers->lock);
	free(workers);
}

void
workers_submit(struct workers *workers, struct work *work)
{
	work->next = NULL;
	pthread_mutex_lock(&workers->lock);
	*workers->last = work;
	workers->last = &work->next;
	pthread_cond_signal(&workers->more);
	pthread_mutex_unlock(&workers->lock);
}

struct offload {
	struct work work;
	void (*run)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

static void
offload_work(struct work *work)
{
	struct offload *offload = (struct offload *)work;

	offload->run(offload->arg);
}

static void
offload_done(struct work *work)
{
	struct offload *offload = (struct offload *)work;

	offload->done(offload->arg);
	free(offload);
}

void
workers_offload(struct workers *workers, void (*work)(void *arg),
    void (*done)(void *arg), void *arg)
{
	static const struct timespec pause = { .tv_nsec = 1000000 };
	struct offload *offload;

	/* who offloads may hold half an answer and has no way to give it up;
	 * the workers free memory meanwhile */
	while ((offload = calloc(1, sizeof(*offload))) == NULL)
		nanosleep(&pause, NULL);
	offload->work.work = offload_work;
	offload->work.done = offload_done;
	offload->run = work;
	offload->done = done;
	offload->arg = arg;
	workers_submit(workers, &offload->work);
}
