"""Runs in front of every program: python -u runner.py NONCE TIME OUTPUT FLAGS SIDE

It forks. The child runs main.py of the working folder as "python main.py"
would; the parent carries what the child writes to the real standard output,
watches time and amount, and closes with a report. The protocol is described
in outcome.c. These texts are compiled in each run, so each process takes only
what it needs: parent.py and child.py; and of the rest, after.py (what a
program left to say), plot.py (figures), files.py (the working folder),
unpack.py (input files), only when it is wanted.

TIME is the sandbox's limit in milliseconds, OUTPUT the most characters that
may be written in all; FLAGS: "i" standard input lies in the file stdin, "f"
input files lie in the archive files; SIDE is the most pixels of an open
figure's longer side.
"""
import gc
import os
import sys
import time
from _signal import (SIG_IGN, SIGCHLD, SIGKILL, SIGRTMAX, set_wakeup_fd,
                     signal)
# the program may change what these names mean
from builtins import compile, exec, open
from os import write

START = time.monotonic()
HOME = os.getcwd()
FOLDER = os.path.dirname(os.path.abspath(__file__))
NONCE = sys.argv[1]
TIME = int(sys.argv[2]) / 1000
OUTPUT = int(sys.argv[3])
FLAGS = sys.argv[4]
SIDE = int(sys.argv[5])

# Private signals: raise TimeLimitExceeded; write the stack.
SIGNAL_TIME = SIGRTMAX - 3
SIGNAL_STACK = SIGRTMAX - 4

SCOPE = globals()
BASE = {k: v for k, v in SCOPE.items() if k[:2] == "__"}
INPUTS = {}	# state of each input file, by path
FAULT = None	# why they could not be laid out


def text_of(name):
    with open(FOLDER + "/" + name, "rb") as f:
        return f.read()


# Read now: a program may empty its working folder, and this one with it.
TEXTS = {name: text_of(name) for name in (
    "parent.py", "child.py", "after.py", "plot.py", "files.py", "unpack.py")}


def load(name):
    """Runs one of the files beside this one inside our scope."""
    exec(compile(TEXTS[name], FOLDER + "/" + name, "exec", 0, True), SCOPE)


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[write(fd, view):]


def unpack_inputs():
    global FAULT
    load("unpack.py")
    try:
        unpack(FOLDER + "/files")
    except (OSError, MemoryError) as e:
        FAULT = e.with_traceback(None)


def fork():
    write_all(1, ("\x1dB" + NONCE + "\n").encode())
    # what is there will stay: the collector would only copy its pages
    gc.freeze()
    out, report = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(out[1])
        os.close(report[1])
        load("parent.py")
        parent = Parent(pid, out[0], report[0])
        try:
            parent.watch()
        except Exception:
            parent.give_up()
        try:
            parent.close()
        finally:
            os._exit(1)
    os.setpgid(0, 0)
    load("child.py")
    child = Child(out[1], report[1])
    for fd in out + report:
        os.close(fd)
    return child


if "f" in FLAGS:
    unpack_inputs()
START_NS = time.time_ns()
NAMES = os.listdir(HOME)
CHILD = fork()
CHILD.start(BASE)
