/* What the doctor found: a table of checks, printed for people or programs. */
#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H

#include "base/conf.h"

#define FINDINGS_MAX 32

enum finding_state { FINDING_OK, FINDING_WARNING, FINDING_FAULT };

struct finding {
	const char *name; /* borrowed, lives for ever */
	enum finding_state state;
	char found[512];
	char cure[512]; /* "" where all is well */
};

/* Zeros are an empty table. */
struct findings {
	size_t n;
	struct finding all[FINDINGS_MAX];
};

/* Adds a check. cure may be NULL. Beyond the table's size nothing is added. */
void findings_add(struct findings *findings, const char *name,
    enum finding_state state, const char *cure, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Whether no check is a fault. */
bool findings_good(const struct findings *findings);

/* Prints the table to standard output. ERR_NOMEM, ERR_SYS. */
enum err findings_print(const struct findings *findings, bool json) MUST_CHECK;

/* Looks at this machine: bubblewrap, user namespaces, cgroups. */
void findings_machine(struct findings *findings);

/* Looks for web servers and the program for them. */
void findings_web(struct findings *findings);

#endif
