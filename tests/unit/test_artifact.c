/* The store of artifacts: several processes, limits, expiry, damage, a full
 * disk; and the addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "mcp/artifact.h"

struct shop {
	struct conf conf;
	struct artifacts *store;
	const char *why;
	char dir[64], sub[80];
};

static void
set(struct shop *shop, const char *name, const char *value)
{
	struct conf_fault fault;

	if (conf_set(&shop->conf, name, value, &fault) != ERR_OK)
		fail_msg("%s", fault.text);
}

static int
setup(void **state)
{
	struct shop *shop = calloc(1, sizeof(*shop));

	if (shop == NULL || conf_init(&shop->conf) != ERR_OK)
		return -1;
	snprintf(shop->dir, sizeof(shop->dir), "/tmp/artifact-test-XXXXXX");
	if (mkdtemp(shop->dir) == NULL)
		return -1;
	snprintf(shop->sub, sizeof(shop->sub), "%s/store", shop->dir);
	set(shop, "artifact_dir", shop->sub);
	*state = shop;
	return artifacts_open(&shop->conf, &shop->store, &shop->why) == ERR_OK
	    ? 0
	    : -1;
}

static void
clear(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		char name[600];

		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		if (e->d_name[0] != '.' && unlink(name) != 0)
			rmdir(name);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(path);
}

static int
teardown(void **state)
{
	struct shop *shop = *state;

	artifacts_close(shop->store);
	clear(shop->sub);
	clear(shop->dir);
	conf_done(&shop->conf);
	free(shop);
	return 0;
}

/* How many files of the store there are whose name begins so. */
static int
count(const struct shop *shop, const char *begin)
{
	DIR *dir = opendir(shop->sub);
	struct dirent *e;
	int n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir)) != NULL) {
		bool is_id = strlen(e->d_name) == ARTIFACT_ID_LEN;

		n += begin != NULL
		    ? strncmp(e->d_name, begin, strlen(begin)) == 0
		    : is_id;
	}
	closedir(dir);
	return n;
}

struct key {
	char id[ARTIFACT_ID_LEN + 1];
};

static enum err
put(struct shop *shop, const char *name, const char *data, size_t len,
    struct key *ret_key, struct artifact_fault *fault)
{
	struct artifact_new new = { .name = name,
		.type = "text/plain",
		.owner = "me",
		.data = data,
		.len = len };

	return artifact_put(shop->store, &new, ret_key->id, fault);
}

static struct key
must_put(struct shop *shop, const char *name, const char *data, size_t len)
{
	struct artifact_fault fault = { "" };
	struct key key;

	if (put(shop, name, data, len, &key, &fault) != ERR_OK)
		fail_msg("%s", fault.text);
	return key;
}

static enum err
get(struct shop *shop, struct key key)
{
	struct artifact a;
	enum err rc = artifact_get(shop->store, key.id, &a);

	if (rc == ERR_OK)
		artifact_done(&a);
	return rc;
}

static void
path_of(const struct shop *shop, struct key key, char *ret_path, size_t size)
{
	snprintf(ret_path, size, "%s/%s", shop->sub, key.id);
}

/* Moves the times of an artifact into the past. */
static void
age(const struct shop *shop, struct key key, int made_s, int used_s)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - used_s },
		{ .tv_sec = time(NULL) - made_s } };
	char path[160];

	path_of(shop, key, path, sizeof(path));
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* ---- keeping and opening ------------------------------------------------- */

static void
what_is_kept_comes_back_with_its_name(void **state)
{
	static const char name[] = "a \"b\"/\xe5\x9b\xbe #1 100%\n\\.bin";
	static const char data[] = "a\0b\xff\r\n";
	CLEANUP_BUF struct buf out = { .max = 100 };
	struct shop *shop = *state;
	struct artifact a;
	struct key key;

	assert_null(shop->why);
	key = must_put(shop, name, data, sizeof(data));
	assert_int_equal(artifact_get(shop->store, key.id, &a), ERR_OK);
	assert_string_equal(a.name, name);
	assert_string_equal(a.type, "text/plain");
	assert_string_equal(a.owner, "me");
	assert_int_equal(a.len, sizeof(data));
	assert_int_equal(artifact_read(&a, &out), ERR_OK);
	assert_memory_equal(out.data, data, sizeof(data));
	assert_in_range(a.made, time(NULL) - 5, time(NULL) + 1);
	artifact_done(&a);
	assert_int_equal(a.fd, -1);
}

