/* The names of event files; private to the event log. */
#ifndef TRANSPORT_EVENT_LOG_FILE_H
#define TRANSPORT_EVENT_LOG_FILE_H

#define EVENT_LOG_PREFIX "events-"
/* digits of a session's id in a name: its random part */
#define EVENT_LOG_SESSION 32

#endif
