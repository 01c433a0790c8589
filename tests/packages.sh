#!/bin/sh
# Installs those of the named Debian packages that are missing, visibly; says
# nothing when there are none.
set -eu

missing=
for package in "$@"; do
	state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
	[ "$state" = "install ok installed" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "installing Debian packages:$missing"
as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "These packages are missing and neither root nor sudo is" \
		    "at hand. As root: apt-get install$missing" >&2
		exit 1
	}
	as_root=sudo
fi
export DEBIAN_FRONTEND=noninteractive
# a web server that the tests start themselves must not take port 80 when its
# package is installed
policy=/usr/sbin/policy-rc.d
made=
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
	$as_root chmod 755 $policy
	made=yes
	trap '[ -z "$made" ] || $as_root rm -f $policy' EXIT
fi
# shellcheck disable=SC2086  # the list is meant to be split
if ! { $as_root apt-get update -q -q &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q -q \
	--no-install-recommends $missing >/dev/null; }; then
	echo "apt-get could not install:$missing" >&2
	echo "Look at its messages above; then run it by hand:" \
	    "apt-get install$missing" >&2
	exit 1
fi