static void
an_empty_one_is_one(void **state)
{
	CLEANUP_BUF struct buf out = { .max = 100 };
	struct shop *shop = *state;
	struct key key = must_put(shop, "", "", 0);
	struct artifact a;

	assert_int_equal(artifact_get(shop->store, key.id, &a), ERR_OK);
	assert_int_equal(a.len, 0);
	assert_int_equal(artifact_read(&a, &out), ERR_OK);
	assert_int_equal(out.len, 0);
	artifact_done(&a);
}

static void
folder_and_files_are_of_the_user_alone(void **state)
{
	struct shop *shop = *state;
	struct key key = must_put(shop, "a", "x", 1);
	char path[160];
	struct stat st;

	assert_int_equal(stat(shop->sub, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	path_of(shop, key, path, sizeof(path));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void
what_is_no_id_is_not_found(void **state)
{
	static const char *const ids[] = { "", "usage", "../store", "0123",
		"0123456789abcdef0123456789abcdeF",
		"0123456789abcdef0123456789abcdef0",
		"0123456789abcdef0123456789abcdef",
		"0123456789abcdef0123456789abcdef/",
		"tmp.56789abcdef0123456789abcdef01" };
	struct shop *shop = *state;
	struct artifact a;

	must_put(shop, "a", "x", 1);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		assert_int_equal(
		    artifact_get(shop->store, ids[i], &a), ERR_NOT_FOUND);
}

static void
links_and_fifos_are_not_followed(void **state)
{
	struct key key = { "0123456789abcdef0123456789abcdef" };
	struct shop *shop = *state;
	struct key real = must_put(shop, "a", "x", 1);
	char path[160];

	path_of(shop, key, path, sizeof(path));
	assert_int_equal(symlink(real.id, path), 0);
	assert_int_equal(get(shop, real), ERR_OK);
	assert_int_equal(get(shop, key), ERR_NOT_FOUND);
	artifacts_sweep(shop->store);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(get(shop, key), ERR_NOT_FOUND);
	artifacts_sweep(shop->store);
	assert_int_equal(count(shop, NULL), 1);
}

static void
a_folder_that_others_may_enter_is_refused(void **state)
{
	struct shop *shop = *state;
	struct artifact_fault fault = { "" };
	struct key key;

	artifacts_close(shop->store);
	assert_int_equal(chmod(shop->sub, 0755), 0);
	assert_int_equal(
	    artifacts_open(&shop->conf, &shop->store, &shop->why), ERR_OK);
	assert_non_null(strstr(shop->why, "artifact_dir"));
	assert_int_equal(put(shop, "a", "x", 1, &key, &fault), ERR_SYS);
	assert_non_null(strstr(fault.text, "artifact_dir"));
	assert_int_equal(
	    get(shop, (struct key){ "0123456789abcdef0123456789abcdef" }),
	    ERR_NOT_FOUND);
	artifacts_sweep(shop->store);
}

static void
a_link_is_no_folder(void **state)
{
	struct shop *shop = *state;

	artifacts_close(shop->store);
	assert_int_equal(rmdir(shop->sub), 0);
	assert_int_equal(symlink("/tmp", shop->sub), 0);
	assert_int_equal(
	    artifacts_open(&shop->conf, &shop->store, &shop->why), ERR_OK);
	assert_non_null(shop->why);
	assert_int_equal(unlink(shop->sub), 0);
}

static void
a_folder_cleared_away_is_made_again(void **state)
{
	struct shop *shop = *state;
	struct key key = must_put(shop, "a", "x", 1);

	clear(shop->sub);
	assert_int_equal(get(shop, key), ERR_NOT_FOUND);
	key = must_put(shop, "a", "x", 1);
	assert_int_equal(get(shop, key), ERR_OK);
}

static void
without_a_setting_a_folder_of_the_user_is_chosen(void **state)
{
	struct artifact_fault fault = { "" };
	struct shop *shop = *state;
	struct artifacts *store;
	struct key key;
	const char *why;
	char path[160];
	struct stat st;

	set(shop, "artifact_dir", "");
	assert_int_equal(artifacts_open(&shop->conf, &store, &why), ERR_OK);
	assert_null(why);
	artifacts_close(shop->store);
	shop->store = store;
	assert_int_equal(put(shop, "a", "x", 1, &key, &fault), ERR_OK);
	snprintf(path, sizeof(path), "/var/tmp/python-sandbox-%u",
	    (unsigned)geteuid());
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	snprintf(path, sizeof(path), "/var/tmp/python-sandbox-%u/%s",
	    (unsigned)geteuid(), key.id);
	assert_int_equal(unlink(path), 0);
}

static void
nothing_is_kept_when_told_so(void **state)
{
	struct artifact_fault fault = { "" };
	struct shop *shop = *state;
	struct key key;

	artifacts_close(shop->store);
	set(shop, "artifact_bytes", "0");
	assert_int_equal(
	    artifacts_open(&shop->conf, &shop->store, &shop->why), ERR_OK);
	assert_int_equal(put(shop, "a", "x", 1, &key, &fault), ERR_SYS);
	assert_non_null(strstr(fault.text, "artifact_bytes"));
}

/* ---- time ---------------------------------------------------------------- */

static void
an_expired_one_is_told_and_then_removed(void **state)
{
	struct shop *shop = *state;
	struct key old = must_put(shop, "a", "x", 1);
	struct key new = must_put(shop, "b", "x", 1);

	age(shop, old, 3601, 0);
	age(shop, new, 3590, 3590);
	assert_int_equal(get(shop, old), ERR_EXPIRED);
	assert_int_equal(get(shop, new), ERR_OK);
	artifacts_sweep(shop->store);
	assert_int_equal(get(shop, old), ERR_NOT_FOUND);
	assert_int_equal(get(shop, new), ERR_OK);
	assert_int_equal(count(shop, NULL), 1);
}

static void
one_from_the_future_does_not_live_for_ever(void **state)
{
	struct shop *shop = *state;
	struct key key = must_put(shop, "a", "x", 1);

	age(shop, key, -4000, 0);
	assert_int_equal(get(shop, key), ERR_EXPIRED);
	artifacts_sweep(shop->store);
	assert_int_equal(count(shop, NULL), 0);
}

static void
one_that_is_being_read_may_be_removed(void **state)
{
	CLEANUP_BUF struct buf out = { .max = 100 };
	struct shop *shop = *state;
	struct key key = must_put(shop, "a", "xyz", 3);
	struct artifact a;

	assert_int_equal(artifact_get(shop->store, key.id, &a), ERR_OK);
	age(shop, key, 4000, 4000);
	artifacts_sweep(shop->store);
	assert_int_equal(count(shop, NULL), 0);
	assert_int_equal(artifact_read(&a, &out), ERR_OK);
	assert_string_equal(buf_str(&out), "xyz");
	artifact_done(&a);
}

/* ---- limits -------------------------------------------------------------- */

static void
the_least_recently_used_go_first(void **state)
{
	static char data[20000];
	struct shop *shop = *state;
	struct key keys[8], more;

	set(shop, "artifact_bytes", "170K");
	for (int i = 0; i < 8; i++) {
		keys[i] = must_put(shop, "a", data, sizeof(data));
		age(shop, keys[i], 100 - i, 100 - i);
	}
	/* the oldest is used now */
	assert_int_equal(get(shop, keys[0]), ERR_OK);
	more = must_put(shop, "b", data, sizeof(data));
	assert_int_equal(get(shop, more), ERR_OK);
	assert_int_equal(get(shop, keys[0]), ERR_OK);
	assert_int_equal(get(shop, keys[1]), ERR_NOT_FOUND);
	assert_int_equal(get(shop, keys[7]), ERR_OK);
}

static void
bytes_on_disk_stay_below_the_limit(void **state)
{
	static char data[30000];
	struct shop *shop = *state;
	uint64_t sum = 0;
	DIR *dir;
	struct dirent *e;

	set(shop, "artifact_bytes", "300K");
	for (int i = 0; i < 40; i++)
		must_put(shop, "a", data, i % 3 == 0 ? 10 : sizeof(data));
	dir = opendir(shop->sub);
	while ((e = readdir(dir)) != NULL) {
		struct stat st;

		assert_int_equal(fstatat(dirfd(dir), e->d_name, &st, 0), 0);
		sum += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	}
	closedir(dir);
	assert_in_range(sum, 200 << 10, 300 << 10);
}

static void
their_number_is_bounded(void **state)
{
	struct shop *shop = *state;

	set(shop, "artifact_files", "20");
	for (int i = 0; i < 50; i++)
		must_put(shop, "a", "x", 1);
	assert_in_range(count(shop, NULL), 15, 20);
}

static void
one_too_large_is_refused_with_the_setting(void **state)
{
	static char data[4000];
	struct artifact_fault fault = { "" };
	struct shop *shop = *state;
	struct key key;

	set(shop, "artifact_max", "2000");
	assert_int_equal(put(shop, "a", data, 2001, &key, &fault), ERR_LIMIT);
	assert_non_null(strstr(fault.text, "artifact_max"));
	assert_int_equal(put(shop, "a", data, 2000, &key, &fault), ERR_OK);
	set(shop, "artifact_bytes", "70000");
	assert_int_equal(put(shop, "a", data, 2000, &key, &fault), ERR_OK);
	set(shop, "artifact_max", "1G");
	set(shop, "artifact_bytes", "68000");
	assert_int_equal(put(shop, "a", data, 4000, &key, &fault), ERR_LIMIT);
	assert_non_null(strstr(fault.text, "artifact_bytes"));
}

static void
wrong_sums_are_put_right_by_a_sweep(void **state)
{
	struct shop *shop = *state;
	struct key key = must_put(shop, "a", "x", 1);
	uint64_t sums[2] = { UINT64_MAX / 2, 1 << 30 };
	char path[120];
	int fd;

	snprintf(path, sizeof(path), "%s/usage", shop->sub);
	fd = open(path, O_WRONLY);
	assert_int_equal(write(fd, sums, sizeof(sums)), sizeof(sums));
	close(fd);
	must_put(shop, "b", "x", 1);
	assert_int_equal(get(shop, key), ERR_OK);
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, sums, sizeof(sums)), sizeof(sums));
	close(fd);
	assert_int_equal(sums[0], 8192);
	assert_int_equal(sums[1], 2);
}

static void
a_stopped_process_that_holds_the_lock_stops_nobody(void **state)
{
	struct shop *shop = *state;
	struct key key = must_put(shop, "a", "x", 1);
	uint64_t before;
	char path[120];
	int fd;

	snprintf(path, sizeof(path), "%s/usage", shop->sub);
	fd = open(path, O_RDWR);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	before = clock_ms();
	key = must_put(shop, "a", "x", 1);
	artifacts_sweep(shop->store);
	assert_in_range(clock_ms() - before, 500, 10000);
	assert_int_equal(get(shop, key), ERR_OK);
	close(fd);
}

/* ---- damage -------------------------------------------------------------- */

static void
rewrite(const struct shop *shop, struct key key, const char *text, size_t n,
    long at)
{
	char path[160];
	FILE *file;

	path_of(shop, key, path, sizeof(path));
	file = fopen(path, at >= 0 ? "r+b" : "wb");
	assert_non_null(file);
	assert_int_equal(fseek(file, at >= 0 ? at : 0, SEEK_SET), 0);
	assert_int_equal(fwrite(text, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
}

static void
a_damaged_file_is_no_artifact(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		long at;
	} rows[] = {
		{ "", 0, -1 },
		{ "x", 1, -1 },
		{ "PSARTIF1", 8, -1 },
		{ "PSARTIF1ffffffff{}", 18, -1 },
		{ "PSARTIF100000000{}", 18, -1 },
		{ "PSARTIF100000002{}", 18, -1 },
		{ "PSARTIF1-0000002{}", 18, -1 },
		{ "PSARTIF1zzzzzzzz{}", 18, -1 },
		{ "PSARTIF2", 8, 0 },
		{ "\0", 1, 20 },
		{ "[", 1, 16 },
		{ "PSARTIF100000013{\"name\":1,\"type\":2}", 35, -1 },
	};
	struct shop *shop = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct key key = must_put(shop, "name", "data", 4);

		assert_int_equal(get(shop, key), ERR_OK);
		rewrite(shop, key, rows[i].text, rows[i].len, rows[i].at);
		if (get(shop, key) != ERR_NOT_FOUND)
			fail_msg("row %zu", i);
	}
}

static void
a_shortened_file_is_no_artifact(void **state)
{
	struct shop *shop = *state;
	struct key key = must_put(shop, "name", "data", 4);
	char path[160];

	path_of(shop, key, path, sizeof(path));
	for (off_t n = 70; n >= 0; n--) {
		struct stat st;

		assert_int_equal(stat(path, &st), 0);
		if (n >= st.st_size)
			continue;
		assert_int_equal(truncate(path, n), 0);
		assert_int_equal(get(shop, key), ERR_NOT_FOUND);
	}
}

static void
what_a_dead_process_left_half_written_is_removed(void **state)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - 700 },
		{ .tv_sec = time(NULL) - 700 } };
	struct shop *shop = *state;
	char path[160];

	must_put(shop, "a", "x", 1);
	snprintf(path, sizeof(path), "%s/tmp.x", shop->sub);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	artifacts_sweep(shop->store);
	assert_int_equal(count(shop, "tmp."), 1);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	artifacts_sweep(shop->store);
	assert_int_equal(count(shop, "tmp."), 0);
	assert_int_equal(count(shop, NULL), 1);
}

