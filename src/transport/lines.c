#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "transport/lines.h"

#define READ_SIZE 65536
#define QUEUE_HARD_MAX ((size_t)1 << 30)
#define LOOK_MS 100
#define STUCK_LOOKS 10 /* so often nothing moved: it never will */
#define KEPT_MAX 65536 /* capacity that the line's buffer may keep */

/* What may be written to a descriptor that poll calls writable without being
 * held up, though it is in blocking mode. */
#define WRITE_SIZE 4096

struct lines {
	struct lines_plan plan;
	pthread_t reader, writer;
	bool reading, writing; /* the threads were started */
	int stop_fd, kill_fd;  /* eventfds, owned: end reader, writer */
	/* the reader's */
	struct buf line;
	bool skipping; /* the line is too long already */
	struct task input_over;
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t more;    /* there is something to write, or closing */
	pthread_cond_t written; /* the queue is shorter */
	struct buf queue;
	size_t in_hand;    /* bytes that the writer is at */
	atomic_uint moved; /* rises while the peer takes its answers */
	bool stopping, closing, broken;
	struct task output_over;
};

/* ---- to the loop ---- */

struct item {
	struct task task;
	struct lines *lines;
	void *what;
};

static void
taken(struct task *task)
{
	struct item *item = (struct item *)task;

	item->lines->plan.ops->take(item->lines->plan.arg, item->what);
	free(item);
}

static void
on_input_over(struct task *task)
{
	struct lines *lines = (struct lines *)(void *)((char *)task -
	    offsetof(struct lines, input_over));

	lines->plan.ops->ended(lines->plan.arg);
}

static void
on_output_over(struct task *task)
{
	struct lines *lines = (struct lines *)(void *)((char *)task -
	    offsetof(struct lines, output_over));

	lines->plan.ops->ended(lines->plan.arg);
}

/* ---- reading ---- */

/* False without memory. */
static bool
emit(struct lines *lines, const char *text, size_t len)
{
	struct item *item = calloc(1, sizeof(*item));

	if (item == NULL)
		return false;
	item->task.run = taken;
	item->lines = lines;
	item->what = lines->plan.ops->read(lines->plan.arg, text, len);
	if (item->what != NULL)
		loop_post(lines->plan.loop, &item->task);
	else
		free(item);
	return true;
}

static bool
is_blank(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && memchr(" \t\r", text[n], 3) != NULL)
		n++;
	return n == len;
}

static bool
end_line(struct lines *lines)
{
	struct buf *line = &lines->line;
	bool ok = true;

	if (line->len > 0 && line->data[line->len - 1] == '\r')
		line->len--;
	if (lines->skipping)
		ok = emit(lines, NULL, 0);
	else if (!is_blank(line->data, line->len))
		ok = emit(lines, line->data, line->len);
	lines->skipping = false;
	if (line->cap > KEPT_MAX)
		buf_done(line);
	line->len = 0;
	return ok;
}

static bool
add(struct lines *lines, const char *data, size_t n)
{
	while (n > 0) {
		const char *end = memchr(data, '\n', n);
		size_t part = end != NULL ? (size_t)(end - data) : n;

		if (!lines->skipping &&
		    buf_append(&lines->line, data, part) != ERR_OK) {
			lines->skipping = true;
			buf_done(&lines->line);
		}
		if (end == NULL)
			return true;
		if (!end_line(lines))
			return false;
		data += part + 1;
		n -= part + 1;
	}
	return true;
}

static struct timespec
after(uint64_t ms)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (time_t)(ms / 1000);
	end.tv_nsec += (long)(ms % 1000) * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	return end;
}

/* Whether the peer has closed its end, whatever it had written before. */
static bool
is_hung_up(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLRDHUP };

	return poll(&pfd, 1, 0) == 1 &&
	    (pfd.revents & (POLLHUP | POLLRDHUP)) != 0;
}

/* Waits until the peer takes its answers; false when told to stop, or when it
 * has closed its end and takes nothing any more. */
static bool
wait_for_room(struct lines *lines)
{
	unsigned moved = atomic_load(&lines->moved), looks = 0;
	struct timespec look;
	bool stop;

	pthread_mutex_lock(&lines->lock);
	while (!lines->stopping && !lines->broken && looks < STUCK_LOOKS &&
	    lines->queue.len + lines->in_hand > lines->plan.queue_max) {
		look = after(LOOK_MS);
		(void)pthread_cond_timedwait(
		    &lines->written, &lines->lock, &look);
		if (atomic_load(&lines->moved) != moved ||
		    !is_hung_up(lines->plan.in))
			looks = 0;
		else
			looks++;
		moved = atomic_load(&lines->moved);
	}
	stop = lines->stopping || lines->broken || looks >= STUCK_LOOKS;
	pthread_mutex_unlock(&lines->lock);
	return !stop;
}

/* Waits until fd is ready; false when other becomes readable. */
static bool
wait_for(int fd, short what, int other)
{
	struct pollfd fds[2] = { { .fd = fd, .events = what },
		{ .fd = other, .events = POLLIN } };

	while (poll(fds, 2, -1) < 0) {
		if (errno != EINTR)
			return false;
	}
	return fds[1].revents == 0;
}

static void *
read_all(void *arg)
{
	struct lines *lines = arg;
	CLEANUP_FREE char *chunk = malloc(READ_SIZE);
	ssize_t n = -1;

	while (chunk != NULL && wait_for_room(lines) &&
	    wait_for(lines->plan.in, POLLIN, lines->stop_fd)) {
		n = read(lines->plan.in, chunk, READ_SIZE);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0 || !add(lines, chunk, (size_t)n))
			break;
	}
	/* a last line may lack its end */
	if (n == 0 && (lines->line.len > 0 || lines->skipping))
		(void)end_line(lines);
	loop_post(lines->plan.loop, &lines->input_over);
	return NULL;
}

