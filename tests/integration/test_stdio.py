"""python-sandbox stdio: on raw pipes, and driven by the official SDK."""

import asyncio
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from cli import cli_environment, remove_folder
from harness import (BUILD, SANDBOXD, children, is_alive,
                     make_folder, poll, run_as)

TOOL = "execute_python_code"
META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
ENVELOPE = {META + "protocolVersion": MODERN,
            META + "clientCapabilities": {}}
SLEEP = "import time\nprint('up', flush=True)\ntime.sleep(5)"
PROMPT_SECONDS = 4      # with a sanitizer on a loaded machine


class Peer:
    """The program with pipes; every line that it writes must be JSON."""

    def __init__(self, folder, url=None, read=True,
                 program="python-sandbox", **settings):
        env = {"SNEKBOX_URL": url} if url else {}
        argv = [os.path.join(folder, program), "stdio"]
        for name, value in settings.items():
            argv += ["--set", f"{name}={value}"]
        as_user, _ = run_as()
        self.folder = folder
        self.log_path = os.path.join(folder, "stdio.log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, cwd=folder, env=cli_environment(folder, env),
                **as_user)
        self.pid = self.process.pid
        self.lines = queue.Queue()
        self.seen = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        if read:
            self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages, end=b"\n"):
        self.raw(b"".join(json.dumps(m).encode() + end for m in messages))

    def next(self, seconds=20):
        """The next message; None at the end of the output."""
        line = self.lines.get(timeout=seconds)
        if line is None:
            return None
        assert line.endswith(b"\n") and line.count(b"\n") == 1
        message = json.loads(line)
        self.seen.append(message)
        return message

    def answer(self, id, seconds=20):
        """The answer to a request; what comes before it is in seen."""
        for message in self.seen:
            if message.get("id") == id:
                return message
        deadline = time.monotonic() + seconds
        while True:
            message = self.next(max(0.01, deadline - time.monotonic()))
            assert message is not None, "it ended:\n" + self.log()
            if message.get("id") == id:
                return message

    def ask(self, method, params=None, id="ask", seconds=20):
        self.seen = [m for m in self.seen if m.get("id") != id]
        self.send(request(method, params, id))
        return self.answer(id, seconds)

    def initialize(self, version="2025-11-25"):
        answer = self.ask("initialize", {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}, "init")
        assert answer["result"]["protocolVersion"] == version
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def eof(self):
        self.process.stdin.close()

    def ends(self, seconds=PROMPT_SECONDS):
        """Waits for its end; returns the exit code."""
        code = self.process.wait(seconds)
        if self.thread.ident:
            self.thread.join(5)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                assert self.process.wait(20) == 0, self.log()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("it did not end:\n" + self.log()) \
                    from None
        if self.thread.ident:
            self.thread.join(5)
        self.process.stdout.close()


def request(method, params=None, id=1):
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params
    return message


def call(code, id=1, **more):
    return request("tools/call", {"name": TOOL, "arguments":
                                  {"python_code": code}, **more}, id)


def modern(method, params=None, id=1, meta=None):
    return request(method, {**(params or {}), "_meta":
                            ENVELOPE if meta is None else meta}, id)


def cancelled(id):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id}}


def stdout_of(answer):
    return json.loads(answer["result"]["content"][0]["text"])["stdout"]


@pytest.fixture
def folder():
    path = make_folder()
    for program in (os.path.join(BUILD, "python-sandbox"), SANDBOXD):
        shutil.copy(program, path)
    yield path
    remove_folder(path)


@pytest.fixture
def start(folder, sandbox):
    """Starts peers: with the tests' sandbox, or with own=True their own."""
    peers = []

    def begin(own=False, **settings):
        peers.append(Peer(folder, None if own else sandbox.url, **settings))
        return peers[-1]

    yield begin
    for peer in peers:
        peer.close()


@pytest.fixture
def peer(start):
    return start().initialize()


def own_sandbox(pid):
    """What sandboxd's processes are, those of the keeper first."""
    found, todo = [], [pid]
    while todo:
        more = children(todo.pop())
        found += more
        todo += more
    return found


