#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/conf.h"

#define ENV_PREFIX "PYTHON_SANDBOX_"
#define ENV_FILE "PYTHON_SANDBOX_CONFIG"
#define ENV_URL "SNEKBOX_URL"
#define DEFAULT_FILE "/etc/python-sandbox.conf"

struct row {
	const char *name;
	enum conf_type type;
	size_t offset; /* of the field in struct conf */
	const char *dflt;
	uint64_t min, max; /* of the value; of the length for CONF_STR */
	const char *help;
};

static const struct row rows[] = {
#define ROW(type, name, dflt, min, max, help) \
	{ #name, CONF_##type, offsetof(struct conf, name), dflt, min, max, \
		help },
	CONF_ROWS(ROW)
#undef ROW
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

struct unit {
	const char *name;
	uint64_t factor;
};

/* The largest unit comes first: printing takes the first that divides. */
static const struct unit byte_units[] = { { "G", 1ULL << 30 },
	{ "M", 1ULL << 20 }, { "K", 1ULL << 10 }, { "", 1 }, { NULL, 0 } };
static const struct unit time_units[] = { { "h", 3600000 }, { "m", 60000 },
	{ "s", 1000 }, { "ms", 1 }, { NULL, 0 } };
static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };

static const struct unit *
units_of(enum conf_type type)
{
	switch (type) {
	case CONF_BYTES:
		return byte_units;
	case CONF_MS:
		return time_units;
	case CONF_INT:
	case CONF_STR:
	case CONF_BOOL:
		break;
	}
	return no_units;
}

static void __attribute__((format(printf, 2, 3)))
set_fault(struct conf_fault *fault, const char *fmt, ...)
{
	va_list ap;

	if (fault == NULL)
		return;
	va_start(ap, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, ap);
	va_end(ap);
}

static const struct row *
find_row(const char *name)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	}
	return NULL;
}

static void *
field(struct conf *conf, const struct row *row)
{
	return (char *)conf + row->offset;
}

static const void *
const_field(const struct conf *conf, const struct row *row)
{
	return (const char *)conf + row->offset;
}

/* Writes a number the way the file takes it. */
static void
print_number(char *out, size_t size, enum conf_type type, uint64_t value)
{
	const struct unit *u = units_of(type);

	while (u[1].name != NULL && (value == 0 || value % u->factor != 0))
		u++;
	snprintf(out, size, "%llu%s", (unsigned long long)(value / u->factor),
	    u->name);
}

static enum err
set_number(struct conf *conf, const struct row *row, const char *value,
    struct conf_fault *fault)
{
	const struct unit *u;
	unsigned long long n;
	char lo[32], hi[32], *end;

	errno = 0;
	n = strtoull(value, &end, 10);
	if (!isdigit((unsigned char)value[0]) || errno != 0)
		goto bad;
	for (u = units_of(row->type); u->name != NULL; u++) {
		if (strcmp(u->name, end) == 0)
			break;
	}
	if (u->name == NULL || n > UINT64_MAX / u->factor)
		goto bad;
	n *= u->factor;
	if (n < row->min || n > row->max)
		goto bad;
	*(uint64_t *)field(conf, row) = n;
	return ERR_OK;
bad:
	print_number(lo, sizeof(lo), row->type, row->min);
	print_number(hi, sizeof(hi), row->type, row->max);
	set_fault(fault, "%s = %.64s: wanted %s from %s to %s", row->name,
	    value,
	    row->type == CONF_BYTES    ? "bytes (a number, with K, M or G)"
		: row->type == CONF_MS ? "a duration (with ms, s, m or h)"
				       : "a number",
	    lo, hi);
	return ERR_CONF;
}

static enum err
set_string(struct conf *conf, const struct row *row, const char *value,
    struct conf_fault *fault)
{
	char **p = field(conf, row);
	size_t len = strlen(value);
	char *copy;

