#!/bin/sh
# Form, layers, banned functions, headers, scripts: lint.sh CC. Says every
# fault, then fails if there was one.
set -u

cc=${1:-gcc}
bad=0
fault() {
	echo "lint: $*" >&2
	bad=1
}
sources=$(git ls-files --cached --others --exclude-standard \
    'src/*.[ch]' 'cgi-bin/*.[ch]' 'tests/*.[ch]')
scripts=$(git ls-files --cached --others --exclude-standard \
    '*.sh' '.ci/run')

# shellcheck disable=SC2086  # lists of files without blanks
clang-format --dry-run -Werror $sources || fault "clang-format -i mends these"

sh tests/check-layers.sh || bad=1

banned='strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|gets|alloca|system|popen|strncat'
# shellcheck disable=SC2086
if grep -nE "(^|[^a-zA-Z0-9_.>])($banned)[[:space:]]*\(" $sources; then
	fault "banned functions, see above"
fi

# what a clean-up attribute releases must have a value at every early return
# shellcheck disable=SC2086
if grep -nE '^[[:space:]]*CLEANUP_[A-Z]+ [^=]*;' $sources; then
	fault "clean-up variables without a value, see above"
fi

for header in $(git ls-files --cached --others --exclude-standard \
    'src/*.h'); do
	$cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Isrc \
	    -fsyntax-only -x c "$header" || fault "$header: not on its own"
done

# a literal where an enumerator is due compiles in C; C++ would refuse it
for source in $(git ls-files --cached --others --exclude-standard \
    'src/*.c' 'cgi-bin/*.c'); do
	gcc -std=c11 -D_GNU_SOURCE -DVERSION='""' -Isrc -Wc++-compat \
	    -fsyntax-only "$source" 2>&1 | grep -E 'enum conversion' &&
	    fault "$source: a literal where an enum is due"
done

# shellcheck disable=SC2086
shellcheck -e SC2317,SC2013 $scripts || fault "shellcheck, see above"

# the settings table of the README is the program's own
build=${BUILD_DIR:-build}
if [ -x "$build/python-sandbox.fcgi" ]; then
	"$build/python-sandbox.fcgi" --print-settings-table >"$build/settings.md"
	sed -n '/^| setting /,/^$/p' README.md | sed '/^$/d' |
	    diff - "$build/settings.md" ||
	    fault "README.md: the settings table is not the program's"
fi

[ $bad -eq 0 ] && echo "lint: clean"
exit $bad
