"""sandboxd's HTTP API: what Snekbox answered to the same requests, what is
different on purpose, limits, queue, callers that go away, start and end."""
import base64
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

import sandboxd_util as util

RECORDED = pathlib.Path(__file__).parent / "snekbox_recorded.jsonl"


# by cgroup, or of address space, of which matplotlib takes much
MEMORY = {"root": "256M", "user": "512M"}


@pytest.fixture(scope="module", params=util.MODES)
def service(request):
    yield from util.serve_module(request.param, sandbox_time_limit="4s",
                                 jail_memory=MEMORY[request.param])


@pytest.fixture(autouse=True)
def unharmed(request):
    """Every test that uses the module's service leaves it as it was. (The
    many recorded rows are looked at together, at the module's end.)"""
    if ("service" not in request.fixturenames or
            request.node.originalname == "test_recorded"):
        yield
        return
    service = request.getfixturevalue("service")
    yield
    util.check_unharmed(service)


# ---- what Snekbox answered ------------------------------------------------

# where a row's request went; POST /eval as application/json otherwise
PLACES = {
    "m-get": ("GET", "/eval"), "m-options": ("OPTIONS", "/eval"),
    "m-put": ("PUT", "/eval"), "p-eval-slash": ("POST", "/eval/"),
    "p-eval-q": ("POST", "/eval?x=1"), "p-health": ("GET", "/health"),
    "p-root": ("GET", "/"),
}
TYPES = {
    "ct-xml": "application/xml", "ct-missing": None,
    "ct-form": "application/x-www-form-urlencoded",
    "ct-charset": "application/json; charset=utf-8",
}
# not comparable: another interpreter, times, addresses, packages of the host
SKIPPED_ROWS = {
    "color-313-E": "Python 3.13", "color-313-syntax": "Python 3.13",
    "exec-313": "Python 3.13", "schema-args-m-timeit": "times",
    "mpl-detail": "times and folders", "mpl-pandas": "memory used",
    "mpl-pandas-mpl": "failed for want of zoneinfo, which we have",
    "userbase-import": "a package of the recording machine",
    "env-userbase": "there is no user base",
    "env-forkbomb": "see test_attacks", "env-ls": "other folders",
    "env-statvfs": "other sizes", "env-procs": "another limit",
    "env-id": "host name, kernel; programs are not pid 1 here",
    "env-net": "loopback is up, and netlink is refused",
    "mpl-numpy-mem": "another memory limit",
    "rc-oom-child": "another memory limit",
    "rc-faulthandler": "an address", "schema-file-nocontent": "times",
}
MEMORY_ROWS = {"f-file-after-oom", "rc-oom-partial", "rc-rlimit-as"}


def text(out, code=0):
    return lambda a: (a.stdout, a.returncode) == (out, code)


def names(*wanted, code=0):
    return lambda a: ([f["path"] for f in a.files] == list(wanted) and
                      a.returncode == code)


