/* Framing of server-sent events (WHATWG HTML). Pure functions. */
#ifndef TRANSPORT_EVENT_STREAM_H
#define TRANSPORT_EVENT_STREAM_H

#include <stddef.h>

#include "base/buf.h"

/* A comment, which clients pass over: written to keep a stream alive. */
#define EVENT_STREAM_COMMENT ": keep-alive\n\n"

/* Appends one event of the given name. Data with line ends (LF, CR, CRLF)
 * becomes several data lines, so that nothing in it can begin a field of its
 * own; the client joins them with LF. */
enum err event_stream_event(
    struct buf *out, const char *name, const char *data, size_t n) MUST_CHECK;

#endif
