#!/usr/bin/env python3
"""What the server adds to a run, and what an idle stream costs.

    bench.py [--parts latency,runner,idle] [--prints N] [--figures N]
             [--streams N] [--seconds N]

Latency: the same request body goes through lighttpd and the server, and
straight to the sandbox, in turn (A B B A ...) within one run. Runner: the same
program straight at the sandbox with what the server puts in front of it, and
without. Idle: many open streams, their memory and processor time. A missed budget ends with code 1.
With SNEKBOX_URL the given sandbox is used, else our sandboxd.
"""

import argparse
import base64
import json
import os
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "integration"))

from client import Connection, Deadline, Session, build_head  # noqa: E402
from fakes import FakeSandbox, eval_answer  # noqa: E402
from harness import Sandbox, Server, children, memory_kib  # noqa: E402

PRINT = "print(1)"
FIGURE = ("import matplotlib.pyplot as plt\n"
          "plt.plot([1, 4, 2, 3])\nplt.title('bench')\nplt.show()\n")
PRINT_MS = 2.0              # at most added to print(1)
FIGURE_SHARE = 0.02         # at most added to a figure
RUNNER_MS = 15.0            # at most added by the runner to print(1)
RUNNER_MIB = 8.0
STREAM_KIB = 2.0            # at most for an idle stream
CPU_SHARE = 0.02 / 10_000   # of a core, at most for an idle stream


# ---- latency -------------------------------------------------------------

def recorded_body(code):
    """The very request that the server sends for a program."""
    fake = FakeSandbox(lambda *_: eval_answer("1\n"))
    server = Server(fake.url, processes=1)
    try:
        with Session(server) as session:
            session.call(code)
        return fake.requests[0][1]
    finally:
        server.stop()
        fake.close()


class Straight:
    """A client of the sandbox; keeps its connection when it may."""

    def __init__(self, url):
        self.url = url.split(",")[0]
        self.conn = None

    def connect(self):
        conn = Connection.__new__(Connection)
        conn.buffer, conn.ended = b"", False
        if self.url.startswith("unix:"):
            conn.sock = socket.socket(socket.AF_UNIX)
            conn.sock.connect(self.url[len("unix:"):])
        else:
            host, _, rest = self.url.split("//", 1)[1].partition(":")
            conn.sock = socket.create_connection(
                (host, int(rest.split("/")[0])))
        return conn

    def run(self, body):
        """Posts body; returns the milliseconds until the whole answer."""
        begin = time.perf_counter()
        conn = self.conn or self.connect()
        conn.send(build_head(("sandbox", 80), "POST", "/eval", {
            "Content-Type": "application/json", "Accept": "application/json",
            "Content-Length": str(len(body))}) + body)
        deadline = Deadline(60)
        status, _, headers = conn.head(deadline)
        answer = conn.body(headers, deadline)
        taken = (time.perf_counter() - begin) * 1000
        assert status == 200 and b'"returncode":' in answer, answer[:300]
        self.conn = conn
        if headers.get("connection", "").lower() == "close":
            conn.close()
            self.conn = None
        return taken


def run_through(session, code):
    """A call on an open session; returns the milliseconds."""
    begin = time.perf_counter()
    session.start(code)
    event = session.stream.next_event(60)
    taken = (time.perf_counter() - begin) * 1000
    assert '"isError":true' not in event.data.replace(" ", ""), event
    return taken


def interleaved(session, straight, code, body, n):
    """n pairs, A B and B A in turn: [(through, straight)]."""
    pairs = []
    for i in range(n):
        if i % 2 == 0:
            a = run_through(session, code)
            b = straight.run(body)
        else:
            b = straight.run(body)
            a = run_through(session, code)
        pairs.append((a, b))
    return pairs


