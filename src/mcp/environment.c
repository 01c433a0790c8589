#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "mcp/environment.h"
#include "mcp/execute.h"
#include "mcp/resource.h"
#include "mcp/tool.h"

#define WORD_MAX 64
#define PACKAGES_MAX 5000
#define NAMES_SHOWN 1200 /* bytes of a list of names in a sentence */
#define NOTABLE_SHOWN 10
#define RETRY_MS 15000 /* before a sandbox that did not answer is asked again */
#define BUSY_MS 1000   /* before one that was busy is */
#define NOTE "environment"
#define NOTE_MAX ((size_t)1 << 20)
#define REASON_MAX 200
#define MESSAGE_MAX 16384

/* Runs on Python 3.8 and later; short, for the least code_max. */
static const char probe[] =
    "import sys\n"
    "from importlib import metadata\n"
    "print('python', '.'.join(map(str, sys.version_info[:3])),"
    " sys.implementation.name)\n"
    "seen = {}\n"
    "for d in metadata.distributions():\n"
    "    try:\n"
    "        seen.setdefault(d.metadata['Name'], d.version)\n"
    "    except Exception:\n"
    "        pass\n"
    "for n in sorted(filter(None, seen), key=str.lower):\n"
    "    print('package', n, seen[n])\n";

struct package {
	char name[WORD_MAX + 1], version[WORD_MAX + 1];
};

struct facts {
	bool known;
	char version[WORD_MAX + 1], implementation[WORD_MAX + 1];
	struct package *packages; /* owned */
	size_t n;
};

struct environment {
	struct sink sink;
	struct mcp *mcp;             /* borrowed */
	struct mcp_session *session; /* owned; ours, for the program */
	bool asking;
	bool others;          /* another process is asking */
	int claim;            /* owned: while we ask; -1: none */
	uint64_t next_ms;     /* clock_ms from when it is to be asked again */
	pthread_mutex_t lock; /* of what follows */
	struct facts facts;
	char reason[REASON_MAX]; /* why nothing is known */
};

/* ---- what the program says ----------------------------------------------- */