def own_folder(peer):
    """Where the sandbox of its own listens."""
    return re.search(r"sandbox=unix:(/[^ ]*)/sandboxd.sock",
                     peer.log()).group(1)


def running(sandbox, n):
    return lambda: sandbox.runs() == n


# ---- what goes over the pipes ----------------------------------------------

def test_stdout_only_json_lines_and_the_log_on_stderr(peer):
    assert [t["name"] for t in peer.ask("tools/list")["result"]["tools"]] \
        == [TOOL]
    answer = peer.ask("tools/call", {"name": TOOL, "arguments": {
        "python_code": "print('a\\nb')\n'\\u2028'"}})
    assert stdout_of(answer) == "a\nb\n"
    peer.eof()
    assert peer.ends() == 0
    assert peer.next() is None
    assert "stdio.started" in peer.log() and "call.end" in peer.log()


def test_python_writing_fd1_does_not_reach_the_protocol(peer):
    answer = peer.ask("tools/call", {"name": TOOL, "arguments": {
        "python_code": "import os\nos.write(1, b'not json\\n')"}})
    assert stdout_of(answer) == "not json\n"


def test_python_reading_stdin_gets_nothing_of_the_protocol(peer):
    peer.send(call("import sys\nprint(repr(sys.stdin.read()))", 1),
              request("ping", id=2))
    assert stdout_of(peer.answer(1)) == "''\n"
    assert peer.answer(2)["result"] == {}


def test_split_and_joined_writes(peer):
    text = json.dumps(request("ping", id="split")).encode() + b"\n"
    for byte in text:
        peer.raw(bytes([byte]))
    assert peer.answer("split")["result"] == {}
    peer.send(*[request("ping", id=i) for i in range(200)])
    for i in range(200):
        assert peer.next()["id"] == i


def test_crlf_accepted_and_blank_lines_passed_over(start):
    peer = start()
    peer.raw(b"\r\n\n  \r\n")
    peer.initialize()
    peer.send(request("ping", id=1), request("ping", id=2), end=b"\r\n")
    assert peer.answer(1)["result"] == peer.answer(2)["result"] == {}


def test_1MB_line(peer):
    code = "#" + "x" * (1 << 20) + "\nprint('whole')"
    assert stdout_of(peer.ask("tools/call", {
        "name": TOOL, "arguments": {"python_code": code}})) == "whole\n"


def test_a_line_too_long_is_refused_and_the_next_one_works(start):
    peer = start(body_max=20000).initialize()
    peer.raw(b'{"x": "' + b"y" * 200000 + b'"}\n')
    error = peer.next()
    assert error["error"]["code"] == -32600
    assert "body_max" in error["error"]["message"] and "id" not in error
    assert peer.ask("ping")["result"] == {}


@pytest.mark.parametrize("line,code", [
    (b"no json", -32700), (b'{"a":1}', -32600), (b"\xff", -32700),
    (b'{"jsonrpc":"2.0","id":7,"method":1}', -32600), (b"[]", -32600)])
def test_a_bad_line_is_answered_and_the_next_one_works(peer, line, code):
    peer.raw(line + b"\n")
    assert peer.next()["error"]["code"] == code
    assert peer.ask("ping")["result"] == {}


def test_an_unknown_id_is_null_before_initialize(start):
    peer = start()
    peer.raw(b"no json\n")
    assert peer.next() == {"jsonrpc": "2.0", "id": None, "error": {
        "code": -32700, "message": peer.seen[-1]["error"]["message"]}}
    peer.initialize()


def test_a_client_that_does_not_read_is_not_read_from(start):
    peer = start(read=False, stream_queue_max="64K")
    peer.send(request("initialize", {"protocolVersion": "2025-11-25",
                                     "capabilities": {},
                                     "clientInfo": {}}, 0))
    fd = peer.process.stdin.fileno()
    os.set_blocking(fd, False)
    line = json.dumps(request("tools/list", id=1)).encode() + b"\n"
    sent, since = 0, time.monotonic()
    while time.monotonic() < since + 1:
        try:
            sent += os.write(fd, line)
            since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
        assert sent < 8 << 20, "it reads on and on"
    os.set_blocking(fd, True)
    peer.eof()
    assert peer.ends() == 0
    assert "tools" in peer.process.stdout.read().decode()


