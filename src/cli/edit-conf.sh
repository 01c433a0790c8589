#!/bin/sh
# Prints a web server's example configuration with other values:
#     edit-conf.sh lighttpd.conf.example port=8080 mount=/tools/python
# Knows "var.NAME = VALUE" of lighttpd and "Define sandbox_NAME VALUE" of
# Apache. A name that is not there is an error: an example and its users must
# not drift apart.
set -eu

file=$1
shift
text=$(cat "$file")
for pair in "$@"; do
	name=${pair%%=*}
	value=${pair#*=}
	text=$(printf '%s\n' "$text" | NAME=$name VALUE=$value awk '
	$1 == "var." ENVIRON["NAME"] && $2 == "=" {
		quoted = ($3 ~ /^"/)
		print $1 " = " (quoted ? "\"" ENVIRON["VALUE"] "\"" \
		    : ENVIRON["VALUE"])
		done = 1
		next
	}
	$1 == "Define" && $2 == "sandbox_" ENVIRON["NAME"] {
		print "Define " $2 " \"" ENVIRON["VALUE"] "\""
		done = 1
		next
	}
	{ print }
	END { exit !done }') || {
		echo "$file has no value named $name" >&2
		exit 1
	}
done
printf '%s\n' "$text"