/* Takes the next word of a line; only what names and versions consist of. */
static bool
take_word(const char **at, char *ret_word)
{
	static const char chars[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "0123456789._-+!";
	size_t n = strspn(*at, chars);

	if (n == 0 || n > WORD_MAX)
		return false;
	memcpy(ret_word, *at, n);
	ret_word[n] = '\0';
	*at += n;
	if (**at == ' ')
		(*at)++;
	return true;
}

static enum err
add_package(struct facts *facts, size_t *cap, const struct package *package)
{
	if (facts->n == *cap) {
		size_t more = *cap == 0 ? 64 : 2 * *cap;
		struct package *moved =
		    realloc(facts->packages, more * sizeof(*moved));

		if (moved == NULL)
			return ERR_NOMEM;
		facts->packages = moved;
		*cap = more;
	}
	facts->packages[facts->n++] = *package;
	return ERR_OK;
}

static enum err
read_line(const char *line, struct facts *facts, size_t *cap)
{
	char kind[WORD_MAX + 1];
	struct package package;

	if (!take_word(&line, kind))
		return ERR_OK;
	if (strcmp(kind, "python") == 0)
		facts->known = take_word(&line, facts->version) &&
		    take_word(&line, facts->implementation);
	else if (strcmp(kind, "package") == 0 && facts->n < PACKAGES_MAX &&
	    take_word(&line, package.name) && take_word(&line, package.version))
		return add_package(facts, cap, &package);
	return ERR_OK;
}

/* Lines that are none of ours are passed over. */
static enum err
read_output(const char *text, struct facts *ret_facts)
{
	struct facts facts = { .known = false };
	size_t cap = 0;
	enum err rc = ERR_OK;

	while (*text != '\0' && rc == ERR_OK) {
		size_t n = strcspn(text, "\n");

		rc = read_line(text, &facts, &cap);
		text += n + (text[n] == '\n');
	}
	if (rc == ERR_OK && !facts.known)
		rc = ERR_PARSE;
	if (rc != ERR_OK) {
		free(facts.packages);
		return rc;
	}
	*ret_facts = facts;
	return ERR_OK;
}

/* ---- asking -------------------------------------------------------------- */

static void
note_reason(struct environment *environment, const char *text)
{
	pthread_mutex_lock(&environment->lock);
	snprintf(environment->reason, sizeof(environment->reason), "%s", text);
	pthread_mutex_unlock(&environment->lock);
	log_info("environment.unknown", "reason=\"%s\"", text);
}

static void
note_facts(struct environment *environment, struct facts *facts)
{
	struct package *old = environment->facts.packages;

	pthread_mutex_lock(&environment->lock);
	environment->facts = *facts;
	pthread_mutex_unlock(&environment->lock);
	free(old);
	log_info("environment.known", "python=%s packages=%zu", facts->version,
	    facts->n);
}

static void
finish(struct environment *environment, uint64_t again_ms)
{
	if (environment->claim >= 0)
		close(environment->claim);
	environment->claim = -1;
	environment->asking = false;
	environment->next_ms = clock_ms() + again_ms;
	resource_wake(environment->mcp);
}

/* The other processes need not ask, then. */
static void
leave_note(struct environment *environment, const char *output)
{
	const struct mcp *mcp = environment->mcp;
	CLEANUP_BUF struct buf text = { .max = NOTE_MAX };

	if (buf_printf(&text, "%s\n%s", mcp->conf->snekbox_url, output) !=
		ERR_OK ||
	    artifact_note_put(mcp->artifacts, NOTE, text.data, text.len) !=
		ERR_OK)
		log_debug("environment.note", "written=no");
}

/* Takes what another process, or an earlier one, has found; false when there
 * is nothing that is young enough, or it is of another sandbox. */
static bool
take_note(struct environment *environment)
{
	const struct mcp *mcp = environment->mcp;
	int64_t age, most = (int64_t)(mcp->conf->environment_refresh / 1000);
	CLEANUP_BUF struct buf text = { .max = NOTE_MAX };
	size_t n = strlen(mcp->conf->snekbox_url);
	struct facts facts;

	if (artifact_note_get(mcp->artifacts, NOTE, &text, &age) != ERR_OK ||
	    age < 0 || age >= most ||
	    strncmp(buf_str(&text), mcp->conf->snekbox_url, n) != 0 ||
	    text.data[n] != '\n' ||
	    read_output(text.data + n + 1, &facts) != ERR_OK)
		return false;
	note_facts(environment, &facts);
	environment->others = false;
	finish(environment, (uint64_t)(most - age) * 1000);
	return true;
}

static struct environment *
of_sink(struct sink *sink)
{
	return (struct environment *)(void *)((char *)sink -
	    offsetof(struct environment, sink));
}

static void
probe_notify(struct sink *sink, const char *json, size_t len)
{
	(void)sink;
	(void)json;
	(void)len;
}

/* The result of our program, as a client would get it. */
static void
probe_reply(struct sink *sink, const char *json, size_t len)
{
	struct environment *environment = of_sink(sink);
	CLEANUP_JSON cJSON *root = NULL;
	const cJSON *s;
	uint64_t again = environment->mcp->conf->environment_refresh;
	const char *output, *why = NULL, *type;
	struct facts facts;

	if (json_parse(json, len, 16, &root, NULL) != ERR_OK)
		why = "the answer could not be read";
	s = json_get(json_get(root, "result"), "structuredContent");
	output = json_get_string(s, "stdout");
	if (output != NULL && read_output(output, &facts) == ERR_OK) {
		note_facts(environment, &facts);
		leave_note(environment, output);
	} else {
		type = json_get_string(s, "error_type");
		again = type != NULL && strcmp(type, "busy") == 0 ? BUSY_MS
								  : RETRY_MS;
		if (why == NULL)
			why = json_get_string(s, "error_message");
		note_reason(environment,
		    why != NULL ? why : "the sandbox did not tell");
	}
	finish(environment, again);
}

static void
probe_drop(struct sink *sink)
{
	note_reason(of_sink(sink), "the server is shutting down");
	finish(of_sink(sink), RETRY_MS);
}

/* Makes the message that calls the tool with our program. */
static enum err
make_message(const struct conf *conf, struct rpc_message **ret_message)
{
	CLEANUP_BUF struct buf text = { .max = MESSAGE_MAX };
	struct rpc_fault fault;
	enum err rc;

	if ((rc = buf_puts(&text,
		 "{\"jsonrpc\":\"2.0\",\"id\":\"environment\",\"method\":"
		 "\"tools/call\",\"params\":{\"name\":\"" TOOL_NAME
		 "\",\"arguments\":{\"python_code\":")) != ERR_OK ||
	    (rc = json_quote(&text, probe, strlen(probe))) != ERR_OK ||
	    (rc = buf_puts(&text, "}}}")) != ERR_OK)
		return rc;
	return rpc_parse(text.data, text.len, conf, ret_message, &fault);
}

static enum err
make_session(struct environment *environment)
{
	enum err rc;

	if (environment->session != NULL)
		return ERR_OK;
	rc = mcp_session_new(environment->mcp, "environment", "environment",
	    &environment->session);
	if (rc != ERR_OK)
		return rc;
	environment->session->internal = true;
	environment->session->revision = REVISION_NEWEST;
	return ERR_OK;
}

static enum err
ask(struct environment *environment)
{
	static const struct sink_ops ops = { probe_notify, probe_reply,
		probe_drop };
	struct rpc_message *message;
	struct request request;
	enum err rc;

	if ((rc = make_session(environment)) != ERR_OK ||
	    (rc = make_message(environment->mcp->conf, &message)) != ERR_OK)
		return rc;
	environment->asking = true;
	environment->sink.ops = &ops;
	request.session = environment->session;
	request.message = message;
	request.sink = &environment->sink;
	execute_call(&request);
	return ERR_OK;
}

void
environment_need(struct environment *environment)
{
	const struct mcp *mcp = environment->mcp;
	enum err rc;

	if (mcp->conf->environment_refresh == 0 || mcp->draining ||
	    environment->asking || clock_ms() < environment->next_ms ||
	    snekbox_endpoints(mcp->snekbox) == 0 || take_note(environment))
		return;
	rc = artifact_note_claim(mcp->artifacts, NOTE, &environment->claim);
	/* without a folder everybody asks for himself */
	environment->others = rc == ERR_BUSY;
	if (environment->others)
		return;
	if (ask(environment) != ERR_OK) {
		note_reason(environment, "out of memory");
		finish(environment, RETRY_MS);
	}
}

bool
environment_pending(const struct environment *environment)
{
	return (environment->asking || environment->others) &&
	    !environment->facts.known;
}

void
environment_tick(struct environment *environment)
{
	if (!environment->facts.known)
		environment_need(environment);
}

/* ---- life ---------------------------------------------------------------- */

enum err
environment_open(struct mcp *mcp, struct environment **ret_environment)
{
	struct environment *environment = calloc(1, sizeof(*environment));

	if (environment == NULL)
		return ERR_NOMEM;
	environment->mcp = mcp;
	environment->claim = -1;
	snprintf(environment->reason, sizeof(environment->reason),
	    "the sandbox was not asked yet");
	pthread_mutex_init(&environment->lock, NULL);
	*ret_environment = environment;
	return ERR_OK;
}

void
environment_close(struct environment *environment)
{
	if (environment == NULL)
		return;
	mcp_session_free(environment->session);
	free(environment->facts.packages);
	pthread_mutex_destroy(&environment->lock);
	free(environment);
}

void
environment_drain(struct environment *environment)
{
	if (environment->session != NULL)
		execute_cancel_all(environment->session);
	if (environment->others)
		finish(environment, RETRY_MS);
	environment->others = false;
}

/* ---- telling ------------------------------------------------------------- */

static struct sandbox_limits
limits_of(const struct environment *environment)
{
	const struct mcp *mcp = environment->mcp;

	return mcp_limits(mcp, 0, mcp->conf->sandbox_time_limit);
}

/* How an operator adds a package. */
static const char *
adding(const struct environment *environment)
{
	const struct mcp *mcp = environment->mcp;

	if (snekbox_endpoints(mcp->snekbox) == 0 ||
	    snekbox_stops(mcp->snekbox, 0))
		return "the operator adds one as a Debian package (apt-get "
		       "install python3-NAME) on the sandbox's machine and "
		       "restarts sandboxd";
	return "the operator adds one inside the Snekbox container "
	       "(PYTHONUSERBASE=/snekbox/user_base python -m pip install "
	       "--user NAME)";
}

static enum err
put_python(struct buf *out, const struct environment *environment)
{
	const struct facts *facts = &environment->facts;
	enum err rc;

	if (facts->known)
		return buf_printf(out,
		    "\"python\":{\"version\":\"%s\",\"implementation\":"
		    "\"%s\"}",
		    facts->version, facts->implementation);
	rc = buf_puts(out, "\"python\":null,\"reason\":");
	if (rc == ERR_OK)
		rc = json_quote(
		    out, environment->reason, strlen(environment->reason));
	return rc;
}

static enum err
put_packages(struct buf *out, const struct facts *facts)
{
	enum err rc = buf_puts(out, ",\"packages\":[");

	for (size_t i = 0; i < facts->n && rc == ERR_OK; i++)
		rc = buf_printf(out, "%s{\"name\":\"%s\",\"version\":\"%s\"}",
		    i > 0 ? "," : "", facts->packages[i].name,
		    facts->packages[i].version);
	return rc == ERR_OK ? buf_puts(out, "]") : rc;
}

static enum err
put_limits(struct buf *out, const struct sandbox_limits *limits)
{
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{ "memory_bytes", limits->memory_bytes },
		{ "output_bytes", limits->output_bytes },
		{ "disk_bytes", limits->disk_bytes },
		{ "processes", limits->processes },
	};
	enum err rc = buf_printf(out, ",\"limits\":{\"time_seconds\":%g",
	    (double)limits->time_ms / 1000);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == ERR_OK;
	     i++) {
		if (rows[i].value > 0)
			rc = buf_printf(out, ",\"%s\":%" PRIu64, rows[i].name,
			    rows[i].value);
	}
	return rc == ERR_OK ? buf_puts(out, "}") : rc;
}