def test_a_client_that_reads_nothing_any_more_does_not_hold_it_up(start):
    peer = start(read=False)
    poll(lambda: "stdio.started" in peer.log(), 20, "it serves")
    peer.send(*[request("server/discover", id=i) for i in range(1000)])
    peer.process.send_signal(signal.SIGTERM)
    assert peer.ends() == 0


def test_closing_its_output_ends_it(start):
    peer = start(read=False)
    peer.process.stdout.close()
    peer.send(request("ping"))
    assert peer.ends() == 0


# ---- several at once, cancellation, progress -------------------------------

def test_calls_run_at_once_and_answers_come_as_they_end(peer):
    peer.send(call("import time; time.sleep(2); print('slow')", "slow"),
              call("print('quick')", "quick"), request("ping", id="ping"))
    order = [peer.next()["id"] for _ in range(3)]
    assert order == ["ping", "quick", "slow"]
    assert stdout_of(peer.answer("slow")) == "slow\n"


def test_cancelled_call_ends_and_is_not_answered(peer, sandbox):
    peer.send(call(SLEEP, "x"))
    poll(running(sandbox, 1), 20, "it runs")
    peer.send(cancelled("x"), request("ping", id=1))
    assert peer.answer(1)["result"] == {}
    poll(running(sandbox, 0), 2, "it ends")
    assert stdout_of(peer.ask("tools/call", {
        "name": TOOL, "arguments": {"python_code": "print(1)"}})) == "1\n"
    assert not [m for m in peer.seen if m.get("id") == "x"]


def test_cancellation_tells_a_number_from_a_string(peer):
    peer.send(call("import time; time.sleep(1); print('done')", 5))
    peer.send(cancelled("5"))
    assert stdout_of(peer.answer(5)) == "done\n"


def test_progress_comes_before_the_answer(peer):
    peer.send(call("import time; time.sleep(2.5)", 1,
                   _meta={"progressToken": "p"}))
    peer.answer(1)
    told = [m["params"] for m in peer.seen
            if m.get("method") == "notifications/progress"]
    assert len(told) >= 2 and {t["progressToken"] for t in told} == {"p"}
    values = [t["progress"] for t in told]
    assert values == sorted(set(values))


# ---- the end ----------------------------------------------------------------

def test_pending_answer_before_eof_is_delivered(start):
    peer = start()
    peer.send(request("initialize", {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}}, 1),
        request("tools/list", id=2))
    peer.raw(json.dumps(request("ping", id=3)).encode())    # no line feed
    peer.eof()
    assert peer.ends() == 0
    assert [peer.next()["id"] for _ in range(3)] == [1, 2, 3]
    assert peer.next() is None


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("way", ["eof", "SIGTERM", "SIGINT", "SIGHUP"])
def test_ends_promptly_also_during_a_call(peer, sandbox, way, busy):
    if busy:
        peer.send(call(SLEEP))
        poll(running(sandbox, 1), 20, "it runs")
    began = time.monotonic()
    if way == "eof":
        peer.eof()
    else:
        peer.process.send_signal(getattr(signal, way))
    assert peer.ends() == 0
    assert time.monotonic() - began < PROMPT_SECONDS
    poll(running(sandbox, 0), 2, "the run ends")


# ---- 2026-07-28 -------------------------------------------------------------

def test_modern_discover_is_answered_first_thing(start):
    peer = start()
    peer.send(modern("server/discover"))
    result = peer.answer(1)["result"]
    assert result["supportedVersions"] == [MODERN]
    assert result["resultType"] == "complete"
    assert result["_meta"][META + "serverInfo"]["name"]


def test_modern_call_without_handshake(start):
    peer = start()
    peer.send(modern("tools/call", {
        "name": TOOL, "arguments": {"python_code": "print(6 * 7)"}}))
    answer = peer.answer(1)
    assert stdout_of(answer) == "42\n"
    assert answer["result"]["resultType"] == "complete"


