/*
 * Settings: one table, CONF_ROWS, yields the configuration file, the
 * environment (PYTHON_SANDBOX_NAME in capitals), --check-config,
 * --print-config and the table in the README. Every limit is a row.
 *
 * Later sources win: default, file, environment, command line.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

/* clang-format off: a table */
/* X(type, name, default, minimum, maximum, help)
 * type: STR text; INT a number; BYTES a number with K, M or G; MS a duration
 * written with ms, s, m or h; BOOL yes or no. Lists are text, separated by
 * commas. */
#define CONF_ROWS(X) \
	/* where the sandbox is */ \
	X(STR, snekbox_url, "", 0, 4096, \
	    "addresses of the sandbox, separated by commas: " \
	    "http://host:8060/eval or " \
	    "unix:/path/of/sandboxd.sock; tried in turn") \
	X(INT, sandbox_workers, "2", 1, 1024, \
	    "programs that each sandbox address runs at once") \
	X(MS, sandbox_connect_timeout, "2s", 10, 600000, \
	    "longest wait for a connection to the sandbox") \
	X(MS, sandbox_time_limit, "6s", 1000, 3600000, \
	    "the sandbox's own time limit of a program; for sandboxd the one " \
	    "it sets") \
	X(MS, sandbox_reply_timeout, "20s", 1000, 7200000, \
	    "longest wait for the sandbox's answer after the time limit has " \
	    "passed") \
	X(BYTES, sandbox_reply_max, "96M", 65536, 1073741824, \
	    "largest answer accepted from the sandbox") \
	X(MS, sandbox_retry_after, "5s", 10, 600000, \
	    "how long a dead sandbox address is set aside") \
	/* the address we serve */ \
	X(STR, base_path, "", 0, 512, \
	    "path under which clients reach the server, where the web server " \
	    "strips " \
	    "it; empty: taken from REQUEST_URI") \
	X(STR, allowed_origins, "", 0, 8192, \
	    "origins that browsers may call from beside loopback ones, " \
	    "separated by " \
	    "commas") \
	X(STR, allowed_hosts, "", 0, 8192, \
	    "names in Host that are served beside loopback ones when the web " \
	    "server " \
	    "listens on loopback, separated by commas") \
	X(STR, listen, "", 0, 107, \
	    "Unix socket to listen on; empty: descriptor 0, as the web " \
	    "server gives it") \
	X(INT, listen_backlog, "1024", 1, 65535, "backlog of that socket") \
	/* requests */ \
	X(BYTES, body_max, "8M", 1024, 268435456, "largest request body") \
	X(BYTES, header_max, "64K", 4096, 1048576, \
	    "largest sum of a request's header fields") \
	X(MS, request_timeout, "30s", 100, 600000, \
	    "time in which a request must have arrived whole") \
	X(INT, json_depth, "100", 8, 1000, "deepest nesting of JSON") \
	X(INT, requests_max, "512", 1, 65535, \
	    "requests that may arrive or be worked on at once, in a process") \
	X(INT, worker_threads, "2", 1, 64, \
	    "threads of a process that parse requests and shape answers") \
	/* streams and sessions */ \
	X(BYTES, stream_queue_max, "4M", 65536, 268435456, \
	    "bytes that may wait for a slow client before it is dropped") \
	X(MS, keepalive_idle, "15s", 100, 600000, \
	    "time between comments on an idle stream") \
	X(MS, keepalive_busy, "500ms", 50, 600000, \
	    "time between comments while a program runs that its stream's " \
	    "end cancels") \
	X(INT, sessions_max, "16384", 16, 1048576, \
	    "slots of the session table") \
	X(INT, calls_max, "1024", 16, 65536, "slots for calls under way") \
	X(INT, processes_max, "128", 4, 1024, "slots for processes") \
	X(INT, session_calls_max, "16", 1, 1024, \
	    "calls under way that one session may have") \
	X(STR, state_name, "", 0, 64, \
	    "instance name of the shared table; empty: default") \
	X(STR, run_dir, "", 0, 80, \
	    "folder for sockets between processes; empty: chosen") \
	X(MS, session_idle, "24h", 1000, 2592000000, \
	    "how long a session of Streamable HTTP is kept without a " \
	    "message") \
	X(MS, events_time, "5m", 100, 86400000, \
	    "how long the events of a stream are kept for clients that come " \
	    "back") \
	X(BYTES, events_bytes, "256M", 0, 68719476736, \
	    "bytes of all kept events; the oldest go first; 0: none are " \
	    "kept") \
	X(MS, shutdown_grace, "7s", 0, 600000, \
	    "time in which runs may finish after SIGTERM") \
	/* admission */ \
	X(INT, queue_max, "100", 0, 65536, \
	    "calls that may wait for the sandbox, over all processes") \
	X(MS, queue_timeout, "60s", 100, 3600000, "longest wait of a call") \
	/* results */ \
	X(BYTES, code_max, "6M", 1024, 268435456, "largest program") \
	X(BYTES, output_max, "64K", 256, 16777216, \
	    "longest text of a result; of more, head and tail are kept") \
	X(BYTES, result_max, "1000000", 20000, 268435456, \
	    "largest result, base64 counted") \
	X(INT, figures_max, "20", 0, 1000, \
	    "figures sent as images in one result") \
	X(INT, figures_pixels_max, "2000", 64, 100000, \
	    "pixels of a figure's longer side; an open figure is drawn at a " \
	    "lower " \
	    "resolution to fit") \
	X(BOOL, text_json, "yes", 0, 1, \
	    "the first text block is the result as JSON (as the " \
	    "predecessor's clients " \
	    "parse it); no: plain text") \
	/* files to fetch */ \
	X(STR, artifact_dir, "", 0, 200, \
	    "folder where files of results are kept, of this user alone; " \
	    "empty: /var/tmp/python-sandbox-UID") \
	X(MS, artifact_time, "1h", 1000, 2592000000, \
	    "how long a result's files can be fetched") \
	X(BYTES, artifact_bytes, "1G", 0, 1099511627776, \
	    "bytes of all such files; those used least recently go first; 0: " \
	    "none are " \
	    "kept") \
	X(INT, artifact_files, "20000", 1, 1000000, \
	    "number of all such files") \
	X(BYTES, artifact_max, "64M", 1024, 17179869184, "largest such file") \
	X(STR, public_url, "", 0, 512, \
	    "address by which people reach the server, with its path, such " \
	    "as " \
	    "https://host/tools/python: links in results are absolute with " \
	    "it") \
	/* what is there */ \
	X(MS, environment_refresh, "10m", 0, 86400000, \
	    "age at which what is known of the sandbox (version, packages) " \
	    "is asked " \
	    "again, by a program of our own; 0: never asked") \
	/* the embedded sandbox (sandboxd) */ \
	X(STR, sandboxd_listen, "", 0, 255, \
	    "where sandboxd listens: unix:/path or 127.0.0.1:port") \
	X(INT, sandboxd_workers, "0", 0, 1024, \
	    "programs that sandboxd runs at once; 0: as many as processors") \
	X(INT, sandboxd_queue, "64", 0, 65536, \
	    "requests that may wait in sandboxd") \
	X(BYTES, sandboxd_body_max, "64M", 65536, 1073741824, \
	    "largest request to sandboxd") \
	X(STR, sandboxd_user, "", 0, 64, \
	    "user whom sandboxd becomes when started by root") \
	X(STR, sandboxd_python, "/usr/bin/python3", 1, 255, \
	    "interpreters that programs may run under, the default first, " \
	    "separated " \
	    "by commas") \
	X(BYTES, jail_memory, "512M", 33554432, 68719476736, \
	    "memory of a program, by cgroup where delegated and as address " \
	    "space") \
	X(BYTES, jail_output, "1000000", 1000, 268435456, \
	    "characters of output after which a program is ended") \
	X(BYTES, jail_disk, "48M", 65536, 17179869184, \
	    "bytes that a program may store") \
	X(INT, jail_inodes, "4096", 64, 1048576, \
	    "files and folders that a program may make") \
	X(INT, jail_processes, "64", 4, 4096, \
	    "processes and threads of a program") \
	X(INT, jail_descriptors, "256", 16, 65536, \
	    "descriptors of one process of a program") \
	X(INT, jail_files, "100", 1, 100000, "files returned of a run") \
	X(STR, jail_paths, "", 0, 8192, \
	    "more read-only paths of the host inside the jail, separated by " \
	    "commas") \
	/* the log */ \
	X(STR, log_level, "info", 1, 16, "error, warn, info or debug") \
	X(STR, log_file, "", 0, 255, "file for the log; empty: standard error")