def p95(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def latency(args, box, report):
    server = Server(box.url, keepalive_idle="15s", log_level="info")
    straight = Straight(box.url)
    fine = True
    try:
        with Session(server) as session:
            for name, code, n in (("print(1)", PRINT, args.prints),
                                  ("figure", FIGURE, args.figures)):
                body = recorded_body(code)
                interleaved(session, straight, code, body, 4)   # warm
                pairs = interleaved(session, straight, code, body, n)
                fine &= report_latency(report, name, pairs)
    finally:
        server.stop()
    return fine


def report_latency(report, name, pairs):
    """Added at the median: of the differences between neighbours, so that a
    drift of the machine meets both alike."""
    through, straight = zip(*pairs)
    added = statistics.median(a - b for a, b in pairs)
    base = statistics.median(straight)
    budget = PRINT_MS if name == "print(1)" else base * FIGURE_SHARE
    fine = added <= budget
    for label, values in (("server", through), ("sandbox alone", straight)):
        report(f"{name}, {label}", f"p50 {statistics.median(values):.1f} ms, "
               f"p95 {p95(values):.1f} ms ({len(values)} runs)", "", None)
    report(f"{name}, added", f"{added:.2f} ms ({added / base:+.1%})",
           f"{budget:.2f} ms", fine)
    return fine


# ---- the runner ----------------------------------------------------------

def plain_body(code):
    """The request without the runner."""
    text = base64.b64encode(code.encode()).decode()
    return json.dumps({"args": ["main.py"], "files": [
        {"path": "main.py", "content": text}]}).encode()


def pss_of(body):
    """KiB of all processes of a program that waits for the end of its
    standard input, run by the machine's own Python."""
    request = json.loads(body)
    with tempfile.TemporaryDirectory() as folder:
        for file in request["files"]:
            path = os.path.join(folder, file["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(base64.b64decode(file["content"]))
        with subprocess.Popen(["/usr/bin/python3", *request["args"]],
                              cwd=folder, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            while b"1\n" != process.stdout.readline():
                pass
            pids = [process.pid, *children(process.pid)]
            kib = sum(memory_kib(pid) for pid in pids)
            process.stdin.close()
            process.stdout.read()
    return kib


def runner(args, box, report):
    """The time at the lower quartiles: what else the machine does lengthens
    all runs, those with two processes most."""
    straight = Straight(box.url)
    body, plain = recorded_body(PRINT), plain_body(PRINT)
    pairs = []
    for i in range(args.prints + 4):
        if i % 2 == 0:
            a, b = straight.run(body), straight.run(plain)
        else:
            b, a = straight.run(plain), straight.run(body)
        pairs.append((a, b))
    withs, withouts = zip(*pairs[4:])
    added = statistics.quantiles(withs)[0] - statistics.quantiles(withouts)[0]
    median = statistics.median(a - b for a, b in pairs[4:])
    report("print(1), added by the runner",
           f"{added:.2f} ms (median of differences {median:.2f} ms)",
           f"{RUNNER_MS:.0f} ms", added <= RUNNER_MS)
    wait = "print(1, flush=True)\nimport sys\nsys.stdin.read()"
    mib = (pss_of(recorded_body(wait)) - pss_of(plain_body(wait))) / 1024
    report("print(1), memory of the runner", f"{mib:.1f} MiB PSS",
           f"{RUNNER_MIB:.0f} MiB", mib <= RUNNER_MIB)
    return added <= RUNNER_MS and mib <= RUNNER_MIB


# ---- idle streams --------------------------------------------------------

class IdleStreams:
    """Many open streams in one thread, counting their comments."""

    def __init__(self, server, n):
        self.selector = selectors.DefaultSelector()
        self.comments = {}
        self.ended = 0
        head = build_head(server.address, "GET", "/sse", {})
        for _ in range(n):
            sock = socket.create_connection(server.address)
            sock.sendall(head)
            self.comments[sock] = 0
            self.selector.register(sock, selectors.EVENT_READ)
            self.read(0)
        deadline = Deadline(30)
        while self.heard < n:
            deadline.left("endpoint events")
            self.read(0.5)
        for sock in self.comments:
            self.comments[sock] = 0

    @property
    def heard(self):
        return sum(1 for n in self.comments.values() if n > 0)

    def read(self, seconds):
        for key, _ in self.selector.select(seconds):
            data = key.fileobj.recv(65536)
            if data:
                self.comments[key.fileobj] += 1
            else:
                self.ended += 1
                self.selector.unregister(key.fileobj)

    def close(self):
        for sock in self.comments:
            sock.close()
        self.selector.close()


def processor_seconds(pids):
    """Time on a processor, of all threads, in seconds."""
    total = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
    return total / 1e9


def memory(pids, key):
    return sum(memory_kib(pid, key) for pid in pids)


def measure_idle(args, server, session):
    """Opens the streams, watches them, and calls once in between."""
    pids = server.pids
    session.call(PRINT)
    before = {key: memory(pids, key) for key in ("Pss", "Rss")}
    streams = IdleStreams(server, args.streams)
    try:
        cpu, begin, called = processor_seconds(pids), time.monotonic(), None
        while time.monotonic() - begin < args.seconds:
            streams.read(0.5)
            if called is None and time.monotonic() - begin > args.seconds / 2:
                cpu_part = processor_seconds(pids) - cpu
                called = session.call(PRINT).stdout
                cpu = processor_seconds(pids) - cpu_part
        cpu = processor_seconds(pids) - cpu
        took = time.monotonic() - begin
        after = {key: memory(pids, key) for key in ("Pss", "Rss")}
        kib = {key: (after[key] - before[key]) / args.streams
               for key in after}
        return streams, kib, cpu / took, called
    finally:
        streams.close()


def idle(args, box, report):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = Server(box.url, keepalive_idle="15s", log_level="info")
    try:
        with Session(server) as session:
            streams, kib, share, called = measure_idle(args, server, session)
    finally:
        server.stop()
    wanted = int(args.seconds // 15)
    alive = streams.ended == 0 and streams.heard == args.streams \
        and min(streams.comments.values()) >= wanted
    n = args.streams
    checks = [
        (f"{n} idle streams, memory each", f"{kib['Pss']:.2f} KiB PSS, "
         f"{kib['Rss']:.2f} KiB RSS", f"{STREAM_KIB:.1f} KiB",
         kib["Pss"] <= STREAM_KIB),
        (f"{n} idle streams, processor", f"{share:.3%} of a core over "
         f"{args.seconds:.0f} s", f"{CPU_SHARE * n:.3%}",
         share <= CPU_SHARE * n),
        (f"{n} idle streams, alive with comments",
         f"{streams.heard} of {n}, least comments "
         f"{min(streams.comments.values())}", f"all, {wanted}", alive),
        ("a call meanwhile", repr(called), repr("1\n"), called == "1\n")]
    for row in checks:
        report(*row)
    return all(row[3] for row in checks)


# ---- the table -----------------------------------------------------------

def make_report(kind):
    print(f"sandbox: {kind}, {os.cpu_count()} processors, load "
          f"{os.getloadavg()[0]:.1f} at the start\n")
    print("| what | measured | budget | |")
    print("|---|---|---|---|", flush=True)

    def report(what, measured, budget, fine):
        mark = {None: "", True: "ok", False: "MISSED"}[fine]
        print(f"| {what} | {measured} | {budget} | {mark} |", flush=True)

    return report


def main():
    parser = argparse.ArgumentParser(
        description="What the server adds, and what idle streams cost.")
    parser.add_argument("--parts", default="latency,runner,idle")
    parser.add_argument("--prints", type=int, default=100)
    parser.add_argument("--figures", type=int, default=30)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    parts = args.parts.split(",")
    known = {"latency": latency, "runner": runner, "idle": idle}
    if not set(parts) <= set(known):
        parser.error("parts are latency, runner and idle")
    box = Sandbox()
    try:
        report = make_report(box.kind)
        fine = all([known[part](args, box, report) for part in parts])
    finally:
        box.stop()
    if not fine:
        print("\na budget was missed", file=sys.stderr)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