	if (len < row->min || len > row->max) {
		set_fault(fault, "%s: %zu characters; wanted %llu to %llu",
		    row->name, len, (unsigned long long)row->min,
		    (unsigned long long)row->max);
		return ERR_CONF;
	}
	for (const char *c = value; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || *c == '"') {
			set_fault(fault,
			    "%s: a control character or a quote "
			    "stands in the value",
			    row->name);
			return ERR_CONF;
		}
	}
	if ((copy = strdup(value)) == NULL)
		return ERR_NOMEM;
	free(*p);
	*p = copy;
	return ERR_OK;
}

static enum err
set_bool(struct conf *conf, const struct row *row, const char *value,
    struct conf_fault *fault)
{
	bool yes = strcmp(value, "yes") == 0;

	if (!yes && strcmp(value, "no") != 0) {
		set_fault(
		    fault, "%s = %.64s: wanted yes or no", row->name, value);
		return ERR_CONF;
	}
	*(bool *)field(conf, row) = yes;
	return ERR_OK;
}

static enum err
set_row(struct conf *conf, const struct row *row, const char *value,
    struct conf_fault *fault)
{
	switch (row->type) {
	case CONF_STR:
		return set_string(conf, row, value, fault);
	case CONF_BOOL:
		return set_bool(conf, row, value, fault);
	case CONF_INT:
	case CONF_BYTES:
	case CONF_MS:
		break;
	}
	return set_number(conf, row, value, fault);
}

enum err
conf_init(struct conf *conf)
{
	enum err rc;

	*conf = (struct conf){ 0 };
	for (size_t i = 0; i < N_ROWS; i++) {
		if ((rc = set_row(conf, &rows[i], rows[i].dflt, NULL)) !=
		    ERR_OK) {
			conf_done(conf);
			return rc;
		}
	}
	return ERR_OK;
}

void
conf_done(struct conf *conf)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		char **p = field(conf, &rows[i]);

		if (rows[i].type == CONF_STR) {
			free(*p);
			*p = NULL;
		}
	}
}

enum err
conf_set(struct conf *conf, const char *name, const char *value,
    struct conf_fault *fault)
{
	const struct row *row = find_row(name);

	if (row == NULL) {
		set_fault(fault,
		    "%.64s: there is no such setting "
		    "(--print-config lists them)",
		    name);
		return ERR_NOT_FOUND;
	}
	return set_row(conf, row, value, fault);
}

/* Cuts blanks off both ends, in place. */
static char *
trim(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	for (n = strlen(s); n > 0 && isspace((unsigned char)s[n - 1]); n--)
		s[n - 1] = '\0';
	return s;
}

/* One line of the file: "name = value", blank, or a comment. A value may
 * stand in double quotes, which keep blanks and #. */
static enum err
load_line(struct conf *conf, char *line, struct conf_fault *fault)
{
	char *value, *end;

	line = trim(line);
	if (line[0] == '\0' || line[0] == '#')
		return ERR_OK;
	if ((value = strchr(line, '=')) == NULL) {
		set_fault(fault, "%.64s: wanted name = value", line);
		return ERR_CONF;
	}
	*value++ = '\0';
	value = trim(value);
	if (value[0] == '"') {
		if ((end = strchr(++value, '"')) == NULL) {
			set_fault(fault, "%.64s: the quote is not closed",
			    trim(line));
			return ERR_CONF;
		}
		*end = '\0';
	} else if ((end = strstr(value, " #")) != NULL) {
		*end = '\0';
		value = trim(value);
	}
	return conf_set(conf, trim(line), value, fault);
}

enum err
conf_load_file(struct conf *conf, const char *path, struct conf_fault *fault)
{
	CLEANUP_FILE FILE *f = fopen(path, "re");
	CLEANUP_FREE char *line = NULL;
	struct conf_fault inner = { "" };
	size_t size = 0;
	unsigned n = 0;
	enum err rc;

	if (f == NULL) {
		set_fault(fault, "%.200s: %s", path, strerror(errno));
		return ERR_SYS;
	}
	while (getline(&line, &size, f) > 0) {
		n++;
		if ((rc = load_line(conf, line, &inner)) != ERR_OK) {
			set_fault(fault, "%.200s, line %u: %.256s", path, n,
			    inner.text);
			return rc == ERR_NOMEM ? rc : ERR_CONF;
		}
	}
	return ERR_OK;
}