def test_modern_unsupported_version(start):
    peer = start()
    peer.send(modern("tools/list", meta={
        **ENVELOPE, META + "protocolVersion": "2199-01-01"}))
    error = peer.answer(1)["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": [MODERN],
                             "requested": "2199-01-01"}


@pytest.mark.parametrize("meta", [
    {META + "protocolVersion": MODERN}, {META + "clientCapabilities": {}},
    {META + "protocolVersion": 1, META + "clientCapabilities": {}},
    {**ENVELOPE, META + "clientInfo": "me"}])
def test_modern_envelope_that_is_not_whole(start, meta):
    peer = start()
    peer.send(modern("tools/list", meta=meta))
    assert peer.answer(1)["error"]["code"] == -32602


def test_modern_discover_without_an_envelope(start):
    peer = start()
    peer.send(request("server/discover"))
    assert peer.answer(1)["error"]["code"] == -32602
    peer.initialize()
    assert peer.ask("server/discover")["error"]["code"] == -32601


def test_modern_has_neither_initialize_nor_ping(start):
    peer = start()
    for method in ("initialize", "ping", "prompts/list"):
        peer.send(modern(method, id=method))
        assert peer.answer(method)["error"]["code"] == -32601


def test_modern_cancellation(start, sandbox):
    peer = start()
    peer.send(modern("tools/call", {
        "name": TOOL, "arguments": {"python_code": SLEEP}}, "x"))
    poll(running(sandbox, 1), 20, "it runs")
    peer.send(cancelled("x"), modern("tools/list", id=2))
    assert peer.answer(2)["result"]["tools"]
    poll(running(sandbox, 0), 2, "it ends")
    assert not [m for m in peer.seen if m.get("id") == "x"]


def test_modern_writes_no_requests(start):
    peer = start()
    peer.send(modern("tools/call", {
        "name": TOOL, "arguments": {"python_code": "1"}}))
    peer.answer(1)
    peer.eof()
    assert peer.ends() == 0 and peer.next() is None
    assert not [m for m in peer.seen if "method" in m and "id" in m]


def test_modern_listen_stands_until_cancelled_or_the_end(start):
    peer = start()
    what = {"notifications": {"toolsListChanged": True}}
    peer.send(modern("subscriptions/listen", what, 7),
              modern("subscriptions/listen", what, "7"),
              modern("subscriptions/listen", {}, 8))
    for id in (7, "7"):
        told = peer.next()
        assert told["method"] == "notifications/subscriptions/acknowledged"
        assert told["params"]["_meta"][META + "subscriptionId"] == id
        assert told["params"]["notifications"] == {}
    assert peer.next()["error"]["code"] == -32602
    peer.send(cancelled(7))
    peer.eof()
    assert peer.ends() == 0
    last = peer.next()
    assert last["id"] == "7"
    assert last["result"]["_meta"][META + "subscriptionId"] == "7"
    assert peer.next() is None


def test_both_eras_side_by_side(peer):
    peer.send(modern("tools/list", id="new"), request("tools/list", id="old"))
    assert "resultType" in peer.answer("new")["result"]
    assert "resultType" not in peer.answer("old")["result"]


def test_before_initialize_only_discovery_and_ping(start):
    peer = start()
    assert peer.ask("ping")["result"] == {}
    assert peer.ask("tools/list")["error"]["code"] == -32600
    peer.initialize()


# ---- batches ----------------------------------------------------------------

def test_a_batch_where_the_revision_has_them(start):
    peer = start().initialize("2025-03-26")
    peer.raw(json.dumps([request("ping", id=1), call("print(2)", 2),
                         {"jsonrpc": "2.0", "id": 3},
                         {"jsonrpc": "2.0", "method": "notifications/x"}])
             .encode() + b"\n")
    line = peer.lines.get(timeout=20)
    answers = {a.get("id"): a for a in json.loads(line)}
    assert answers[1]["result"] == {} and len(answers) == 3
    assert stdout_of(answers[2]) == "2\n"
    assert answers[3]["error"]["code"] == -32600


