/* GET and HEAD of PREFIX/files/ID/NAME: what results link to. */
#ifndef TRANSPORT_FILES_H
#define TRANSPORT_FILES_H

#include "transport/exchange.h"

/* The id is the permission; the name in the path is for people. In a
 * worker. */
void files_get(struct exchange *exchange);

#endif