/* "OUTPUT_MAX" to "output_max". False when it is too long to be a name. */
static bool
env_to_name(char *out, size_t size, const char *env, size_t len)
{
	if (len >= size)
		return false;
	for (size_t i = 0; i < len; i++)
		out[i] = (char)tolower((unsigned char)env[i]);
	out[len] = '\0';
	return true;
}

static enum err
load_env_item(struct conf *conf, const char *item, struct conf_fault *fault)
{
	const char *eq = strchr(item, '=');
	char name[64];
	size_t skip = sizeof(ENV_PREFIX) - 1;

	if (eq == NULL || eq[1] == '\0')
		return ERR_OK;
	if (strncmp(item, ENV_URL "=", sizeof(ENV_URL)) == 0)
		return conf_set(conf, "snekbox_url", eq + 1, fault);
	if (strncmp(item, ENV_PREFIX, skip) != 0 ||
	    strncmp(item, ENV_FILE "=", sizeof(ENV_FILE)) == 0)
		return ERR_OK;
	if (!env_to_name(
		name, sizeof(name), item + skip, (size_t)(eq - item) - skip)) {
		set_fault(fault, "%.64s…: there is no such setting", item);
		return ERR_CONF;
	}
	return conf_set(conf, name, eq + 1, fault);
}

enum err
conf_load_env(struct conf *conf, char *const *env, struct conf_fault *fault)
{
	struct conf_fault inner = { "" };

	for (; *env != NULL; env++) {
		enum err rc = load_env_item(conf, *env, &inner);

		if (rc != ERR_OK) {
			set_fault(fault, "environment: %.400s", inner.text);
			return rc == ERR_NOMEM ? rc : ERR_CONF;
		}
	}
	return ERR_OK;
}

/* Takes "--name VALUE" or "--name=VALUE" at argv[i] out of argv. NULL when it
 * is another word; "" as *ret_missing when the value is missing. */
static char *
take_option(const char *name, int *argc, char **argv, int i, bool *ret_missing)
{
	size_t len = strlen(name);
	char *value = NULL;
	int taken = 1;

	*ret_missing = false;
	if (strncmp(argv[i], name, len) != 0)
		return NULL;
	if (argv[i][len] == '=') {
		value = argv[i] + len + 1;
	} else if (argv[i][len] != '\0') {
		return NULL;
	} else if (i + 1 < *argc) {
		value = argv[i + 1];
		taken = 2;
	} else {
		*ret_missing = true;
		return NULL;
	}
	memmove(argv + i, argv + i + taken,
	    sizeof(*argv) * (size_t)(*argc - i - taken + 1));
	*argc -= taken;
	return value;
}

/* Finds the file option; NULL when there is none. */
static enum err
take_file(
    int *argc, char **argv, const char **ret_path, struct conf_fault *fault)
{
	bool missing;
	char *value;

	for (int i = 1; i < *argc;) {
		value = take_option("--config", argc, argv, i, &missing);
		if (missing) {
			set_fault(fault, "--config: wanted the name of a file");
			return ERR_CONF;
		}
		if (value == NULL)
			i++;
		else
			*ret_path = value;
	}
	return ERR_OK;
}

static enum err
take_sets(struct conf *conf, int *argc, char **argv, struct conf_fault *fault)
{
	bool missing;
	char *value, *eq;
	enum err rc;

	for (int i = 1; i < *argc;) {
		value = take_option("--set", argc, argv, i, &missing);
		if (value == NULL && !missing) {
			i++;
			continue;
		}
		if (missing || (eq = strchr(value, '=')) == NULL) {
			set_fault(fault, "--set: wanted name=value");
			return ERR_CONF;
		}
		*eq = '\0';
		rc = conf_set(conf, value, eq + 1, fault);
		*eq = '=';
		if (rc != ERR_OK)
			return rc == ERR_NOT_FOUND ? ERR_CONF : rc;
	}
	return ERR_OK;
}

