/* Pages for people. */
#ifndef TRANSPORT_PAGES_H
#define TRANSPORT_PAGES_H

#include "transport/exchange.h"

/* GET /: what this is and how to connect to it; HTML, or text for who does not
 * take HTML. Nothing in it comes from elsewhere. */
void pages_index(struct exchange *exchange);

#endif
