/* The program of init/init.c, as part of this one. */
#ifndef SANDBOXD_INIT_IMAGE_H
#define SANDBOXD_INIT_IMAGE_H

#include <stddef.h>

extern const unsigned char init_image[];
extern const size_t init_image_len;

#endif
