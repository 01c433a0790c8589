#!/bin/bash
# What "make run" does once everything is built: starts the sandbox service and
# lighttpd with the program, shows a first result, and stays in the foreground.
# Ctrl-C or SIGTERM ends everything it started.
#
#     PORT=18080 PROCESSES=4 SNEKBOX_URL= BUILD_DIR=build serve.sh
set -euo pipefail

port=${PORT:-18080}
processes=${PROCESSES:-4}
build=${BUILD_DIR:-build}
here=$(cd "$(dirname "$0")/../.." && pwd)
url=http://127.0.0.1:$port
work=
web=
sandboxd=
watcher=

say() { printf '%s\n' "$*"; }
fail() {
	printf 'make run: %s\n' "$*" >&2
	exit 1
}

# ---- the end -------------------------------------------------------------
# the program's processes: children of lighttpd, which does not wait for them
responders() {
	local dir
	for dir in /proc/[0-9]*; do
		if [ "$(readlink "$dir/exe" 2>/dev/null)" = \
		    "$work/python-sandbox.fcgi" ]; then
			printf '%s\n' "${dir#/proc/}"
		fi
	done
}

# whether a process runs; one that has ended but was not waited for does not
lives() {
	local stat
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
	stat=${stat##*) }
	[ "${stat%% *}" != Z ]
}

# ends processes: SIGTERM, and SIGKILL after 10 s
end() {
	local tenths=100 pid
	for pid in "$@"; do
		kill -TERM "$pid" 2>/dev/null || true
	done
	for pid in "$@"; do
		while lives "$pid" && [ "$tenths" -gt 0 ]; do
			tenths=$((tenths - 1))
			sleep 0.1
		done
		kill -KILL "$pid" 2>/dev/null || true
	done
}

finish() {
	local status=$? pid
	trap - EXIT
	trap '' INT TERM HUP
	[ -z "$web" ] || end "$web"
	if [ -n "$work" ]; then
		mapfile -t pid < <(responders)
		end "${pid[@]}"
	fi
	[ -z "$sandboxd" ] || end "$sandboxd"
	[ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
	[ -z "$work" ] || rm -rf "$work" "/dev/shm/python-sandbox."*".run-$port."*
	exit "$status"
}
trap finish EXIT
trap 'say; say "stopping"; exit 0' INT TERM
# there may be no terminal any more to say it on
trap 'exit 0' HUP

# make stays when its terminal is closed, and tells nobody
on_terminal() { stty -g </dev/tty >/dev/null 2>&1; }
if on_terminal 2>/dev/null; then
	{
		while sleep 1 && on_terminal; do :; done 2>/dev/null
		kill -HUP $$
	} &
	watcher=$!
fi

# ---- checks --------------------------------------------------------------
case $port in
'' | *[!0-9]*) fail "PORT=$port is no number; try: make run PORT=18080" ;;
esac
case $processes in
'' | *[!0-9]* | 0) fail "PROCESSES=$processes: wanted a number from 1" ;;
esac
if [ "$port" -lt 1 ] || [ "$port" -gt 65535 ]; then
	fail "PORT=$port: wanted a number from 1 to 65535"
fi
case ${SNEKBOX_URL:-} in
'' | http://?* | unix:/?*) ;;
*) fail "SNEKBOX_URL=$SNEKBOX_URL: wanted http://host:port/eval or unix:/path" ;;
esac
for tool in lighttpd curl setpriv python3; do
	command -v "$tool" >/dev/null || fail "$tool is missing." \
	    "Install it: apt-get install lighttpd curl util-linux python3"
done
taken=$(python3 - "$port" <<'EOF'
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    s.bind(("127.0.0.1", int(sys.argv[1])))
    s.listen()
except OSError as e:
    print(e.strerror)
EOF
)
[ -z "$taken" ] || fail "127.0.0.1:$port can't be used ($taken)." \
    "Choose another port: make run PORT=$((port + 1))"

# ---- a folder of its own, for an unprivileged user ------------------------
work=$(mktemp -d "${TMPDIR:-/tmp}/python-sandbox.XXXXXX")
mkdir "$work/run" "$work/empty"
install -m 755 "$here/$build/python-sandbox.fcgi" "$here/$build/sandboxd" \
    "$work/"
as_user=()
if [ "$(id -u)" -eq 0 ]; then
	user=www-data
	as_user=(setpriv --reuid="$user" --regid="$user" --init-groups)
	chown "$user" "$work/run"
	chmod 755 "$work"
	chmod 700 "$work/run"
fi