/* clang-format on */

enum conf_type { CONF_STR, CONF_INT, CONF_BYTES, CONF_MS, CONF_BOOL };

struct conf {
#define CONF_FIELD_STR(name) char *name;
#define CONF_FIELD_INT(name) uint64_t name;
#define CONF_FIELD_BYTES(name) uint64_t name;
#define CONF_FIELD_MS(name) uint64_t name;
#define CONF_FIELD_BOOL(name) bool name;
#define CONF_FIELD(type, name, dflt, min, max, help) CONF_FIELD_##type(name)
	CONF_ROWS(CONF_FIELD)
#undef CONF_FIELD
};

/* A fault in a setting, as one sentence with its place and the bounds. */
struct conf_fault {
	char text[512];
};

/* Fills conf with the defaults. Release with conf_done. */
enum err conf_init(struct conf *conf) MUST_CHECK;
void conf_done(struct conf *conf);

/* Sets one row from text. ERR_NOT_FOUND for an unknown name, ERR_CONF for a
 * value outside its bounds; *fault (may be NULL) then says what is wrong. */
enum err conf_set(struct conf *conf, const char *name, const char *value,
    struct conf_fault *fault) MUST_CHECK;

/* Reads "name = value" lines; # begins a comment. ERR_SYS when the file can't
 * be read, ERR_CONF with its line number for a wrong line. */
enum err conf_load_file(
    struct conf *conf, const char *path, struct conf_fault *fault) MUST_CHECK;

/* Reads PYTHON_SANDBOX_… (and SNEKBOX_URL) from an environment block such as
 * environ. An unknown PYTHON_SANDBOX_ name is ERR_CONF: a mistyped limit must
 * not be a missing limit. Empty values are passed over. */
enum err conf_load_env(
    struct conf *conf, char *const *env, struct conf_fault *fault) MUST_CHECK;

/* Everything a program does at its start: defaults, the file (--config FILE,
 * else PYTHON_SANDBOX_CONFIG, else /etc/python-sandbox.conf where it exists),
 * environment, --set name=value options, which it takes out of argv. */
enum err conf_load(struct conf *conf, int *argc, char **argv, char *const *env,
    struct conf_fault *fault) MUST_CHECK;

/* Prints the settings in force, in the file's own format with the help as
 * comments: what is printed can be read again. */
void conf_print(const struct conf *conf, FILE *out);

/* Prints the table of names, defaults, bounds and meanings as Markdown. */
void conf_print_table(FILE *out);

/* Splits a list at commas and blanks: calls each(item, arg) with every item
 * that is not empty. Stops at the first that returns not ERR_OK. */
enum err conf_each(const char *list,
    enum err (*each)(const char *item, void *arg), void *arg) MUST_CHECK;

#endif
