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

#endif