/* ---- writing ---- */

static bool
write_all(struct lines *lines, const char *data, size_t len)
{
	while (len > 0) {
		size_t part = len < WRITE_SIZE ? len : WRITE_SIZE;
		ssize_t n;

		if (!wait_for(lines->plan.out, POLLOUT, lines->kill_fd))
			return false;
		n = write(lines->plan.out, data, part);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return false;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
			atomic_fetch_add(&lines->moved, 1);
		}
	}
	return true;
}

/* Takes the whole queue; false when there will be nothing more. */
static bool
take_queue(struct lines *lines, struct buf *ret_part)
{
	pthread_mutex_lock(&lines->lock);
	lines->in_hand = 0;
	pthread_cond_broadcast(&lines->written);
	while (lines->queue.len == 0 && !lines->closing)
		pthread_cond_wait(&lines->more, &lines->lock);
	*ret_part = lines->queue;
	lines->in_hand = ret_part->len;
	buf_init(&lines->queue, QUEUE_HARD_MAX);
	pthread_mutex_unlock(&lines->lock);
	return ret_part->len > 0;
}

static void *
write_queue(void *arg)
{
	struct lines *lines = arg;
	struct buf part;
	bool ok = true;

	while (ok && take_queue(lines, &part)) {
		ok = write_all(lines, part.data, part.len);
		buf_done(&part);
	}
	pthread_mutex_lock(&lines->lock);
	lines->broken = true;
	lines->in_hand = 0;
	pthread_cond_broadcast(&lines->written);
	pthread_mutex_unlock(&lines->lock);
	loop_post(lines->plan.loop, &lines->output_over);
	return NULL;
}

void
lines_write(struct lines *lines, const char *text, size_t len)
{
	size_t before;

	pthread_mutex_lock(&lines->lock);
	before = lines->queue.len;
	if (!lines->broken &&
	    (buf_append(&lines->queue, text, len) != ERR_OK ||
		buf_putc(&lines->queue, '\n') != ERR_OK)) {
		/* an answer is lost: the peer must not wait for ever */
		lines->queue.len = before;
		lines->broken = true;
		loop_post(lines->plan.loop, &lines->output_over);
	}
	pthread_cond_signal(&lines->more);
	pthread_mutex_unlock(&lines->lock);
}

/* ---- life ---- */

static enum err
start(struct lines *lines)
{
	sigset_t all, old;
	int rc;

	/* signals belong to the loop's thread */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&lines->writer, NULL, write_queue, lines);
	lines->writing = rc == 0;
	if (rc == 0) {
		rc = pthread_create(&lines->reader, NULL, read_all, lines);
		lines->reading = rc == 0;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc == 0 ? ERR_OK : ERR_SYS;
}

static void
init_lock(struct lines *lines)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&lines->lock, NULL);
	pthread_cond_init(&lines->more, &attr);
	pthread_cond_init(&lines->written, &attr);
	pthread_condattr_destroy(&attr);
}

enum err
lines_open(const struct lines_plan *plan, struct lines **ret_lines)
{
	struct lines *lines = calloc(1, sizeof(*lines));

	if (lines == NULL)
		return ERR_NOMEM;
	lines->plan = *plan;
	lines->input_over.run = on_input_over;
	lines->output_over.run = on_output_over;
	buf_init(&lines->line, plan->line_max);
	buf_init(&lines->queue, QUEUE_HARD_MAX);
	init_lock(lines);
	lines->stop_fd = eventfd(0, EFD_CLOEXEC);
	lines->kill_fd = eventfd(0, EFD_CLOEXEC);
	if (lines->stop_fd < 0 || lines->kill_fd < 0 ||
	    start(lines) != ERR_OK) {
		lines_stop(lines);
		lines_close(lines, 0);
		return ERR_SYS;
	}
	*ret_lines = lines;
	return ERR_OK;
}

static void
raise_flag(int fd)
{
	static const uint64_t one = 1;

	if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
		return;
}

void
lines_stop(struct lines *lines)
{
	pthread_mutex_lock(&lines->lock);
	lines->stopping = true;
	pthread_cond_broadcast(&lines->written);
	pthread_mutex_unlock(&lines->lock);
	raise_flag(lines->stop_fd);
	if (lines->reading)
		pthread_join(lines->reader, NULL);
	lines->reading = false;
	loop_flush(lines->plan.loop);
}

/* Waits for the queue to be written, but not for ever. */
static void
flush(struct lines *lines, uint64_t ms)
{
	struct timespec end = after(ms);
	int rc = 0;

	pthread_mutex_lock(&lines->lock);
	while (
	    rc == 0 && !lines->broken && lines->queue.len + lines->in_hand > 0)
		rc =
		    pthread_cond_timedwait(&lines->written, &lines->lock, &end);
	lines->closing = true;
	pthread_cond_broadcast(&lines->more);
	pthread_mutex_unlock(&lines->lock);
}

void
lines_close(struct lines *lines, uint64_t flush_ms)
{
	if (lines == NULL)
		return;
	if (lines->writing) {
		flush(lines, flush_ms);
		raise_flag(lines->kill_fd);
		pthread_join(lines->writer, NULL);
		loop_flush(lines->plan.loop);
	}
	pthread_cond_destroy(&lines->more);
	pthread_cond_destroy(&lines->written);
	pthread_mutex_destroy(&lines->lock);
	buf_done(&lines->line);
	buf_done(&lines->queue);
	if (lines->stop_fd >= 0)
		close(lines->stop_fd);
	if (lines->kill_fd >= 0)
		close(lines->kill_fd);
	free(lines);
}
