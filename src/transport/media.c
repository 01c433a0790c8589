/* Content-Type and Accept; declared in http.h. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "transport/http.h"

#define BLANKS " \t"

bool
http_type_is_json(const char *content_type)
{
	static const char json[] = "application/json";
	const char *at = content_type;
	size_t n = strlen(json);

	if (at == NULL)
		return true;
	at += strspn(at, BLANKS);
	if (*at == '\0')
		return true;
	if (strncasecmp(at, json, n) != 0)
		return false;
	at += n;
	at += strspn(at, BLANKS);
	return *at == '\0' || *at == ';';
}

/* The q-value of a media range, 1 where there is none or it is odd. */
static double
quality(const char *params, size_t n)
{
	const char *end = params + n;

	for (const char *at = params; at < end; at++) {
		if (*at != ';')
			continue;
		at += 1 + strspn(at + 1, BLANKS);
		if (end - at > 2 && (*at == 'q' || *at == 'Q') && at[1] == '=')
			return strtod(at + 2, NULL);
		at--;
	}
	return 1;
}

/* How well a range fits: 0 not at all, 1 for any type, 2 for its type, 3 for
 * exactly it. */
static int
fits(const char *range, size_t n, const char *media_type)
{
	size_t slash = strcspn(media_type, "/") + 1;

	if (n == 3 && memcmp(range, "*/*", 3) == 0)
		return 1;
	if (n == slash + 1 && range[n - 1] == '*' &&
	    strncasecmp(range, media_type, slash) == 0)
		return 2;
	if (n == strlen(media_type) && strncasecmp(range, media_type, n) == 0)
		return 3;
	return 0;
}

bool
http_accepts(const char *accept, const char *media_type)
{
	const char *at = accept;
	double q = 0;
	int best = 0;

	if (at == NULL || at[strspn(at, BLANKS)] == '\0')
		return true;
	while (*at != '\0') {
		size_t n = strcspn(at, ","), name;
		int fit;

		while (n > 0 && strchr(BLANKS, *at) != NULL) {
			at++;
			n--;
		}
		name = strcspn(at, ";, \t");
		fit = fits(at, name, media_type);
		if (fit > best) {
			best = fit;
			q = quality(at + name, n - name);
		}
		at += n;
		if (*at == ',')
			at++;
	}
	return best > 0 && q > 0;
}
