"""Starts what is tested: a sandbox, responders, lighttpd or Apache.

Every server runs from the very example configuration in the tree, with the
values at its top replaced; on free ports; with folders, table and sockets of
its own; started by root as an unprivileged user.
"""

import ctypes
import glob
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from client import Deadline, Stream, request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD_DIR") or "build")
PROGRAM = os.path.join(BUILD, "python-sandbox.fcgi")
SANDBOXD = os.path.join(BUILD, "sandboxd")
GIVEN_SANDBOX = os.environ.get("SNEKBOX_URL") or ""
PR_SET_CHILD_SUBREAPER = 36
READY_SECONDS = 20
STOP_SECONDS = 15

# orphans of a web server come to us, so that their exit codes can be asked
ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def poll(check, seconds=10, what="condition", every=0.02):
    """Waits until check() gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(every)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def run_as():
    """Arguments for Popen that drop root's rights, and the uid."""
    if os.getuid() != 0:
        return {}, os.getuid()
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid,
            "extra_groups": []}, user.pw_uid


# ---- /proc ---------------------------------------------------------------

def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += [int(word) for word in file.read().split()]
    return sorted(found)


def is_alive(pid):
    """Whether any thread of a process runs. (The first may be a zombie while
    others still hold descriptors open.)"""
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        try:
            with open(path) as file:
                if file.read().rpartition(")")[2].split()[0] not in "ZX":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            pass
    return False


def descriptors(pid):
    """What the descriptors of a process point to."""
    found = []
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(os.path.join(folder, name)))
        except FileNotFoundError:
            pass
    return found


def memory_kib(pid, key="Pss"):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    raise KeyError(key)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- a child with a log --------------------------------------------------

class Child:
    """A program under our eyes: log file, bounded start and stop."""

    def __init__(self, name, argv, folder, env=None, stdin=None):
        as_user, _ = run_as()
        self.name = name
        self.log_path = os.path.join(folder, name + ".log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=clean_environment(folder, env), **as_user)
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def stop(self, sig=signal.SIGTERM, seconds=STOP_SECONDS):
        """Ends the child and returns its exit code."""
        if self.alive():
            self.process.send_signal(sig)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end within {seconds} "
                                 f"s of signal {sig}") from None