/* ---- several processes --------------------------------------------------- */

#define CHILDREN 4
#define ROUNDS 60

static void
child(struct shop *shop, int n)
{
	char data[3000];

	for (int i = 0; i < ROUNDS; i++) {
		CLEANUP_BUF struct buf out = { .max = sizeof(data) };
		struct artifact_fault fault;
		struct artifact a;
		struct key key;
		enum err rc;

		memset(data, 'a' + n, sizeof(data));
		if (put(shop, "x", data, sizeof(data), &key, &fault) != ERR_OK)
			_exit(2);
		if (i % 8 == n)
			artifacts_sweep(shop->store);
		/* others may have removed it, but never half of it */
		rc = artifact_get(shop->store, key.id, &a);
		if (rc == ERR_NOT_FOUND)
			continue;
		if (rc != ERR_OK || artifact_read(&a, &out) != ERR_OK ||
		    memcmp(out.data, data, sizeof(data)) != 0)
			_exit(3);
		artifact_done(&a);
	}
	_exit(0);
}

static void
several_processes_write_and_sweep_at_once(void **state)
{
	struct shop *shop = *state;
	pid_t pids[CHILDREN];
	int status;

	set(shop, "artifact_files", "50");
	for (int i = 0; i < CHILDREN; i++) {
		if ((pids[i] = fork()) == 0)
			child(shop, i);
		assert_true(pids[i] > 0);
	}
	for (int i = 0; i < CHILDREN; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_in_range(count(shop, NULL), 40, 50);
	assert_int_equal(count(shop, "tmp."), 0);
}

static void
an_artifact_outlives_the_process_that_made_it(void **state)
{
	struct shop *shop = *state;
	int status, ends[2];
	struct key key;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	if ((pid = fork()) == 0) {
		key = must_put(shop, "a", "kept", 4);
		if (write(ends[1], &key, sizeof(key)) != sizeof(key))
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(read(ends[0], &key, sizeof(key)), sizeof(key));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(get(shop, key), ERR_OK);
	close(ends[0]);
	close(ends[1]);
}

/* ---- a full disk --------------------------------------------------------- */

static void
a_full_disk_is_a_reason_and_leaves_nothing(void **state)
{
	static char data[300000];
	struct artifact_fault fault = { "" };
	struct shop *shop = *state;
	struct key key, small;
	bool told = false;

	if (mount("none", shop->sub, "tmpfs", 0, "size=512k,mode=700") != 0) {
		/* only root can have a small disk */
		assert_int_equal(errno, EPERM);
		skip();
	}
	small = must_put(shop, "small", "x", 1);
	for (int i = 0; i < 2 && !told; i++)
		told =
		    put(shop, "a", data, sizeof(data), &key, &fault) == ERR_SYS;
	assert_true(told);
	assert_non_null(strstr(fault.text, "disk is full"));
	assert_int_equal(count(shop, "tmp."), 0);
	assert_int_equal(get(shop, small), ERR_OK);
	assert_int_equal(umount(shop->sub), 0);
}

/* ---- addresses ----------------------------------------------------------- */

#define ID "0123456789abcdef0123456789abcdef"

static void
names_are_encoded_for_addresses(void **state)
{
	static const struct {
		const char *name, *encoded;
	} rows[] = {
		{ "plot.png", "plot.png" },
		{ "out dir/\xe5\x9b\xbe #1 100%.png",
		    "%E5%9B%BE%20%231%20100%25.png" },
		{ "a?b&c=d+e", "a%3Fb%26c%3Dd%2Be" },
		{ "\"'<>\\", "%22%27%3C%3E_" },
		{ "a\nb\r\x7f\x01", "a_b___" },
		{ "..", "file" },
		{ ".", "file" },
		{ "", "file" },
		{ "a/", "file" },
		{ "a/..", "file" },
		{ ".hidden", ".hidden" },
		{ "../../etc/passwd", "passwd" },
		{ "\xff\xfe", "%FF%FE" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_BUF struct buf out = { .max = 1024 };
		char uri[600], id[ARTIFACT_ID_LEN + 1];

		assert_int_equal(artifact_ref(&out, ID, rows[i].name), ERR_OK);
		assert_memory_equal(out.data, ID "/", 33);
		assert_string_equal(out.data + 33, rows[i].encoded);
		snprintf(uri, sizeof(uri), "%s%s", ARTIFACT_URI, out.data);
		assert_int_equal(artifact_uri_parse(uri, id), ERR_OK);
		assert_string_equal(id, ID);
	}
}

static void
a_long_name_keeps_its_ending(void **state)
{
	CLEANUP_BUF struct buf out = { .max = 1024 };
	char name[1000] = "";

	(void)state;
	for (int i = 0; i < 300; i++)
		memcpy(name + 3 * i, "\xe5\x9b\xbe", 4);
	memcpy(name + 900, ".tar.gz", 8);
	assert_int_equal(artifact_ref(&out, ID, name), ERR_OK);
	assert_in_range(out.len, 700, 805);
	assert_memory_equal(out.data, ID "/%E5", 36);
	assert_string_equal(out.data + out.len - 7, ".tar.gz");
}

static void
what_is_no_address_of_ours_is_refused(void **state)
{
	static const char *const rows[] = { "", "sandbox://files/",
		"sandbox://files/" ID, "sandbox://files/" ID "/",
		"sandbox://files/" ID "/a/b", "sandbox://files/" ID "0/a",
		"sandbox://files/"
		"0123456789ABCDEF0123456789abcdef/a",
		"sandbox://environment", "file:///etc/passwd",
		"SANDBOX://files/" ID "/a", " sandbox://files/" ID "/a" };
	char id[ARTIFACT_ID_LEN + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (artifact_uri_parse(rows[i], id) != ERR_NOT_FOUND)
			fail_msg("%s", rows[i]);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_kept_comes_back_with_its_name),
		TEST(an_empty_one_is_one),
		TEST(folder_and_files_are_of_the_user_alone),
		TEST(what_is_no_id_is_not_found),
		TEST(links_and_fifos_are_not_followed),
		TEST(a_folder_that_others_may_enter_is_refused),
		TEST(a_link_is_no_folder),
		TEST(a_folder_cleared_away_is_made_again),
		TEST(without_a_setting_a_folder_of_the_user_is_chosen),
		TEST(nothing_is_kept_when_told_so),
		TEST(an_expired_one_is_told_and_then_removed),
		TEST(one_from_the_future_does_not_live_for_ever),
		TEST(one_that_is_being_read_may_be_removed),
		TEST(the_least_recently_used_go_first),
		TEST(bytes_on_disk_stay_below_the_limit),
		TEST(their_number_is_bounded),
		TEST(one_too_large_is_refused_with_the_setting),
		TEST(wrong_sums_are_put_right_by_a_sweep),
		TEST(a_stopped_process_that_holds_the_lock_stops_nobody),
		TEST(a_damaged_file_is_no_artifact),
		TEST(a_shortened_file_is_no_artifact),
		TEST(what_a_dead_process_left_half_written_is_removed),
		TEST(several_processes_write_and_sweep_at_once),
		TEST(an_artifact_outlives_the_process_that_made_it),
		TEST(a_full_disk_is_a_reason_and_leaves_nothing),
		cmocka_unit_test(names_are_encoded_for_addresses),
		cmocka_unit_test(a_long_name_keeps_its_ending),
		cmocka_unit_test(what_is_no_address_of_ours_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
