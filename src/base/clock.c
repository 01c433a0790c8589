#include <time.h>

#include "base/clock.h"

uint64_t
clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int64_t
clock_wall(void)
{
	return (int64_t)time(NULL);
}
