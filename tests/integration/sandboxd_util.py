"""A real sandboxd for tests: started, asked, watched, ended.

Nothing here but pytest and the standard library.
"""
import atexit
import contextlib
import http.client
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", "build")).resolve()
BINARY = BUILD / "sandboxd"
WRAP = os.environ.get("WRAP", "").split()
MUST_WORK = os.environ.get("MUST_WORK") == "1"
START_SECONDS = 40
USER = "www-data"          # an unprivileged user that every Debian has
MODES = ["root", "user"]   # started by root; started by an ordinary user

# what a service consists of beside itself: janitor and spawner, and for each
# slot its process, bubblewrap, the first process of the jail, and the init
OWN_PROCESSES = 2
SLOT_PROCESSES = 4


def need_mode(mode):
    """Skips (visibly) a mode that this user can't have."""
    if mode == "root" and os.geteuid() != 0:
        if MUST_WORK:
            pytest.fail("must be run by root")
        pytest.skip("needs root")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    """An HTTP answer whose members are those of its JSON body."""

    def __init__(self, response, body):
        self.status = response.status
        self.headers = response.headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __getattr__(self, name):
        try:
            return self.json[name]
        except KeyError:
            raise AttributeError(name) from None

    def __repr__(self):
        return f"<{self.status} {self.body[:2000]!r}>"


def children(pid):
    """The pids below pid, at any depth."""
    parents = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    found, todo = set(), [pid]
    while todo:
        top = todo.pop()
        new = {c for c, p in parents.items() if p == top} - found
        found |= new
        todo += new
    return found


def alive(pid):
    """Whether a process of that number lives (a zombie does not)."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def until(condition, seconds=10, what="condition"):
    """Waits for a condition, looking often; fails after that time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)
    return value


def cgroup_dirs(pid):
    """The cgroup folders of the service with that pid."""
    found = []
    for root in ("memory", "pids", "unified", ""):
        top = pathlib.Path("/sys/fs/cgroup") / root
        found += top.glob(f"**/python-sandbox/{pid}") if top.is_dir() else []
    return found