enum err
environment_json(struct environment *environment, struct buf *out)
{
	struct sandbox_limits limits = limits_of(environment);
	enum err rc;

	pthread_mutex_lock(&environment->lock);
	if ((rc = buf_puts(out, "{")) == ERR_OK &&
	    (rc = put_python(out, environment)) == ERR_OK)
		rc = put_packages(out, &environment->facts);
	pthread_mutex_unlock(&environment->lock);
	if (rc != ERR_OK || (rc = put_limits(out, &limits)) != ERR_OK)
		return rc;
	return buf_printf(out,
	    ",\"not_possible\":["
	    "\"network: there is none, nothing can be downloaded or "
	    "installed\","
	    "\"state: nothing is kept between calls, each begins in an empty "
	    "working folder\","
	    "\"conversation: standard input is what the call gives, nobody "
	    "answers while a program runs\","
	    "\"display: there is none; figures come back as images\"],"
	    "\"adding_packages\":\"%s\"}",
	    adding(environment));
}

/* Packages that people ask for most, in that order. */
static bool
is_notable(const char *name)
{
	static const char *const names[] = { "numpy", "pandas", "matplotlib",
		"scipy", "scikit-learn", "seaborn", "sympy", "pillow",
		"openpyxl", "statsmodels", "networkx", "plotly", "requests",
		"beautifulsoup4", "lxml", "pyarrow", "polars", "torch",
		"tensorflow", "opencv-python" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static enum err
put_notable(struct buf *out, const struct facts *facts)
{
	size_t shown = 0;
	enum err rc = buf_printf(out, " Python %s", facts->version);

	for (size_t i = 0; i < facts->n && rc == ERR_OK; i++) {
		const struct package *p = &facts->packages[i];

		if (shown >= NOTABLE_SHOWN || !is_notable(p->name))
			continue;
		rc = buf_printf(out, "%s %s %s", shown == 0 ? " with" : ",",
		    p->name, p->version);
		shown++;
	}
	if (rc == ERR_OK && facts->n > shown)
		rc = buf_printf(out, "%s %zu more packages",
		    shown == 0 ? " with" : " and", facts->n - shown);
	return rc == ERR_OK ? buf_puts(out, ".") : rc;
}

enum err
environment_brief(struct environment *environment, struct buf *out)
{
	struct sandbox_limits limits = limits_of(environment);
	enum err rc = ERR_OK;

	pthread_mutex_lock(&environment->lock);
	if (environment->facts.known)
		rc = put_notable(out, &environment->facts);
	pthread_mutex_unlock(&environment->lock);
	if (rc == ERR_OK)
		rc = buf_printf(
		    out, " Limits: %g s", (double)limits.time_ms / 1000);
	if (rc == ERR_OK && limits.memory_bytes > 0)
		rc = buf_printf(out, ", %" PRIu64 " MiB of memory",
		    limits.memory_bytes >> 20);
	if (rc == ERR_OK && limits.processes > 0)
		rc = buf_printf(
		    out, ", %" PRIu64 " processes", limits.processes);
	return rc != ERR_OK
	    ? rc
	    : buf_puts(out, ". All facts: resource " RESOURCE_ENVIRONMENT ".");
}

/* Names without versions, as many as a sentence takes. */
static enum err
put_names(struct buf *out, const struct facts *facts)
{
	size_t last = out->len + NAMES_SHOWN, i;
	enum err rc = ERR_OK;

	for (i = 0; i < facts->n && rc == ERR_OK && out->len < last; i++)
		rc = buf_printf(
		    out, "%s%s", i > 0 ? ", " : "", facts->packages[i].name);
	if (rc == ERR_OK && i < facts->n)
		rc = buf_printf(out, " and %zu more", facts->n - i);
	return rc;
}

enum err
environment_explain(struct environment *environment, struct outcome *outcome)
{
	CLEANUP_BUF struct buf text = { .max = 65536 };
	bool known;
	enum err rc;

	if (outcome->exception_type == NULL ||
	    strcmp(outcome->exception_type, "ModuleNotFoundError") != 0)
		return ERR_OK;
	rc = buf_printf(&text, "%s%sInstalled beside the standard library: ",
	    outcome->details != NULL ? outcome->details : "",
	    outcome->details != NULL ? " " : "");
	pthread_mutex_lock(&environment->lock);
	known = environment->facts.known;
	if (rc == ERR_OK && known)
		rc = environment->facts.n > 0
		    ? put_names(&text, &environment->facts)
		    : buf_puts(&text, "nothing");
	pthread_mutex_unlock(&environment->lock);
	if (rc == ERR_OK)
		rc = buf_printf(&text, "; %s.", adding(environment));
	/* details too long to add to stay as they are */
	if (rc != ERR_OK || !known)
		return rc == ERR_NOMEM ? rc : ERR_OK;
	free(outcome->details);
	outcome->details = buf_steal(&text, NULL);
	return outcome->details != NULL ? ERR_OK : ERR_NOMEM;
}
