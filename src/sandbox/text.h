/*
 * Program output made safe and readable: ANSI and OSC sequences removed,
 * carriage returns folded to the last state of a line, backspaces applied,
 * control characters and NUL made visible, bytes that are not UTF-8 replaced
 * by U+FFFD; U+2028, U+2029 and NEL are kept. Pure functions.
 */
#ifndef SANDBOX_TEXT_H
#define SANDBOX_TEXT_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends the cleaned form of n bytes, which may hold anything. */
enum err text_clean(struct buf *out, const char *data, size_t n) MUST_CHECK;

/* Appends text bounded to budget bytes: whole when it fits, else head and
 * tail cut at character borders with a line between that says how many bytes
 * are missing. *ret_cut tells which (may be NULL). text is valid UTF-8. */
enum err text_bound(struct buf *out, const char *text, size_t n, size_t budget,
    bool *ret_cut) MUST_CHECK;

#endif