# where we differ on purpose: why, and what is right instead
DIFFERENT = {
    "accept-html": ("answers are always JSON", lambda a:
                    a.json["description"] == "1 is not of type 'string'"),
    "accept-xml": ("answers are always JSON", lambda a:
                   a.json["description"] == "1 is not of type 'string'"),
    "enc-invalid-late": ("bad bytes do not lose the rest",
                         text("good output\n\ufffd\ufffd\nmore\n")),
    "enc-latin1-bytes": ("bad bytes do not lose the rest",
                         text("caf\ufffd\n")),
    "enc-truncated-utf8-end": ("bad bytes do not lose the rest",
                               text("abc\ufffd")),
    "env-devs": ("/dev/null and the like are there", lambda a:
                 a.stdout.count(" ok\n") == 3),
    "env-prctl": ("there is a seccomp filter",
                  text("no_new_privs 1 seccomp 2 dumpable 1\n")),
    "env-shm": ("one tmpfs of 48 MiB for all",
                text("48 [Errno 28] No space left on device\n")),
    "env-tempfile": ("there is a /tmp", lambda a: a.files == [] and
                     a.stdout.startswith("/tmp\n/tmp/tmp")),
    "f-150": ("100 files come back, not 101",
              names(*(f"f{i:03}" for i in range(50, 150)))),
    "f-order150": ("100 files come back, not 101",
                   names(*(f"f{i:03}" for i in range(50, 150)))),
    "f-deep-1000": ("deep folders do not lose the result", lambda a:
                    a.returncode == 0 and a.files == [] and
                    a.files_skipped[0]["reason"] ==
                    "a folder nested too deeply"),
    "f-hardlink": ("that file is not there", lambda a:
                   [f["path"] for f in a.files] == ["a", "b"]),
    "f-home-chmod": ("the program owns /home", names("a")),
    "f-input-dotpath-unmod": ("unchanged whatever its path looked like",
                              names()),
    "f-input-mtime-restored": ("the program owns its files; still noticed",
                               names("in.txt")),
    "f-input-subdir-write": ("uploaded folders are writable",
                             names("d/new.txt")),
    "f-many-10000": ("inodes are limited", lambda a: len(a.files) == 100 and
                     "No space left" in a.stdout and
                     {f["reason"] for f in a.files_skipped} ==
                     {"too many files"}),
    "f-many-hidden-50000": ("inodes are limited", lambda a: a.files == [] and
                            "No space left" in a.stdout),
    "f-sparse-big-first": ("file size is limited", lambda a:
                           a.stdout.endswith("File too large\n")),
    "f-surrogate": ("one bad name does not lose the result", lambda a:
                    a.returncode == 0 and a.files_skipped ==
                    [{"path": "\ufffd.txt", "size": 1,
                      "reason": "its name is not UTF-8"}]),
    "f-symloop": ("links are not followed", names("a")),
    "f-symloop2": ("links are not followed", names("a")),
    "rc-sigabrt": ("programs are not pid 1", text("", 134)),
    "rc-sigkill-self": ("programs are not pid 1", text("", 137)),
    "rc-sigterm-self": ("programs are not pid 1", text("", 143)),
    "schema-file-surrogate": ("a fault of the request", lambda a:
                              a.status == 400 and
                              a.title == "Request file is invalid"),
}


def rows():
    for line in RECORDED.read_text().splitlines():
        row = json.loads(line)
        if row["name"] not in SKIPPED_ROWS:
            yield pytest.param(row, id=row["name"])


def ask_row(service, row):
    method, path = PLACES.get(row["name"], ("POST", "/eval"))
    kind = TYPES.get(row["name"], "application/json")
    body = row["request"].encode() if method in ("POST", "PUT") else None
    return service.request(method, path, body,
                           {"Content-Type": kind} if kind else {})


def comparable(answer, row):
    ours = answer.body
    theirs = row["response"].replace("/snekbin/python/default/bin/python",
                                     "/usr/bin/python3")
    if theirs:
        ours, theirs = json.loads(ours), json.loads(theirs)
        ours = {k: v for k, v in ours.items() if k in theirs}
    return ours, theirs


def ran_out_of_memory(answer):
    """With a cgroup the kernel ends it; else Python meets its bound."""
    return (answer.returncode, answer.killed_by) == (137, "memory") or (
        answer.returncode == 1 and "MemoryError" in answer.stdout)


@pytest.mark.parametrize("row", list(rows()))
def test_recorded(service, row):
    answer = ask_row(service, row)
    if row["name"] in MEMORY_ROWS:
        assert ran_out_of_memory(answer), answer
    elif row["name"] in DIFFERENT:
        why, right = DIFFERENT[row["name"]]
        assert right(answer), (why, answer)
    else:
        assert answer.status == row["status"], answer
        ours, theirs = comparable(answer, row)
        assert ours == theirs


