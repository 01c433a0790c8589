#!/bin/sh
# Prints C that holds the runner: embed.sh path/of/runner.py > runner_text.c
# All Python files beside the one named are taken, under their own names.
set -eu
export LC_ALL=C

folder=$(dirname "$1")

bytes() {
	od -An -v -tu1 "$1" | awk '{
		gsub(/^ +| +$/, "")
		gsub(/ +/, ",")
		print "\t" $0 ","
	}'
}

echo '#include "sandbox/runner_text.h"'
n=0
for file in "$folder"/*.py; do
	echo "static const unsigned char text_${n}[] = {"
	bytes "$file"
	echo "	0 };"
	n=$((n + 1))
done
echo "const struct runner_file runner_files[] = {"
n=0
for file in "$folder"/*.py; do
	echo "	{ \"$(basename "$file")\", (const char *)text_$n,"
	echo "	    sizeof(text_$n) - 1 },"
	n=$((n + 1))
done
echo "};"
echo "const size_t runner_files_count = $n;"