/* The value of a variable in an environment block, or NULL. */
static const char *
env_get(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; *env != NULL; env++) {
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	}
	return NULL;
}

enum err
conf_load(struct conf *conf, int *argc, char **argv, char *const *env,
    struct conf_fault *fault)
{
	const char *path = NULL;
	enum err rc;

	if ((rc = conf_init(conf)) != ERR_OK)
		return rc;
	if ((rc = take_file(argc, argv, &path, fault)) != ERR_OK)
		goto fail;
	if (path == NULL)
		path = env_get(env, ENV_FILE);
	if (path == NULL && access(DEFAULT_FILE, R_OK) == 0)
		path = DEFAULT_FILE;
	if (path != NULL && path[0] != '\0' &&
	    (rc = conf_load_file(conf, path, fault)) != ERR_OK)
		goto fail;
	if ((rc = conf_load_env(conf, env, fault)) != ERR_OK ||
	    (rc = take_sets(conf, argc, argv, fault)) != ERR_OK)
		goto fail;
	return ERR_OK;
fail:
	conf_done(conf);
	return rc;
}

static void
print_value(const struct conf *conf, const struct row *row, FILE *out)
{
	char number[32];

	switch (row->type) {
	case CONF_STR:
		fprintf(out, "\"%s\"", *(char *const *)const_field(conf, row));
		return;
	case CONF_BOOL:
		fputs(
		    *(const bool *)const_field(conf, row) ? "yes" : "no", out);
		return;
	case CONF_INT:
	case CONF_BYTES:
	case CONF_MS:
		break;
	}
	print_number(number, sizeof(number), row->type,
	    *(const uint64_t *)const_field(conf, row));
	fputs(number, out);
}

void
conf_print(const struct conf *conf, FILE *out)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		fprintf(out, "# %s\n%s = ", rows[i].help, rows[i].name);
		print_value(conf, &rows[i], out);
		fputs("\n\n", out);
	}
}

static void
print_bounds(const struct row *row, FILE *out)
{
	char lo[32], hi[32];

	switch (row->type) {
	case CONF_STR:
		fprintf(out, "text, at most %llu characters",
		    (unsigned long long)row->max);
		return;
	case CONF_BOOL:
		fputs("`yes` or `no`", out);
		return;
	case CONF_INT:
	case CONF_BYTES:
	case CONF_MS:
		break;
	}
	print_number(lo, sizeof(lo), row->type, row->min);
	print_number(hi, sizeof(hi), row->type, row->max);
	fprintf(out, "%s to %s", lo, hi);
}

void
conf_print_table(FILE *out)
{
	fputs("| setting | default | bounds | meaning |\n|---|---|---|---|\n",
	    out);
	for (size_t i = 0; i < N_ROWS; i++) {
		fprintf(out, "| `%s` | %s%s%s | ", rows[i].name,
		    rows[i].dflt[0] != '\0' ? "`" : "",
		    rows[i].dflt[0] != '\0' ? rows[i].dflt : "empty",
		    rows[i].dflt[0] != '\0' ? "`" : "");
		print_bounds(&rows[i], out);
		fprintf(out, " | %s |\n", rows[i].help);
	}
}

enum err
conf_each(
    const char *list, enum err (*each)(const char *item, void *arg), void *arg)
{
	CLEANUP_FREE char *copy = strdup(list);
	char *save = NULL;
	enum err rc;

	if (copy == NULL)
		return ERR_NOMEM;
	for (char *item = strtok_r(copy, ", \t", &save); item != NULL;
	     item = strtok_r(NULL, ", \t", &save)) {
		if ((rc = each(item, arg)) != ERR_OK)
			return rc;
	}
	return ERR_OK;
}