def test_lists_of_rows_are_true():
    known = {json.loads(line)["name"]
             for line in RECORDED.read_text().splitlines()}
    assert (set(SKIPPED_ROWS) | set(DIFFERENT) | set(PLACES) | set(TYPES) |
            MEMORY_ROWS) <= known
    assert len(known) > 150


# ---- HTTP -----------------------------------------------------------------

def test_health(service):
    health = service.health()
    assert health["status"] == "ok" and health["workers"] == 2
    answer = service.request("HEAD", "/healthz")
    assert (answer.status, answer.body) == (200, "")
    answer = service.request("POST", "/healthz", "{}")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_headers_of_an_answer(service):
    answer = service.eval("print(1)")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Connection"] == "close"
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    assert list(answer.json)[:3] == ["stdout", "returncode", "files"]


def raw(service, data, timeout=10):
    """Sends bytes; returns all bytes that come back."""
    con = service.connection(timeout)
    con.connect()
    got = b""
    # what is refused early may be closed before it was read
    with contextlib.suppress(ConnectionError):
        con.sock.sendall(data)
        while part := con.sock.recv(65536):
            got += part
    con.close()
    return got


def test_a_chunked_body_is_taken(service):
    body = json.dumps({"input": "print('chunks')"}).encode()
    parts = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7])
                     for i in range(0, len(body), 7))
    got = raw(service, b"POST /eval HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:"
              b" chunked\r\n\r\n" + parts + b"0\r\n\r\n")
    assert b" 200 " in got.partition(b"\r\n")[0] and b"chunks\\n" in got


def test_a_body_over_the_limit_is_refused():
    with util.running("user", sandboxd_body_max="64K") as service:
        small = service.eval("print(1)", x="y" * 60000)
        assert small.status == 200
        got = raw(service, b"POST /eval HTTP/1.1\r\nHost: x\r\n"
                  b"Content-Length: 70000\r\n\r\n")
        assert b" 413 " in got.partition(b"\r\n")[0]
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        got = raw(service, b"POST /eval HTTP/1.1\r\nHost: x\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 2)
        assert b" 413 " in got.partition(b"\r\n")[0] or got == b""
        assert service.eval("print(1)").stdout == "1\n"


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
    b"NONSENSE\r\n\r\n", b"\0\1\2\3\r\n\r\n",
    b"POST /eval HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /eval HTTP/1.1\r\nContent-Length: x\r\n\r\n{}",
    b"POST http://[::1 HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
])
def test_bad_http_is_answered_or_closed(service, data):
    got = raw(service, data)
    assert got == b"" or b" 4" in got[:16] or b" 5" in got[:16], got


def test_bytes_behind_a_request_change_nothing(service):
    body = b'{"input": "import time; time.sleep(0.3); print(7)"}'
    head = b"POST /eval HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    got = raw(service, head + body + b"GET / HTTP/1.1\r\n\r\n" * 3)
    assert got.count(b"HTTP/1.1") == 1 and b"7\\n" in got


