/* The seccomp filter of every program, by libseccomp. */
#ifndef SANDBOXD_SECCOMP_H
#define SANDBOXD_SECCOMP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Makes the program that bwrap loads (owned). With bounded_memory false,
 * calls that get memory which no rlimit counts are refused too. ERR_SYS. */
enum err filter_make(bool bounded_memory, unsigned char **ret_filter,
    size_t *ret_len) MUST_CHECK;

#endif
