"""What "make run" starts: first result, addresses, side by side, clean end."""

import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Served:
    """serve.sh as make calls it, with what it printed so far."""

    def __init__(self, port, **more):
        env = dict(os.environ, PORT=str(port), PROCESSES="2", **more)
        self.process = subprocess.Popen(
            ["bash", str(ROOT / "src/cli/serve.sh")], cwd=ROOT, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # as at a terminal: a job in the background of a script ignores
            # SIGINT, and a shell keeps what it was born ignoring
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.text = ""

    def read_until(self, pattern, seconds=90):
        deadline = time.monotonic() + seconds
        fd = self.process.stdout.fileno()
        while not re.search(pattern, self.text):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in:\n{self.text}"
            if select.select([fd], [], [], left)[0]:
                data = os.read(fd, 65536)
                assert data, f"ended without {pattern!r}:\n{self.text}"
                self.text += data.decode()
        return self.text

    def stop(self, signum=signal.SIGTERM):
        self.process.send_signal(signum)
        rest, _ = self.process.communicate(timeout=40)
        self.text += rest.decode()
        return self.process.returncode

    def folder(self):
        return re.search(r"logs: +(\S+)/\*\.log", self.text)[1]


def processes_naming(text):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode()
            except OSError:
                continue
            if text in line:
                found.append(line)
    return found


def test_shows_a_first_result_and_ends_without_a_trace():
    served = Served(free_port())
    try:
        text = served.read_until("Ctrl-C ends it")
        assert "tools/list: execute_python_code" in text
        saved = re.search(r"figure saved: (\S+)", text)[1]
        assert pathlib.Path(saved).read_bytes().startswith(b"\x89PNG\r\n")
        for client in ("Claude Desktop", "Claude Code", "Cursor", "VS Code",
                       "MCP Inspector", "mcp-remote"):
            assert client in text
        folder = served.folder()
        assert processes_naming(folder)
        if os.geteuid() == 0:
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                try:
                    exe = os.readlink(f"/proc/{pid}/exe")
                    uid = os.stat(f"/proc/{pid}").st_uid
                except OSError:
                    continue
                if exe.startswith(folder) and uid == 0:
                    # sandboxd's janitor removes its cgroups after a crash;
                    # it serves nothing: a pipe is all that it holds
                    assert exe.endswith("/sandboxd")
                    held = os.listdir(f"/proc/{pid}/fd")
                    assert held == ["0"], held
                    assert os.readlink(f"/proc/{pid}/fd/0").startswith("pipe:")
    finally:
        code = served.stop()
    assert code == 0
    assert not os.path.exists(folder)
    assert processes_naming(folder) == []


def test_two_stand_side_by_side_and_ctrl_c_ends_one():
    one, two = Served(free_port()), Served(free_port())
    try:
        one.read_until("Ctrl-C ends it")
        two.read_until("Ctrl-C ends it")
        assert one.stop(signal.SIGINT) == 0
        assert two.process.poll() is None
        assert processes_naming(two.folder())
    finally:
        codes = [s.stop() for s in (one, two) if s.process.poll() is None]
    assert codes == [0]


def test_a_taken_port_is_named_with_the_cure():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        served = Served(port)
        out, _ = served.process.communicate(timeout=30)
    assert served.process.returncode == 1
    assert f"127.0.0.1:{port}" in out.decode()
    assert f"make run PORT={port + 1}" in out.decode()


def test_a_wrong_port_is_refused():
    served = Served("http")
    out, _ = served.process.communicate(timeout=30)
    assert served.process.returncode == 1
    assert "PORT=http" in out.decode()
