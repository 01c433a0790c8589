#!/bin/sh
# Runs each fuzz target over its seeds and a number of new inputs:
# run-fuzz.sh RUNS PROGRAM…. New inputs go to a folder that is thrown away.
set -eu

runs=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
for program in "$@"; do
	name=${program##*/}
	seeds=tests/fuzz/seeds/${name#fuzz_}
	mkdir -p "$work/$name"
	[ -d "$seeds" ] || seeds=
	echo "== $name"
	# shellcheck disable=SC2086  # seeds may be no word at all
	"$program" -runs="$runs" -max_len=8192 -timeout=10 -rss_limit_mb=1024 \
	    -artifact_prefix="$work/" -print_final_stats=0 -verbosity=0 \
	    "$work/$name" $seeds 2>"$work/log" || {
		cat "$work/log" >&2
		for finding in "$work"/crash-* "$work"/timeout-* "$work"/oom-* \
		    "$work"/leak-*; do
			[ -e "$finding" ] && base64 "$finding" >&2
		done
		exit 1
	}
	count=$((count + 1))
done
echo "fuzz targets: $count passed, 0 failed"
[ "$count" -gt 0 ]
