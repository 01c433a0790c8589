#!/bin/sh
# Runs the unit tests: run-unit.sh WRAP PROGRAM…. Fails if any of them does.
set -u

wrap=$1
shift
passed=0
failed=0
for program in "$@"; do
	echo "== ${program##*/}"
	# shellcheck disable=SC2086  # WRAP is a command with its options
	if $wrap "$program"; then
		passed=$((passed + 1))
	else
		echo "FAILED: $program" >&2
		failed=$((failed + 1))
	fi
done
echo "unit programs: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
