#include "sandboxd/init_image.h"

const unsigned char init_image[] = {
#include "sandboxd_init.inc"
};
const size_t init_image_len = sizeof(init_image);
