/* The commands of python-sandbox. Each returns the exit code. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/conf.h"

enum { EXIT_WRONG = 2 }; /* an option or a setting */

/* MCP on standard input and output. conf is borrowed and may be changed. */
int command_stdio(struct conf *conf);

/* Runs one program; argv holds what follows "run". The exit code is the
 * program's, 125 when it did not run. */
int command_run(struct conf *conf, int argc, char **argv);

/* The operator's doctor: prints what was looked at and the cure for what is
 * wrong. conf is NULL where the settings are: *fault says how. 0 when there is
 * no fault, else 1. */
int command_check(struct conf *conf, const struct conf_fault *fault, bool json);

#endif