# ---- the sandbox ---------------------------------------------------------
sandbox_url=${SNEKBOX_URL:-}
workers=2
if [ -z "$sandbox_url" ]; then
	sandbox_url=unix:$work/run/sandboxd.sock
	workers=$(nproc)
	options=(--set "sandboxd_listen=$sandbox_url")
	[ "$(id -u)" -ne 0 ] || options+=(--set "sandboxd_user=$user")
	setsid setpriv --pdeathsig TERM "$work/sandboxd" "${options[@]}" \
	    >"$work/sandboxd.log" 2>&1 </dev/null &
	sandboxd=$!
	for ((i = 0; ; i++)); do
		curl -fs -o /dev/null --unix-socket "$work/run/sandboxd.sock" \
		    http://sandboxd/healthz && break
		if ! kill -0 "$sandboxd" 2>/dev/null || [ $i -ge 300 ]; then
			cat "$work/sandboxd.log" >&2
			fail "the sandbox service did not start; its log" \
			    "stands above"
		fi
		sleep 0.1
	done
fi

# ---- the web server ------------------------------------------------------
cat >"$work/python-sandbox.conf" <<EOF
snekbox_url = "$sandbox_url"
sandbox_workers = $workers
state_name = "run-$port"
run_dir = "$work/run"
artifact_dir = "$work/run/artifacts"
public_url = "$url"
EOF
sh "$here/src/cli/edit-conf.sh" "$here/lighttpd.conf.example" \
    "port=$port" "processes=$processes" "program=$work/python-sandbox.fcgi" \
    "config=$work/python-sandbox.conf" "sockets=$work/run" \
    "docroot=$work/empty" >"$work/lighttpd.conf"
setsid "${as_user[@]}" setpriv --pdeathsig TERM \
    lighttpd -D -f "$work/lighttpd.conf" >"$work/lighttpd.log" 2>&1 \
    </dev/null &
web=$!
for ((i = 0; ; i++)); do
	curl -fs -o /dev/null "$url/" && break
	if ! kill -0 "$web" 2>/dev/null || [ $i -ge 100 ]; then
		cat "$work/lighttpd.log" >&2
		fail "lighttpd or the program did not start; the log stands" \
		    "above"
	fi
	sleep 0.1
done

# ---- a first result ------------------------------------------------------
say "A first result: tests/examples/plot.py, run over MCP at $url/sse"
say
mkdir -p "$here/build/first-result"
python3 "$here/src/cli/first-result.py" "$url/sse" \
    "$here/tests/examples/plot.py" "$here/build/first-result" || {
	status=$?
	# 3: only too slow, which a busy machine may be at times
	if [ "$status" -ne 3 ]; then
		cat "$work/lighttpd.log" >&2
		fail "the first program did not run: see the reason and the" \
		    "log above (sandbox: $sandbox_url)"
	fi
	say "This machine is slow just now: serving all the same. For more time:"
	say "    PYTHON_SANDBOX_SANDBOX_TIME_LIMIT=30s make run"
}

# ---- addresses -----------------------------------------------------------
cat <<EOF

Serving (MCP 2024-11-05 to 2026-07-28):
    $url/mcp          Streamable HTTP, what clients are given
    $url/sse          HTTP+SSE, for older clients
    $url/messages/    where those post, found by themselves
    sandbox: $sandbox_url
    logs:    $work/*.log

Claude Desktop (claude_desktop_config.json; through mcp-remote, needs Node.js):
    {"mcpServers": {"python-sandbox": {"command": "npx",
      "args": ["-y", "mcp-remote", "$url/mcp", "--transport", "http-only",
               "--allow-http"]}}}
Claude Code:
    claude mcp add --transport http python-sandbox $url/mcp
Cursor (~/.cursor/mcp.json):
    {"mcpServers": {"python-sandbox": {"url": "$url/mcp"}}}
VS Code (.vscode/mcp.json):
    {"servers": {"python-sandbox": {"type": "http", "url": "$url/mcp"}}}
MCP Inspector:
    npx @modelcontextprotocol/inspector --cli $url/mcp --transport http \\
        --method tools/list
mcp-remote, for any client that speaks stdio only:
    npx -y mcp-remote $url/mcp --transport http-only --allow-http

Ctrl-C ends it.
EOF

# ---- until something ends -------------------------------------------------
ended=0
# shellcheck disable=SC2086  # there may be no sandbox service of our own
wait -n $web $sandboxd || ended=$?
cat "$work"/*.log >&2
fail "a server ended by itself (status $ended); the logs stand above"
