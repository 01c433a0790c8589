/* Time. Durations and deadlines use the monotonic clock, in milliseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC: the same for all processes of a machine,
 * never set back. */
uint64_t clock_ms(void);

/* Seconds since 1970, for people. */
int64_t clock_wall(void);

#endif
