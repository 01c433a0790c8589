#include <errno.h>
#include <sys/random.h>

#include "base/rnd.h"

enum err
rnd_bytes(void *ret_bytes, size_t n)
{
	unsigned char *p = ret_bytes;

	while (n > 0) {
		ssize_t got = getrandom(p, n, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return ERR_SYS;
		p += got;
		n -= (size_t)got;
	}
	return ERR_OK;
}

enum err
rnd_hex(char *ret_hex, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	enum err rc;

	/* the bytes stand in the upper half and are read before they are
	 * overwritten */
	if ((rc = rnd_bytes(ret_hex + n, n)) != ERR_OK)
		return rc;
	for (size_t i = 0; i < n; i++) {
		unsigned char b = (unsigned char)ret_hex[n + i];

		ret_hex[2 * i] = digits[b >> 4];
		ret_hex[2 * i + 1] = digits[b & 15];
	}
	ret_hex[2 * n] = '\0';
	return ERR_OK;
}
