#!/bin/sh
# An include points sideways or down, never up; what knows a dependency is one
# file.
set -eu
bad=0

# layer, and the folders it may include beside itself
check() {
	layer=$1
	shift
	for file in src/"$layer"/*.[ch]; do
		[ -e "$file" ] || continue
		for include in $(sed -n 's|^#include "\([a-z_-]*\)/.*|\1|p' \
		    "$file" | sort -u); do
			case " $layer $* " in
			*" $include "*) ;;
			*)
				echo "$file includes $include/: not below it" >&2
				bad=1
				;;
			esac
		done
	done
}
check base
check state base
check sandbox base state
check mcp base state sandbox
check transport base state sandbox mcp
check server base state sandbox mcp transport
check sandboxd base
check cli base state sandbox mcp transport

# header, and the only files that may know it
only() {
	header=$1
	shift
	for file in $(grep -lE "^#include <$header>" -r src cgi-bin \
	    --include='*.[ch]' || true); do
		case " $* " in
		*" $file "*) ;;
		*)
			echo "$file includes <$header>: only $* may" >&2
			bad=1
			;;
		esac
	done
}
only 'fcgi[a-z]*\.h' src/server/fcgi.c
only 'curl/.*' src/sandbox/snekbox.c
only 'seccomp\.h' src/sandboxd/seccomp.c src/sandboxd/jail.c
only 'nettle/.*' src/base/base64.c
only 'magic\.h' src/sandbox/media.c
exit $bad
