/* sandboxd: runs Python programs in jails, behind Snekbox's HTTP API. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"
#include "sandboxd/service.h"

enum action {
	ACTION_SERVE,
	ACTION_CHECK,
	ACTION_PRINT,
	ACTION_VERSION,
	ACTION_HELP
};

static const struct {
	const char *option;
	enum action action;
} options[] = {
	{ "--check-config", ACTION_CHECK },
	{ "--print-config", ACTION_PRINT },
	{ "--version", ACTION_VERSION },
	{ "--help", ACTION_HELP },
};

static const char usage[] =
    "usage: sandboxd [--config FILE] [--set NAME=VALUE]...\n"
    "                [--check-config | --print-config | --version | --help]\n"
    "Serves POST /eval (Snekbox's API) and GET /healthz; see "
    "--print-config.\n";

/* What is left of argv once the settings have been taken out. */
static enum err
parse_action(int argc, char **argv, enum action *ret_action)
{
	*ret_action = ACTION_SERVE;
	for (int i = 1; i < argc; i++) {
		size_t n = sizeof(options) / sizeof(options[0]), o = 0;

		while (o < n && strcmp(options[o].option, argv[i]) != 0)
			o++;
		if (o == n) {
			fprintf(stderr, "sandboxd: what is %s?\n%s", argv[i],
			    usage);
			return ERR_CONF;
		}
		*ret_action = options[o].action;
	}
	return ERR_OK;
}

static enum err
open_log(const struct conf *conf, struct conf_fault *fault)
{
	enum log_level level;
	int fd = STDERR_FILENO;

	if (log_level_parse(conf->log_level, &level) != ERR_OK) {
		snprintf(fault->text, sizeof(fault->text),
		    "log_level: %s is "
		    "none of error, warn, info, debug",
		    conf->log_level);
		return ERR_CONF;
	}
	if (conf->log_file[0] != '\0')
		fd = open(conf->log_file,
		    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
	if (fd < 0) {
		snprintf(fault->text, sizeof(fault->text),
		    "log_file: %s "
		    "can't be written",
		    conf->log_file);
		return ERR_CONF;
	}
	log_setup(level, fd);
	return ERR_OK;
}

static enum err
act(enum action action, const struct conf *conf, struct conf_fault *fault)
{
	enum err rc;

	switch (action) {
	case ACTION_VERSION:
		puts("sandboxd " VERSION " (libevent, libseccomp, bubblewrap)");
		return ERR_OK;
	case ACTION_HELP:
		fputs(usage, stdout);
		return ERR_OK;
	case ACTION_PRINT:
		conf_print(conf, stdout);
		return ERR_OK;
	case ACTION_CHECK:
	case ACTION_SERVE:
		break;
	}
	if ((rc = open_log(conf, fault)) != ERR_OK)
		return rc;
	return action == ACTION_CHECK ? ERR_OK : service_run(conf, fault);
}

int
main(int argc, char **argv)
{
	struct conf_fault fault = { .text = "out of memory" };
	enum action action;
	struct conf conf;
	enum err rc;

	rc = conf_load(&conf, &argc, argv, environ, &fault);
	if (rc == ERR_OK && parse_action(argc, argv, &action) != ERR_OK) {
		conf_done(&conf);
		return 2;
	}
	if (rc == ERR_OK)
		rc = act(action, &conf, &fault);
	if (rc != ERR_OK)
		fprintf(stderr, "sandboxd: %s\n", fault.text);
	conf_done(&conf);
	return rc == ERR_OK ? 0 : 1;
}
