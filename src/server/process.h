/*
 * What the process is to its surroundings: signals, limits, memory.
 */
#ifndef SERVER_PROCESS_H
#define SERVER_PROCESS_H

#define PROCESS_SIGNALS 3

/* The signals that end the process. */
extern const int process_signals[PROCESS_SIGNALS];

/* First of all: limits and memory as they should be; the signals
 * that end the process wait. */
void process_prepare(void);

/* Everything is open and handlers are set: nothing of it is for children, and
 * signals come. */
void process_ready(void);

#endif