def clean_environment(folder, more):
    """A small environment: nothing of the caller's reaches the product but
    what sanitizers need. Their findings go to files that are looked for."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
           "HOME": folder}
    log = os.path.join(folder, "sanitizer")
    for name in ("ASAN", "UBSAN", "TSAN", "LSAN"):
        given = os.environ.get(name + "_OPTIONS", "")
        env[name + "_OPTIONS"] = f"{given}:log_path={log}".strip(":")
    env["UBSAN_OPTIONS"] += ":print_stacktrace=1"
    env.update(more or {})
    return env


def make_folder():
    """A short-named folder that the unprivileged user owns."""
    folder = tempfile.mkdtemp(prefix="psm-")
    os.chown(folder, run_as()[1], -1)
    return folder


def own(path):
    os.chown(path, run_as()[1], -1)
    return path


def write_settings(path, settings):
    with open(path, "w") as file:
        for name, value in settings.items():
            file.write(f'{name} = "{value}"\n')


# ---- the sandbox ---------------------------------------------------------

class Limits:
    """What a sandbox allows, as far as tests must know it."""

    def __init__(self, **values):
        self.__dict__.update(values)


class Sandbox:
    """The real sandboxd on a Unix socket, or the one that was given."""

    every = []      # those that run now

    def __init__(self, **settings):
        self.child = None
        self.folder = None
        if GIVEN_SANDBOX and not settings:
            self.url = GIVEN_SANDBOX
            self.kind = "snekbox"
            self.limits = Limits(time=6, memory=70 << 20, processes=15,
                                 output=1_000_000, workers=2)
            return
        self.kind = "sandboxd"
        self.limits = Limits(time=6, memory=512 << 20, processes=64,
                             output=1_000_000, workers=2)
        self.folder = make_folder()
        self.url = "unix:" + os.path.join(self.folder, "sandboxd.sock")
        self.settings = {"sandboxd_listen": self.url, "sandboxd_workers": 2,
                         "jail_memory": self.limits.memory}
        self.settings.update(settings)
        self.start()
        Sandbox.every.append(self)

    def start(self):
        path = os.path.join(self.folder, "settings.conf")
        write_settings(path, self.settings)
        program = shutil.copy(SANDBOXD, self.folder)
        self.child = Child("sandboxd", [program, "--config", path],
                           self.folder)
        poll(self.ready, READY_SECONDS, "sandboxd answers")

    def health(self):
        """What GET /healthz tells; None while nobody listens."""
        assert self.child.alive(), "sandboxd ended:\n" + self.child.log()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            try:
                sock.connect(self.url[len("unix:"):])
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            sock.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            text = b""
            while part := sock.recv(4096):
                text += part
        return json.loads(text.partition(b"\r\n\r\n")[2])

    def ready(self):
        return self.health() is not None

    def check(self):
        if self.child is not None:
            assert self.child.alive(), "sandboxd died:\n" + self.child.log()
            check_sanitizers(self.folder)

    def runs(self):
        """Programs that run in it now."""
        return self.health()["running"]

    def stop(self):
        if self.child is None:
            return
        if self in Sandbox.every:
            Sandbox.every.remove(self)
        try:
            code = self.child.stop()
            assert code == 0, f"sandboxd: exit code {code}\n" \
                + self.child.log()
            check_sanitizers(self.folder)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def check_sanitizers(folder):
    found = [n for n in os.listdir(folder) if n.startswith("sanitizer.")]
    for name in found:
        with open(os.path.join(folder, name), errors="replace") as file:
            text = file.read()
        os.rename(os.path.join(folder, name),
                  os.path.join(folder, "told-" + name))
        raise AssertionError("a sanitizer found:\n" + text)


# ---- the server ----------------------------------------------------------

class Server:
    """A web server with the responders behind it. front is "lighttpd", which
    starts them itself, or "apache", for which we start them on a socket."""

    every = []      # those that run now

    def __init__(self, url, front="lighttpd", processes=4, mount="/",
                 env=None, conf=None, wrap=(), **settings):
        self.wrap = list(wrap)  # goes before each responder of ours
        self.front = front
        self.processes = processes
        self.mount = mount
        self.prefix = mount.rstrip("/")
        self.env = env or {}
        self.conf = conf or {}
        self.schema = None
        self.workers = []       # children that we started ourselves
        self.folder = make_folder()
        self.settings = {
            "snekbox_url": url, "sandbox_workers": 2,
            "keepalive_idle": "400ms", "keepalive_busy": "200ms",
            "state_name": os.path.basename(self.folder),
            "run_dir": own_dir(self.folder, "run"), "log_level": "debug",
            "artifact_dir": own_dir(self.folder, "artifacts")}
        if url not in [GIVEN_SANDBOX, *(box.url for box in Sandbox.every)]:
            # a stand-in for a sandbox counts, or holds, what comes to it
            self.settings["environment_refresh"] = "0s"
        self.settings.update(settings)
        self.config = os.path.join(self.folder, "settings.conf")
        write_settings(self.config, self.settings)
        self.program = shutil.copy(PROGRAM, self.folder)
        self.sockets = own_dir(self.folder, "s")
        try:
            self.start()
        except BaseException as error:
            self.kill()
            error.add_note(self.logs())
            raise
        Server.every.append(self)

    # -- starting

    def start(self):
        if self.front == "apache":
            self.start_workers()
        for attempt in range(3):
            self.address = ("127.0.0.1", free_port())
            getattr(self, "start_" + self.front)()
            if poll(self.ready_or_ended, READY_SECONDS,
                    "server is ready") is True:
                break
            assert "in use" in self.web.log() and attempt < 2, \
                self.front + " ended:\n" + self.web.log()
        self.pids = poll(self.all_responders, READY_SECONDS,
                         "responders run")
        self.base, self.same = {}, 0
        poll(self.settle, READY_SECONDS, "descriptors settle", 0.1)

    def ready_or_ended(self):
        """True when a stream opens, "ended" when the web server is gone."""
        if not self.web.alive():
            return "ended"
        try:
            with Stream(self.address, self.prefix + "/sse") as stream:
                return stream.status == 200
        except (ConnectionRefusedError, ConnectionError):
            return False

    def all_responders(self):
        found = self.responders()
        return found if len(found) == self.processes \
            and all(map(self.has_started, found)) else None

    def settle(self):
        """Learns the quiet descriptor counts: the same three times, and no
        stream."""
        now = self.counts()
        self.same = self.same + 1 if now == self.base else 0
        self.base = now
        return self.same >= 3 and not self.open_streams()

    def start_lighttpd(self):
        values = {"address": self.address[0], "port": self.address[1],
                  "mount": self.mount, "program": self.program,
                  "processes": self.processes, "config": self.config,
                  "sockets": self.sockets,
                  "docroot": own_dir(self.folder, "empty")}
        values.update(self.conf)
        path = os.path.join(self.folder, "lighttpd.conf")
        edit_example("lighttpd.conf.example", path, r"^var\.(\w+) = (.*)$",
                     lambda k, v: f"var.{k} = " + (
                         f'"{v}"' if isinstance(v, str) else str(v)), values)
        self.web = Child("lighttpd", ["lighttpd", "-D", "-f", path],
                         self.folder, self.env)

    def start_workers(self):
        """Responders with a bound socket as descriptor 0, as spawn-fcgi
        gives it."""
        path = os.path.join(self.sockets, "app.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        own(path)
        self.listener.listen(1024)
        for i in range(self.processes):
            self.start_worker(i)

    def start_worker(self, i):
        env = {"PYTHON_SANDBOX_CONFIG": self.config, **self.env}
        self.workers.append(Child(f"responder-{i}",
                                  [*self.wrap, self.program], self.folder,
                                  env, self.listener))

    def start_apache(self):
        values = {"sandbox_address": self.address[0],
                  "sandbox_port": self.address[1],
                  "sandbox_mount": self.prefix + "/",
                  "sandbox_socket": os.path.join(self.sockets, "app.sock"),
                  "sandbox_run": own_dir(self.folder, "apache"),
                  "sandbox_log": os.path.join(self.folder, "error.log")}
        path = os.path.join(self.folder, "apache.conf")
        edit_example("apache.conf.example", path, r"^Define (\w+) (.*)$",
                     lambda k, v: f'Define {k} "{v}"', values)
        self.web = Child("apache", ["apache2", "-DFOREGROUND", "-f", path],
                         self.folder, self.env)

    # -- watching

    def responders(self):
        if self.workers:
            return [w.pid for w in self.workers if w.alive()]
        return [pid for pid in children(self.web.pid) if is_alive(pid)]

    def watched(self):
        """Processes whose descriptors are counted."""
        return self.responders() + (
            [self.web.pid] if self.front == "lighttpd" else [])

    def counts(self):
        """How many descriptors each process has open. Those by which the
        responders watch each other's lives come and go with their peers."""
        return {pid: sum("pidfd" not in name for name in descriptors(pid))
                for pid in self.watched()}

    def open_streams(self):
        """Whether a client connection is open at the web server."""
        port = "%04X" % self.address[1]
        with open("/proc/net/tcp") as file:
            rows = [line.split() for line in file][1:]
        return any(row[1].endswith(":" + port) and row[3] in ("01", "08")
                   for row in rows)

    def owner(self, session_id):
        """The responder that holds a session's stream: the id ends with the
        name that the process gave itself in the log."""
        found = re.search(r"app\.started pid=(\d+) process="
                          + session_id[32:], self.logs())
        assert found, f"session {session_id} is of no process in the log"
        return int(found.group(1))

    def has_started(self, pid):
        """Whether a responder said so: before, a signal just kills it."""
        return f"app.started pid={pid} " in self.logs()

    def changed(self, lost=1):
        """Takes the processes that run now as the right ones: a test has
        ended some (lost) on purpose, and others have taken their place."""
        def replaced():
            now = self.responders()
            return len(now) == self.processes \
                and len(set(self.pids) - set(now)) >= lost \
                and all(self.has_started(pid) for pid in now) and now

        def wake():
            # lighttpd starts a lost child again when it next looks
            self.request("GET", "/nothing")
            return replaced()

        quiet = max(self.base[pid] for pid in self.pids)
        self.pids = poll(wake, READY_SECONDS, "responders run again", 0.1)
        self.base = {pid: self.base.get(pid, quiet) for pid in self.watched()}

    def check(self):
        """Everything still runs and gave back what it had opened."""
        assert self.web.alive(), self.front + " died:\n" + self.web.log()
        check_sanitizers(self.folder)
        assert self.responders() == self.pids, \
            f"responders {self.pids} became {self.responders()}"
        try:
            poll(self.quiet, 10, "descriptors are back", 0.05)
        except TimeoutError:
            shown = "\n".join(f"{pid} ({self.base.get(pid)}): "
                              f"{sorted(descriptors(pid))}"
                              for pid in self.watched())
            raise AssertionError("descriptors leaked:\n" + shown) from None

    def quiet(self):
        return all(n <= self.base.get(pid, -1)
                   for pid, n in self.counts().items())

    # -- requests

    def request(self, method, path, body=None, headers=None, **kw):
        return request(self.address, method, self.prefix + path, body,
                       headers, **kw)

    # -- ending

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".log") or "sanitizer." in name:
                with open(os.path.join(self.folder, name),
                          errors="replace") as file:
                    text += f"---- {name}\n" + file.read()
        return text

    def kill(self):
        for child in [getattr(self, "web", None), *self.workers]:
            if child is not None and child.alive():
                for pid in children(child.pid):
                    os.kill(pid, signal.SIGKILL)
                child.process.kill()
                child.process.wait()

    def stop(self):
        """Ends everything and asserts that it ended cleanly."""
        if self in Server.every:
            Server.every.remove(self)
        pids = self.responders()
        try:
            code = self.web.stop()
            # lighttpd says 1 when a client was still connected
            assert code in ((0, 1) if self.front == "lighttpd" else (0,)), \
                f"{self.front}: exit code {code}"
            for worker in self.workers:
                code = worker.stop()
                assert code == 0, f"{worker.name}: {code}\n" + worker.log()
            if not self.workers:
                wait_orphans(pids)
            check_sanitizers(self.folder)
            left = os.listdir(os.path.join(self.folder, "run"))
            assert left == [], f"left in the run folder: {left}"
        except BaseException as error:
            error.add_note(self.logs()[-8000:])
            raise
        finally:
            if self.workers:
                self.listener.close()
            self.remove_table()
            shutil.rmtree(self.folder, ignore_errors=True)

    def remove_table(self):
        for name in os.listdir("/dev/shm"):
            if self.settings["state_name"] in name:
                os.unlink(os.path.join("/dev/shm", name))


def own_dir(folder, name):
    path = os.path.join(folder, name)
    os.makedirs(path, 0o700, exist_ok=True)
    return own(path)


def edit_example(example, path, pattern, render, values):
    """Copies an example configuration with values at its top replaced; each
    of them must be there."""
    left = dict(values)

    def replace(match):
        key = match.group(1)
        return render(key, left.pop(key)) if key in left else match.group(0)

    with open(os.path.join(ROOT, example)) as file:
        text = re.sub(pattern, replace, file.read(), flags=re.M)
    assert not left, f"{example} has no {sorted(left)}"
    with open(path, "w") as file:
        file.write(text)


def wait_orphans(pids):
    """Waits for responders whose web server has gone: they are our children
    now. Each must end by itself, with code 0."""
    deadline = Deadline(STOP_SECONDS)
    for pid in pids:
        while True:
            try:
                done, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                if not is_alive(pid):
                    break       # its own parent has taken the code
                done = 0
            if done:
                assert os.waitstatus_to_exitcode(status) == 0, \
                    f"responder {pid} ended with status {status:#x}"
                break
            deadline.left(f"end of responder {pid}")
            time.sleep(0.02)
