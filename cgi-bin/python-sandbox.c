/*
 * python-sandbox.fcgi: the MCP server that a web server starts over FastCGI.
 *
 * Exit codes: 0 ended by a signal, or an option that only prints; 1 could not
 * start or run; 2 a wrong option or setting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <event2/event.h>

#include "base/conf.h"
#include "sandbox/snekbox.h"
#include "server/app.h"
#include "server/process.h"

enum { EXIT_WRONG = 2 };

extern char **environ;

static void
usage(FILE *out)
{
	fputs(
	    "usage: python-sandbox.fcgi [option …]\n"
	    "An MCP server that runs Python programs in a sandbox; a web "
	    "server starts it\nover FastCGI (descriptor 0 is the listening "
	    "socket).\n\n"
	    "  --listen PATH      listen on a Unix socket instead\n"
	    "  --config FILE      settings (else PYTHON_SANDBOX_CONFIG, else "
	    "/etc/python-sandbox.conf)\n"
	    "  --set NAME=VALUE   one setting; may be repeated\n"
	    "  --check-config     check the settings, and end\n"
	    "  --print-config     print the settings in force, and end\n"
	    "  --print-settings-table  print all settings as Markdown, and "
	    "end\n"
	    "  --version          print the version and what it is built with\n"
	    "  --help             print this\n\n"
	    "Exit codes: 0 ended by a signal, 1 could not start, 2 wrong "
	    "option or setting.\n",
	    out);
}

static void
version(void)
{
	printf(
	    "python-sandbox %s\n"
	    "transports: FastCGI, HTTP+SSE\n"
	    "libraries: libfcgi, libevent %s, libcurl %s, cJSON %s, nettle\n",
	    VERSION, event_get_version(), snekbox_version(), cJSON_Version());
}

static int
wrong(const char *text)
{
	fprintf(stderr, "python-sandbox.fcgi: %s\n", text);
	return EXIT_WRONG;
}

/* What the options that conf_load left in argv ask for. */
struct options {
	bool check, print;
};

static enum err
parse(int argc, char **argv, struct conf *conf, struct options *ret_options,
    struct conf_fault *fault)
{
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];
		enum err rc;

		if (strcmp(arg, "--check-config") == 0) {
			ret_options->check = true;
		} else if (strcmp(arg, "--print-config") == 0) {
			ret_options->print = true;
		} else if (strcmp(arg, "--listen") == 0 && i + 1 < argc) {
			rc = conf_set(conf, "listen", argv[++i], fault);
			if (rc != ERR_OK)
				return rc;
		} else {
			snprintf(fault->text, sizeof(fault->text),
			    "%.100s: unknown option, or its value is missing "
			    "(try --help)",
			    arg);
			return ERR_CONF;
		}
	}
	return ERR_OK;
}

/* Beside the bounds, which are checked whenever settings are read: the
 * addresses of the sandbox. Nothing is connected to. */
static enum err
check(const struct conf *conf, struct conf_fault *fault)
{
	struct event_base *base = event_base_new();
	struct snekbox *snekbox = NULL;
	enum err rc = ERR_NOMEM;

	if (base == NULL)
		return rc;
	rc = snekbox_open(conf, base, fault, &snekbox);
	snekbox_close(snekbox);
	event_base_free(base);
	return rc;
}

static int
act(const struct conf *conf, const struct options *options)
{
	struct conf_fault fault = { "" };
	enum err rc;

	if (options->print) {
		conf_print(conf, stdout);
		return EXIT_SUCCESS;
	}
	if (options->check) {
		if ((rc = check(conf, &fault)) == ERR_OK) {
			puts("the settings are well-formed");
			return EXIT_SUCCESS;
		}
	} else if ((rc = app_run(conf, &fault)) == ERR_OK) {
		return EXIT_SUCCESS;
	}
	fprintf(stderr, "python-sandbox.fcgi: %s\n", fault.text);
	return rc == ERR_CONF ? EXIT_WRONG : EXIT_FAILURE;
}

/* These must work whatever the settings are. */
static bool
prints_only(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			usage(stdout);
			return true;
		}
		if (strcmp(argv[i], "--version") == 0) {
			version();
			return true;
		}
		if (strcmp(argv[i], "--print-settings-table") == 0) {
			conf_print_table(stdout);
			return true;
		}
	}
	return false;
}

int
main(int argc, char **argv)
{
	struct options options = { false, false };
	struct conf_fault fault = { "" };
	struct conf conf;
	int code;

	if (prints_only(argc, argv))
		return EXIT_SUCCESS;
	process_prepare();
	if (conf_load(&conf, &argc, argv, environ, &fault) != ERR_OK)
		return wrong(fault.text);
	code = parse(argc, argv, &conf, &options, &fault) == ERR_OK
	    ? act(&conf, &options)
	    : wrong(fault.text);
	conf_done(&conf);
	return code;
}