def test_no_batch_in_other_revisions(peer):
    peer.raw(json.dumps([request("ping", id=1)]).encode() + b"\n")
    assert peer.next()["error"]["code"] == -32600


# ---- a sandbox of its own ---------------------------------------------------

def test_own_sandbox_is_started_and_ends_with_it(start):
    peer = start(own=True).initialize()
    folder = own_folder(peer)
    assert os.path.isdir(folder)
    peer.send(call("print(6 * 7)"))
    assert stdout_of(peer.answer(1)) == "42\n"
    below = own_sandbox(peer.pid)
    assert below
    poll(lambda: not [n for n in os.listdir("/dev/shm") if ".own-" in n], 5,
         "its table has no name")
    peer.eof()
    assert peer.ends(10) == 0
    assert not [pid for pid in below if is_alive(pid)]
    assert not os.path.exists(folder)


def test_own_sandbox_ends_also_when_it_is_killed(start):
    peer = start(own=True).initialize()
    folder = own_folder(peer)
    assert os.path.isdir(folder)
    peer.send(call(SLEEP))
    poll(lambda: len(own_sandbox(peer.pid)) > 4, 20, "it runs")
    below = own_sandbox(peer.pid)
    peer.process.kill()
    peer.process.wait()
    poll(lambda: not [pid for pid in below if is_alive(pid)], 10,
         "all processes ended")
    poll(lambda: not os.path.exists(folder), 5, "the folder is removed")


def test_own_sandbox_that_dies_ends_it_with_the_reason(start):
    peer = start(own=True).initialize()
    peer.send(call("print(1)"))
    peer.answer(1)
    keeper = children(peer.pid)[0]
    os.kill(children(keeper)[0], signal.SIGKILL)
    assert peer.ends(10) == 1
    assert "the sandbox service ended" in peer.log()


def test_no_sandboxd_to_be_found(start, folder):
    os.unlink(os.path.join(folder, "sandboxd"))
    peer = start(own=True)
    assert peer.ends(10) == 1
    assert "sandboxd is neither beside" in peer.log()


def test_sandboxd_is_found_as_installed(folder):
    for name in ("bin", "sbin"):
        os.mkdir(os.path.join(folder, name))
    os.rename(os.path.join(folder, "sandboxd"),
              os.path.join(folder, "sbin", "sandboxd"))
    os.rename(os.path.join(folder, "python-sandbox"),
              os.path.join(folder, "bin", "python-sandbox"))
    peer = Peer(folder, program="bin/python-sandbox").initialize()
    peer.send(call("print(1)"))
    assert stdout_of(peer.answer(1)) == "1\n"
    peer.close()


def test_wrong_options_and_settings_are_told(folder):
    program = os.path.join(folder, "python-sandbox")
    for argv, what in ((["stdio", "--set", "body_max=1"], "body_max"),
                       (["nothing"], "usage"), ([], "usage")):
        done = subprocess.run([program, *argv], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL,
                              timeout=20)
        assert done.returncode == 2 and what in done.stderr
        assert done.stdout == ""


# ---- the official SDK -------------------------------------------------------

def test_sdk_initialize_list_call_and_progress(folder, sandbox):
    seen = []

    async def progress(value, total, message):
        seen.append(value)

    async def main():
        plan = StdioServerParameters(
            command=os.path.join(folder, "python-sandbox"), args=["stdio"],
            env=cli_environment(folder, {"SNEKBOX_URL": sandbox.url}))
        async with stdio_client(plan) as streams:
            async with ClientSession(*streams) as session:
                info = await session.initialize()
                assert info.protocolVersion == "2025-11-25"
                tools = (await session.list_tools()).tools
                assert [tool.name for tool in tools] == [TOOL]
                results = await asyncio.gather(*[session.call_tool(
                    TOOL, {"python_code": f"import time; time.sleep(1)\n"
                           f"print({i})"}, progress_callback=progress)
                    for i in range(4)])
                return [r.structuredContent["stdout"] for r in results]

    got = asyncio.run(asyncio.wait_for(main(), 60))
    assert got == [f"{i}\n" for i in range(4)]
    assert seen
