#!/bin/sh
# Puts the program's table of settings into README.md: readme-table.sh PROGRAM
set -eu

table=$(mktemp)
trap 'rm -f "$table" "$table.new"' EXIT
"$1" --print-settings-table >"$table"
awk -v table="$table" '
/^\| setting / || /^SETTINGS-TABLE$/ {
	while ((getline line < table) > 0)
		print line
	skip = 1
}
skip && $0 !~ /^\|/ && $0 !~ /^SETTINGS-TABLE$/ { skip = 0 }
!skip { print }' README.md >"$table.new"
cat "$table.new" >README.md
