/*
 * python-sandbox: the same server and sandbox without a web server.
 *
 * Exit codes: 0 ended as it should; 1 could not start or run; 2 a wrong option
 * or setting; of run see command.h.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"
#include "cli/command.h"

extern char **environ;

static const char usage[] =
    "usage: python-sandbox COMMAND [option …]\n"
    "Runs Python programs in a sandbox.\n\n"
    "  stdio              serve MCP on standard input and output\n"
    "  run FILE           run one program (-: from standard input); text to\n"
    "                     standard output, figures and files beside FILE\n"
    "    --output DIR     or into this folder\n"
    "  check              look whether all is well here, and tell cures\n"
    "    --json           for programs\n\n"
    "  --config FILE      settings (else PYTHON_SANDBOX_CONFIG, else "
    "/etc/python-sandbox.conf)\n"
    "  --set NAME=VALUE   one setting; may be repeated\n"
    "  --version          print the version\n"
    "  --help             print this\n\n"
    "The sandbox is the one that snekbox_url (SNEKBOX_URL) names; without one\n"
    "sandboxd is started, and ended with the command.\n";

static int
wrong(const char *text)
{
	fprintf(stderr, "python-sandbox: %s\n", text);
	return EXIT_WRONG;
}

static enum err
open_log(const struct conf *conf, struct conf_fault *fault)
{
	enum log_level level;
	int fd = STDERR_FILENO;

	if (log_level_parse(conf->log_level, &level) != ERR_OK) {
		snprintf(fault->text, sizeof(fault->text),
		    "log_level must be error, warn, info or debug");
		return ERR_CONF;
	}
	if (conf->log_file[0] != '\0')
		fd = open(conf->log_file,
		    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	if (fd < 0) {
		snprintf(fault->text, sizeof(fault->text),
		    "%s: %m (setting log_file)", conf->log_file);
		return ERR_CONF;
	}
	log_setup(level, fd);
	return ERR_OK;
}

static bool
is_check(int argc, char **argv, bool *ret_json)
{
	*ret_json = argc == 3 && strcmp(argv[2], "--json") == 0;
	return (argc == 2 || *ret_json) && strcmp(argv[1], "check") == 0;
}

static int
act(int argc, char **argv, struct conf *conf)
{
	struct conf_fault fault;
	bool json, quiet = argc < 2 || strcmp(argv[1], "stdio") != 0;

	/* on a terminal the events of every day only disturb */
	if (quiet && strcmp(conf->log_level, "info") == 0 &&
	    conf_set(conf, "log_level", "error", &fault) != ERR_OK)
		return wrong(fault.text);
	if (open_log(conf, &fault) != ERR_OK)
		return wrong(fault.text);
	if (argc >= 2 && strcmp(argv[1], "run") == 0)
		return command_run(conf, argc - 2, argv + 2);
	if (is_check(argc, argv, &json))
		return command_check(conf, &fault, json);
	if (argc == 2 && strcmp(argv[1], "stdio") == 0)
		return command_stdio(conf);
	fputs(usage, stderr);
	return EXIT_WRONG;
}

/* These must work whatever the settings are. */
static bool
prints_only(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			fputs(usage, stdout);
			return true;
		}
		if (strcmp(argv[i], "--version") == 0) {
			puts("python-sandbox " VERSION);
			return true;
		}
	}
	return false;
}

int
main(int argc, char **argv)
{
	struct conf_fault fault = { "" };
	struct conf conf;
	bool json;
	int code;

	if (prints_only(argc, argv))
		return EXIT_SUCCESS;
	if (conf_load(&conf, &argc, argv, environ, &fault) != ERR_OK)
		return is_check(argc, argv, &json)
		    ? command_check(NULL, &fault, json)
		    : wrong(fault.text);
	code = act(argc, argv, &conf);
	conf_done(&conf);
	return code;
}
