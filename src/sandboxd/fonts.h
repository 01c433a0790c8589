/*
 * matplotlib looks through all fonts of the machine when it finds no list of
 * them, which costs a tenth of a second. So one run at the start of the
 * service makes that list, and every jail gets it read-only in a folder that
 * is writable otherwise (matplotlib complains about one that is not).
 */
#ifndef SANDBOXD_FONTS_H
#define SANDBOXD_FONTS_H

/* The request that makes the list. */
#define FONTS_REQUEST \
	"{\"input\": \"try:\\n import matplotlib.font_manager\\n" \
	"except ImportError:\\n pass\", \"timeout\": 60}"

/* Copies the list out of the run's matplotlib folder (cache) to where
 * jail_prepare finds it. When there is none, nothing changes. */
void fonts_keep(const char *base, int cache);

#endif
