/* Files of a run, saved where the caller wants them. */
#ifndef CLI_SAVE_H
#define CLI_SAVE_H

#include "sandbox/sandbox.h"

/* Saves every file of the outcome into the folder dir, which is made when it
 * is missing, under names without folders or anything odd, and says on standard
 * error what became of each. A file that is there is never overwritten: the
 * new one gets a number. Returns whether all were saved. */
bool save_files(const struct outcome *outcome, const char *dir);

#endif