def test_half_sent_requests_do_not_hold_up_others(service):
    open_ones = []
    for _ in range(20):
        con = service.connection()
        con.connect()
        con.sock.sendall(b"POST /eval HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        open_ones.append(con)
    begin = time.monotonic()
    assert service.eval("print(1)").stdout == "1\n"
    assert time.monotonic() - begin < 3
    for con in open_ones:
        con.close()


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text()
    fields = fields.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_callers_that_take_all_descriptors(monkeypatch):
    """It neither spins nor fills the log, answers whom it has let in, and
    goes on when they have left."""
    monkeypatch.setattr(util, "WRAP", ["prlimit", "--nofile=300:300", "--"])
    with util.running("user") as service:
        open_ones = []
        for _ in range(600):
            con = service.connection(timeout=10)
            con.connect()
            open_ones.append(con)
        util.until(lambda: "no connection for a moment"
                   in service.log_text(), 10, "it is said")
        begin = cpu_seconds(service.pid)
        time.sleep(1)
        assert cpu_seconds(service.pid) - begin < 0.5
        for con in open_ones[:4]:
            con.request("POST", "/eval", b'{"input": "print(6 * 7)"}',
                        {"Content-Type": "application/json"})
            assert json.loads(con.getresponse().read())["stdout"] == "42\n"
        for con in open_ones:
            con.close()
        assert service.eval("print(1)").stdout == "1\n"
        assert len(service.log_text()) < 5000


@pytest.mark.parametrize("body,description", [
    ('{"input": }', "Expecting value: line 1 column 11 (char 10)"),
    ('{"input": "a" "b"}', "Expecting ',' delimiter: line 1 column 15 "
     "(char 14)"),
    ("{input: 1}", "Expecting property name enclosed in double quotes: "
     "line 1 column 2 (char 1)"),
    ('{"input" 1}', "Expecting ':' delimiter: line 1 column 10 (char 9)"),
    ('{"input": "é', "Unterminated string starting at: line 1 column 11 "
     "(char 10)"),
    ('{"input": "a\nb"}', "Invalid control character at: line 1 column 13 "
     "(char 12)"),
    ('{"input": "\\q"}', "Invalid \\escape: line 1 column 12 (char 11)"),
    ('\n{} x', "Extra data: line 2 column 4 (char 4)"),
    ("[" * 100000, "too deep or too many values"),
    (b'{"input": "\xff"}', "'utf-8' codec can't decode byte 0xff in position "
     "11: invalid byte"),
])
def test_bad_json(service, body, description):
    answer = service.request("POST", "/eval", body.encode()
                             if isinstance(body, str) else body)
    assert answer.status == 400
    assert answer.json == {
        "title": "Invalid JSON",
        "description": f"Could not parse JSON body - {description}"}


@pytest.mark.parametrize("fields,description", [
    ({"timeout": "1"}, "'1' is not of type 'number'"),
    ({"timeout": 0}, "timeout must be more than 0 seconds"),
    ({"timeout": -1}, "timeout must be more than 0 seconds"),
    ({"stdin": 5}, "5 is not of type 'string'"),
    ({"stderr": "yes"}, "'yes' is not of type 'boolean'"),
])
def test_new_fields_are_checked(service, fields, description):
    answer = service.eval("print(1)", **fields)
    assert (answer.status, answer.json["description"]) == (400, description)


# ---- meanings that are ours -----------------------------------------------

def test_stdin(service):
    assert service.eval("print(input(), input())",
                        stdin="a\nü\n").stdout == "a ü\n"
    big = "x" * 3_000_000
    code = "import sys; print(len(sys.stdin.read()))"
    assert service.eval(code, stdin=big).stdout == "3000000\n"
    assert service.eval("print('no')", stdin=big).stdout == "no\n"
    assert "EOFError" in service.eval("input()").stdout


def test_stderr_apart(service):
    code = "import sys; print('out'); print('err', file=sys.stderr); 1 / 0"
    answer = service.eval(code, stderr=True)
    assert answer.stdout == "out\n"
    assert answer.stderr.startswith("err\nTraceback")
    assert "stderr" not in service.eval(code).json


def test_time_limit(service):
    begin = time.monotonic()
    answer = service.eval("print('a')\nopen('f', 'w').write('x')\n"
                          "while True: pass", timeout=0.5)
    assert time.monotonic() - begin < 3
    assert (answer.returncode, answer.killed_by) == (137, "time")
    assert answer.stdout == "a\n" and 450 < answer.duration_ms < 1500
    assert [f["path"] for f in answer.files] == ["f"]


def test_time_limit_is_the_operators(service):
    answer = service.eval("import time; time.sleep(60)", timeout=1e300)
    assert answer.killed_by == "time" and 3900 < answer.duration_ms < 6000


@pytest.mark.parametrize("char,length", [("x", 1_000_000), ("ü", 1_000_000),
                                         ("語", 1_000_000), ("😀", 1_000_000)])
def test_output_limit_counts_characters(service, char, length):
    exact = service.eval(f"print({char!r} * {length}, end='')")
    assert (exact.returncode, len(exact.stdout)) == (0, length)
    more = service.eval(f"print({char!r} * {length + 1}, flush=True)\n"
                        "open('f', 'w').close()")
    assert (more.returncode, more.killed_by) == (143, "output")
    assert more.stdout == char * length


def test_output_limit_counts_both_streams(service):
    answer = service.eval("import sys\nsys.stderr.write('e' * 600000)\n"
                          "sys.stdout.write('o' * 600000)", stderr=True)
    assert answer.killed_by == "output"
    assert len(answer.stdout) + len(answer.stderr) == 1_000_000


def test_no_output_is_lost(service):
    """As many at once as slots, more than a pipe holds, ending at once."""
    failures = []

    def ask(i):
        size = 60_000 + i
        answer = service.eval(f"import os; os.write(1, b'x' * {size}); "
                              "print('y' * 100000, end=''); os._exit(0)")
        if len(answer.stdout) != size + 100_000:
            failures.append((size, len(answer.stdout)))
    for start in range(0, 40, 4):
        threads = [threading.Thread(target=ask, args=(start + i,))
                   for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_memory_limit(service):
    answer = service.eval("print('go', flush=True)\nb = bytearray(600 << 20)")
    assert answer.stdout.startswith("go\n") and ran_out_of_memory(answer)
    answer = service.eval("b = bytearray(2 << 30)")
    assert answer.returncode == 1 and "MemoryError" in answer.stdout


def test_own_exit_codes_are_no_kills(service):
    for code in (137, 143, 255):
        answer = service.eval(f"import sys; sys.exit({code})")
        assert (answer.returncode, answer.killed_by) == (code, None)


def test_large_files_go_in_and_out(service):
    data = bytes(range(256)) * 4096 * 20
    answer = service.eval(
        "d = open('in.bin', 'rb').read()\nopen('out.bin', 'wb').write(d[::-1])",
        files=[{"path": "in.bin",
                "content": base64.b64encode(data).decode()}])
    assert [f["path"] for f in answer.files] == ["out.bin"]
    assert answer.files[0]["size"] == len(data)
    assert base64.b64decode(answer.files[0]["content"]) == data[::-1]


def test_files_beyond_the_disk_are_told(service):
    answer = service.eval(
        "f = open('sparse', 'wb'); f.truncate(48 << 20); f.close()\n"
        "open('new', 'w').write('x')")
    assert [f["path"] for f in answer.files] == ["new"]
    assert answer.files_skipped == [
        {"path": "sparse", "size": 48 << 20, "reason": "too large"}]


def test_a_touched_upload_comes_back_a_read_one_does_not(service):
    files = [{"path": p, "content": "aGk="} for p in ("r", "w", "m", "x")]
    answer = service.eval(
        "import os\nopen('r').read(); open('w', 'w').write('hi')\n"
        "os.chmod('m', 0o600)\nos.unlink('x'); open('x', 'w').write('hi')",
        files=files)
    assert [f["path"] for f in answer.files] == ["w", "x"]


def test_arguments_that_are_too_long(service):
    answer = service.eval("#" * 131072)
    assert answer.status == 500 and "send the program as a file" in \
        answer.json["description"]
    assert service.eval("#" * 131071).returncode == 0
    many = service.eval(args=["-c", "pass"] + ["x" * 100_000] * 40)
    assert many.status == 500


def test_processes_of_python(service):
    code = """
import asyncio, multiprocessing as m, os, subprocess, sys, threading
from multiprocessing import shared_memory

async def start():
    p = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    return await p.wait()

if __name__ == "__main__":
    for way in ("fork", "spawn", "forkserver"):
        with m.get_context(way).Pool(2) as pool:
            print(way, pool.map(abs, [-1, 2]))
    q = m.Queue(); p = m.Process(target=q.put, args=(5,)); p.start()
    print(q.get())
    s = shared_memory.SharedMemory(create=True, size=4096)
    s.close(); s.unlink()
    print(subprocess.check_output([sys.executable, "-c", "print(3)"]))
    print(os.waitpid(os.fork() or os._exit(4), 0)[1] >> 8)
    done = []
    t = [threading.Thread(target=done.append, args=(i,)) for i in range(20)]
    [x.start() for x in t]; [x.join() for x in t]
    print(len(done))
    print(asyncio.run(start()))
"""
    answer = service.eval(args=["main.py"], files=[
        {"path": "main.py",
         "content": base64.b64encode(code.encode()).decode()}])
    assert answer.stdout == (
        "fork [1, 2]\nspawn [1, 2]\nforkserver [1, 2]\n5\nb'3\\n'\n4\n"
        "20\n0\n")


def test_matplotlib_finds_its_fonts_and_complains_about_nothing(service):
    code = """
import os, matplotlib
folder = matplotlib.get_cachedir()
print(sorted(os.listdir(folder))[0].startswith('fontlist-'))
before = os.stat(os.path.join(folder, os.listdir(folder)[0])).st_mtime_ns
import matplotlib.pyplot as plt
plt.title('x'); plt.plot([1, 2]); plt.savefig('a.png')
print(os.stat(os.path.join(folder, os.listdir(folder)[0])).st_mtime_ns
      == before)
"""
    util.until(lambda: service.eval(code).stdout == "True\nTrue\n",
               what="font list", seconds=30)
    answer = service.eval(code)
    assert answer.stdout == "True\nTrue\n"
    assert [f["path"] for f in answer.files] == ["a.png"]


# ---- callers, queue -------------------------------------------------------

def test_a_caller_who_goes_away_ends_his_program(service):
    con = service.send("import time; time.sleep(3)", timeout=4)
    service.await_running(1)
    begin = time.monotonic()
    con.close()
    service.await_running(0)
    assert time.monotonic() - begin < 1


def test_a_caller_who_goes_away_leaves_the_queue(service):
    cons = [service.send("import time; time.sleep(3)") for _ in range(6)]
    util.until(lambda: service.health()["queued"] == 4, what="queue")
    for con in cons[2:]:
        con.close()
    util.until(lambda: service.health()["queued"] == 0, what="empty queue")
    assert service.health()["running"] == 2
    for con in cons[:2]:
        con.close()


def test_what_waits_runs_later():
    with util.running("user", sandboxd_workers=1, sandboxd_queue=3) as service:
        service.settle()
        cons = [service.send(f"import time; time.sleep(0.3); print({i})")
                for i in range(4)]
        util.until(lambda: service.health()["queued"] == 3, what="queue")
        answer = service.eval("print(1)")
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "1"
        assert answer.json["title"] == "503 Service Unavailable"
        got = [json.loads(con.getresponse().read()) for con in cons]
        assert [g["stdout"] for g in got] == ["0\n", "1\n", "2\n", "3\n"]
        assert service.eval("print(1)").status == 200


def test_a_slow_reader_holds_up_nobody(service):
    con = service.send("print('x' * 1000000, end='')")
    service.await_running(0)
    for _ in range(3):
        assert service.eval("print(1)").stdout == "1\n"
    assert len(json.loads(con.getresponse().read())["stdout"]) == 1_000_000


def test_a_slot_that_dies_costs_one_answer(service):
    """Its process is killed from outside, as the kernel might."""
    con = service.send("import time; time.sleep(3)")
    service.await_running(1)
    spawner = max(util.children(service.pid), key=lambda pid: len(
        util.children(pid)))
    slots = [pid for pid in util.children(spawner)
             if os.stat(f"/proc/{pid}") and any(
                 "sleep" in pathlib.Path(f"/proc/{c}/cmdline").read_text()
                 for c in util.children(pid))
             and pathlib.Path(f"/proc/{pid}/comm").read_text() ==
             "sandboxd\n"]
    os.kill(slots[0], signal.SIGKILL)
    assert con.getresponse().status == 500
    assert service.eval("print(1)").stdout == "1\n"


def test_a_jail_that_is_killed_while_it_is_built(service):
    """As the kernel might for want of memory: half a bubblewrap must not be
    left behind, and nobody wait for it."""
    def young():
        for pid in util.children(service.pid) - known:
            with contextlib.suppress(OSError):
                name = pathlib.Path(f"/proc/{pid}/comm").read_text()
                if name == "bwrap\n":
                    return pid
        return None

    service.settle()
    usual = len(util.children(service.pid))
    for _ in range(25):
        known = util.children(service.pid)
        assert service.eval("print(1)").status in (200, 500)
        with contextlib.suppress(OSError, AssertionError):
            os.kill(util.until(young, 0.5), signal.SIGKILL)
        begin = time.monotonic()
        assert service.eval("print(2)").status in (200, 500)
        assert time.monotonic() - begin < 10
    util.until(lambda: len(util.children(service.pid)) == usual, 10,
               "no process more than before")


# ---- start and end --------------------------------------------------------

@pytest.mark.parametrize("mode", util.MODES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_end_with_programs_running(mode, number):
    with util.running(mode, sandboxd_workers=2) as service:
        cons = [service.send("import os, time\nos.fork(); os.setsid()\n"
                             "time.sleep(60)") for _ in range(3)]
        service.await_running(2)
        begin = time.monotonic()
        assert service.stop(number) == 0
        assert time.monotonic() - begin < 3
        assert service.leftovers() == []
        for con in cons:
            con.close()


@pytest.mark.parametrize("mode", util.MODES)
def test_a_crash_leaves_nothing(mode):
    with util.running(mode) as service:
        service.send("import os, time\nos.fork()\nos.setsid()\n"
                     "time.sleep(60)")
        service.await_running(1)
        mounts = service.mounts()
        assert service.stop(signal.SIGKILL) == -signal.SIGKILL
        util.until(lambda: service.leftovers() == [], what="clean up")
        assert service.mounts() == mounts


def test_a_stale_socket_is_replaced_a_live_one_is_not():
    folder = util.make_folder("user")
    path = os.path.join(folder, "run", "s.sock")
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(path)
    stale.close()
    service = util.start("user", folder)
    try:
        assert oct(os.stat(path).st_mode & 0o777) == "0o660"
        process, _, log = util.launch("user", folder, {})
        assert process.wait(timeout=20) == 1
        assert "another sandboxd already serves" in pathlib.Path(
            log).read_text()
        assert service.eval("print(1)").stdout == "1\n"
    finally:
        service.close()


def test_tcp():
    with util.running("user", sandboxd_listen="127.0.0.1:0") as service:
        name = service.log_text().partition("listen=")[2].split()[0]
        host, _, port = name.partition(":")
        body = b'{"input": "print(5)"}'
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            sock.sendall(b"POST /eval HTTP/1.1\r\nHost: x\r\nContent-Length: "
                         b"%d\r\n\r\n" % len(body) + body)
            got = b""
            while part := sock.recv(65536):
                got += part
        assert b'"stdout": "5\\n"' in got


@pytest.mark.parametrize("settings,text", [
    ({"sandboxd_listen": "0.0.0.0:8060"}, "only loopback"),
    ({"sandboxd_listen": "nonsense"}, "neither unix:/path nor"),
    ({"sandboxd_listen": "unix:/no/such/folder/s"}, "is no folder"),
    ({"sandboxd_listen": "127.0.0.1:99999"}, "a port is a number"),
    ({"sandboxd_python": "/no/python3"}, "apt-get install python3"),
    ({"sandboxd_python": "/bin/true"}, "Python does not run in the jail"),
    ({"jail_paths": "/no/such/path"}, "jail_paths: /no/such/path"),
    ({"jail_memory": "1K"}, "jail_memory"),
    ({"log_level": "loud"}, "log_level"),
    ({"no_such": "1"}, "no_such"),
])
def test_start_with_wrong_settings(settings, text):
    folder = util.make_folder("user")
    process, _, log = util.launch("user", folder, settings)
    assert process.wait(timeout=30) == 1
    assert text in pathlib.Path(log).read_text()
    assert os.listdir(os.path.join(folder, "run")) == []


@pytest.mark.skipif(os.geteuid() != 0 and not util.MUST_WORK,
                    reason="needs root")
def test_root_does_not_run_programs_as_root():
    folder = util.make_folder("root")
    process, _, log = util.launch("root", folder, {"sandboxd_user": "root"})
    assert process.wait(timeout=30) == 1
    assert "not run as root" in pathlib.Path(log).read_text()
    with util.running("root", sandboxd_user="www-data") as service:
        for pid in util.children(service.pid) | {service.pid}:
            stat = pathlib.Path(f"/proc/{pid}/status").read_text()
            uid = stat.partition("Uid:\t")[2].split()[0]
            # the janitor alone stays root, and listens to nobody
            if uid == "0":
                assert os.listdir(f"/proc/{pid}/fd") == ["0"]
            else:
                assert uid == "33"


def test_without_user_namespaces_it_says_what_to_do():
    folder = util.make_folder("user")
    script = ("echo 0 > /proc/sys/user/max_user_namespaces && exec "
              f"{folder}/sandboxd --set "
              f"sandboxd_listen=unix:{folder}/run/s.sock")
    done = subprocess.run(
        ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c",
         script], capture_output=True, text=True, timeout=30,
        **util.identity("user"))
    assert done.returncode == 1, done
    for cure in ("kernel.unprivileged_userns_clone",
                 "user.max_user_namespaces", "AppArmor"):
        assert cure in done.stderr
    assert os.listdir(os.path.join(folder, "run")) == []


def run_binary(*argv):
    return subprocess.run([str(util.BINARY), *argv], capture_output=True,
                          text=True, timeout=20, env={})


def test_options():
    assert run_binary("--version").stdout.startswith("sandboxd ")
    printed = run_binary("--print-config", "--set", "jail_files=7").stdout
    assert "jail_files = 7" in printed
    assert run_binary("--check-config").returncode == 0
    assert run_binary("--what").returncode == 2
    wrong = run_binary("--check-config", "--set", "jail_files=0")
    assert wrong.returncode == 1 and "jail_files" in wrong.stderr


def test_settings_of_a_jail():
    with util.running("user", jail_disk="1M", jail_inodes=64, jail_files=3,
                      jail_output=1000, jail_processes=8, jail_memory="256M",
                      jail_descriptors=32, jail_paths="/etc/hostname",
                      sandbox_time_limit="3s") as service:
        answer = service.eval("for i in range(5): open(f'f{i}', 'w')")
        assert [f["path"] for f in answer.files] == ["f2", "f3", "f4"]
        assert [f["path"] for f in answer.files_skipped] == ["f0", "f1"]
        big = base64.b64encode(bytes(2 << 20)).decode()
        answer = service.eval("print(1)", files=[{"path": "a",
                                                  "content": big}])
        assert answer.json["stdout"] == "OSError: Failed to create file 'a'."
        assert answer.returncode is None
        assert "No space left" in service.eval(
            "open('a', 'wb').write(bytes(2 << 20))").stdout
        assert service.eval("print('x' * 5000)").killed_by == "output"
        assert service.eval("while 1: pass").killed_by == "time"
        assert "MemoryError" in service.eval("bytearray(300 << 20)").stdout
        assert "Too many open files" in service.eval(
            "f = [open('/dev/null') for _ in range(40)]").stdout
        forks = service.eval(
            "import os, time\nn = 0\ntry:\n while n < 50:\n"
            "  if os.fork() == 0: time.sleep(2); os._exit(0)\n  n += 1\n"
            "except OSError: print(n)")
        assert 5 <= int(forks.stdout) <= 8
        assert service.eval(
            "print(open('/etc/hostname').read() > '')").stdout == "True\n"