class Sandboxd:
    """A running service. Use start() to make one."""

    def __init__(self, mode, folder, process, path, log, workers):
        self.mode = mode
        self.folder = folder
        self.process = process
        self.pid = process.pid
        self.path = path
        self.log = log
        self.workers = workers
        self.base = None    # descriptors and mounts of a quiet service

    # ---- asking ----

    def connection(self, timeout=60):
        return UnixConnection(self.path, timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        con = self.connection(timeout)
        try:
            con.request(method, path, body, headers or {})
            response = con.getresponse()
            return Answer(response, response.read().decode())
        finally:
            con.close()

    def eval(self, code=None, timeout_http=60, **fields):
        """POST /eval; code is the input, unless fields say otherwise."""
        if code is not None:
            fields["input"] = code
        return self.request("POST", "/eval", json.dumps(fields),
                            {"Content-Type": "application/json"},
                            timeout_http)

    def health(self):
        return self.request("GET", "/healthz").json

    def send(self, code, **fields):
        """Sends a request and leaves its connection open."""
        con = self.connection()
        con.request("POST", "/eval", json.dumps({"input": code, **fields}),
                    {"Content-Type": "application/json"})
        return con

    # ---- watching ----

    def await_running(self, count):
        until(lambda: self.health()["running"] == count,
              what=f"{count} running")

    def settle(self):
        """Waits until no program runs and all slots are ready again."""
        def quiet():
            health = self.health()
            return (health["running"] == 0 and health["queued"] == 0 and
                    health["ready"] == self.workers and
                    len(children(self.pid)) == self.processes())
        until(quiet, what="quiet", seconds=20)

    def processes(self):
        return OWN_PROCESSES + SLOT_PROCESSES * self.workers

    def descriptors(self):
        return sorted(os.readlink(f"/proc/{self.pid}/fd/{fd}").split(":")[0]
                      for fd in os.listdir(f"/proc/{self.pid}/fd"))

    def mounts(self):
        """What is mounted on the host where a service works (in mount
        namespaces of its own, so it should change nothing)."""
        lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
        return [line for line in lines
                if line.split()[1].startswith(("/mnt", "/media", "/srv",
                                               "/boot"))]

    def log_text(self):
        return pathlib.Path(self.log).read_text()

    # ---- ending ----

    def stop(self, number=signal.SIGTERM):
        """Ends it; returns its exit code. Nothing may be left."""
        below = children(self.pid)
        self.process.send_signal(number)
        code = self.process.wait(timeout=20)
        until(lambda: not any(alive(pid) for pid in below),
              what=f"end of {below}")
        return code

    def leftovers(self):
        """What is still there after its end: should be nothing."""
        left = [str(path) for path in cgroup_dirs(self.pid)]
        if os.path.lexists(self.path):
            left.append(self.path)
        return left

    def close(self):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def make_folder(mode):
    """A folder that the service's user can use, and a copy of the binary
    where he can reach it."""
    folder = tempfile.mkdtemp(prefix="sandboxd-test-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    run = os.path.join(folder, "run")
    os.mkdir(run, 0o750)
    shutil.copy(BINARY, os.path.join(folder, "sandboxd"))
    if os.geteuid() == 0 and mode == "user":
        user = pwd.getpwnam(USER)
        os.chown(run, user.pw_uid, user.pw_gid)
    return folder


def identity(mode):
    """Arguments of Popen that make it run as the mode's user."""
    if os.geteuid() != 0 or mode == "root":
        return {}
    user = pwd.getpwnam(USER)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def launch(mode, folder, settings, env=None):
    """Starts the binary without waiting for it."""
    path = os.path.join(folder, "run", "s.sock")
    settings = {"sandboxd_listen": f"unix:{path}", **settings}
    argv = WRAP + [os.path.join(folder, "sandboxd")]
    for name, value in settings.items():
        argv += ["--set", f"{name}={value}"]
    log = os.path.join(folder, "log")
    with open(log, "w") as out:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env={"PATH": "/usr/bin:/bin", **(env or {})}, cwd="/",
            **identity(mode))
    return process, path, log


def start(mode="root", folder=None, **settings):
    """Starts a sandboxd and waits until it is ready."""
    need_mode(mode)
    folder = folder or make_folder(mode)
    settings.setdefault("sandboxd_workers", 2)
    process, path, log = launch(mode, folder, settings)
    service = Sandboxd(mode, folder, process, path, log,
                       int(settings["sandboxd_workers"]))

    def ready():
        assert process.poll() is None, service.log_text()
        return "sandboxd.ready" in service.log_text()
    until(ready, START_SECONDS, "start")
    return service


@contextlib.contextmanager
def running(mode="root", **settings):
    """A service for the length of a with statement."""
    service = start(mode, **settings)
    try:
        yield service
    finally:
        service.close()


def serve_module(mode, **settings):
    """Body of a module's fixture: one service, checked at its end."""
    service = start(mode, **settings)
    try:
        service.settle()
        # the connection of the last question may still be closing
        samples = []
        for _ in range(5):
            samples.append(service.descriptors())
            time.sleep(0.02)
        service.base = (min(samples, key=len), service.mounts())
        yield service
        service.settle()
        assert service.stop() == 0, service.log_text()
        left = service.leftovers()
        assert not left, left
    finally:
        service.close()


def check_unharmed(service):
    """After a test: the service lives, nothing is left of the programs, and
    its descriptors are back at the base line."""
    assert service.process.poll() is None, service.log_text()
    service.settle()
    until(lambda: service.descriptors() == service.base[0],
          what="the base line of descriptors")
    assert service.mounts() == service.base[1]
    assert service.eval("print(6 * 7)").stdout == "42\n"
