"""Runs in front of every program: python -u runner.py NONCE TIME OUTPUT FLAGS

It forks. The child runs main.py of the working folder as "python main.py"
would; the parent carries what the child writes to the real standard output,
watches time and amount, and closes with a report. The protocol is described
in outcome.c. Only what every run needs is here, because this text is compiled
each time; the rest lies beside it: after.py (what a program left to say),
plot.py (figures), files.py (the working folder).

TIME is the sandbox's limit in milliseconds, OUTPUT the most characters that
may be written in all; FLAGS: "i" standard input lies in the file stdin, "f"
the program got input files.
"""
import faulthandler
import gc
import os
import sys
import time
from _ast import Expr, Interactive, PyCF_ONLY_AST
from _functools import partial
from _signal import (SIG_IGN, SIGCHLD, SIGKILL, SIGRTMAX, set_wakeup_fd,
                     signal)
from _weakref import ref
# the program may change what these names mean
from builtins import compile, exec, open
from itertools import chain, starmap
from os import fstat, getpid, write
from select import POLLIN, poll
from types import FunctionType

START = time.monotonic()
START_NS = time.time_ns()
HOME = os.getcwd()
FOLDER = os.path.dirname(os.path.abspath(__file__))
NONCE = sys.argv[1]
TIME = int(sys.argv[2]) / 1000
OUTPUT = int(sys.argv[3])
FLAGS = sys.argv[4] if len(sys.argv) > 4 else ""

# Private signals: raise TimeLimitExceeded; write the stack.
SIGNAL_TIME = SIGRTMAX - 3
SIGNAL_STACK = SIGRTMAX - 4

# The report needs room below the sandbox's limit of output.
REPORT_ROOM = 120000
REPORT_MAX = 110000
FIRST = (b'{"t":"exception"', b'{"t":"result"')

# Python before 3.9 names a program in tracebacks as the command line did.
MAIN = "main.py" if sys.version_info < (3, 9) else HOME + "/main.py"


def text_of(name):
    with open(FOLDER + "/" + name, "rb") as f:
        return f.read()


# Read now: a program may empty its working folder, and this one with it.
TEXTS = {name: text_of(name) for name in ("after.py", "plot.py", "files.py")}


def load(name, scope):
    """Runs one of the files beside this one inside scope."""
    exec(compile(TEXTS[name], FOLDER + "/" + name, "exec",
                 dont_inherit=True), scope)
    return scope


# ---- the parent -----------------------------------------------------------

def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[write(fd, view):]


class Parent:
    def __init__(self, pid, out, report):
        self.pid = pid
        self.out = out
        self.report = report
        self.room = max(OUTPUT - REPORT_ROOM, OUTPUT // 2)
        self.written = 0
        self.told = b""
        self.last = b""	# the end of what was told beyond that
        self.status = None
        self.usage = None
        self.killed = ""
        self.soft = 0
        margin = min(1.0, TIME / 3)
        self.next_soft = TIME - margin
        self.stack_at = TIME - margin * 0.35
        self.kill_at = TIME - margin * 0.3

    def kill(self, why):
        self.killed = why
        self.signal(SIGKILL)

    def signal(self, number):
        if self.status is None:
            try:
                os.kill(self.pid, number)
            except OSError:
                pass

    def pump(self):
        """Carries one piece of output; False when there is none."""
        try:
            data = os.read(self.out, 65536)
        except BlockingIOError:
            return False
        self.written += len(data)
        # Snekbox reads its pipe as UTF-8 text with universal newlines: so
        # every byte travels as one character below U+0100, and those that
        # would be lost are escaped
        coded = (data.replace(b"\x1d", b"\x1d\x1d").replace(b"\r", b"\x1dr")
                 .replace(b"\0", b"\x1d0"))
        if len(coded) > self.room:
            coded = coded[:self.room]
            if not self.killed:
                self.kill("output")
        self.room -= len(coded)
        write_all(1, coded.decode("latin-1").encode())
        return bool(data)

    def listen(self):
        """Takes what the child reports; False when there is nothing."""
        try:
            data = os.read(self.report, 65536)
        except BlockingIOError:
            return False
        if len(self.told) < 4 * REPORT_MAX:
            self.told += data
        else:
            self.last = (self.last + data)[-REPORT_MAX:]
        return bool(data)

    def reap(self):
        """Also orphans: inside a sandbox this may be process 1."""
        try:
            while self.status is None:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    self.status, self.usage = status, usage
        except ChildProcessError:
            self.status = 0

    def tick(self):
        """Does what is due and returns the milliseconds until more is."""
        now = time.monotonic() - START
        if now >= self.kill_at:
            if not self.killed:
                self.kill("time")
            return 1000
        if now >= self.stack_at:
            if self.stack_at:
                self.stack_at = 0
                self.signal(SIGNAL_STACK)
            return int((self.kill_at - now) * 1000) + 1
        if now >= self.next_soft:
            self.soft += 1
            self.next_soft = now + 0.2
            self.signal(SIGNAL_TIME)
        due = min(self.next_soft, self.stack_at)
        return int((due - now) * 1000) + 1

    def spare(self):
        """What a program sends to its parent shall not end the report."""
        for number in range(1, SIGRTMAX + 1):
            try:
                signal(number, SIG_IGN)
            except (OSError, ValueError):
                pass

    def give_up(self):
        """The program has broken us (prlimit)."""
        self.signal(SIGKILL)
        try:
            if self.status is None:
                self.status = os.waitpid(self.pid, 0)[1]
        except OSError:
            self.status = SIGKILL

    def watch(self):
        self.spare()
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal(SIGCHLD, lambda *_: None)
        wait = poll()
        for fd in (self.out, self.report, wake):
            os.set_blocking(fd, False)
            wait.register(fd, POLLIN)
        self.reap()
        while self.status is None:
            for fd, _ in wait.poll(self.tick()):
                if fd == self.out:
                    if not self.pump():
                        wait.unregister(fd)
                elif fd == self.report:
                    if not self.listen():
                        wait.unregister(fd)
                else:
                    os.read(fd, 64)
            self.reap()
        while self.room > 0 and self.pump():
            pass
        while self.listen():
            pass

    def exit_code(self, number, said):
        if self.killed:
            return 143 if self.killed == "output" else 137
        return 128 + number if number else os.WEXITSTATUS(self.status) or said

    def heard(self):
        """What the child told: lines for the report, the stack, the exit
        code. The program can write there too: anything may come."""
        lines, stack, said = [], [], 0
        told = self.told.split(b"\n")
        if self.last:
            # between the two a part may be missing
            told[-1:] = self.last.split(b"\n")[1:]
        for line in told:
            if line[:1] == b"{":
                lines.append(line)
            elif line[:1] == b"x" and line[1:].isdigit():
                said = int(line[1:4]) & 255
            elif line:
                stack.append(line.decode("ascii", "replace"))
        lines.sort(key=lambda line: not line.startswith(FIRST))
        return lines, stack, said

    def listing(self, stack):
        """Lines about the working folder, if there is anything new."""
        try:
            if not stack and "f" not in FLAGS and os.listdir(HOME) == NAMES:
                return []
        except OSError:
            os.chmod(HOME, 0o755)
        return load("files.py", globals())["survey"](stack)

    def close(self):
        """Writes the report and ends with the program's exit code."""
        lines, stack, said = self.heard()
        number = self.status & 127
        if number in (SIGNAL_TIME, SIGNAL_STACK):
            # it came while the interpreter was ending, without handlers
            self.killed = "time"
        code = self.exit_code(number, said)
        try:
            lines += self.listing(stack)
        except Exception:
            pass
        first = (
            '{"v":1,"exit":%d,"signal":%d,"killed":"%s","soft":%d,'
            '"bytes":%d,"ms":%d,"rss":%d,"input":%d}' % (
                code, number, self.killed, self.soft, self.written,
                (time.monotonic() - START) * 1000,
                self.usage.ru_maxrss if self.usage else 0, "i" in FLAGS))
        text = ["\x1dE" + NONCE, first]
        size = 0
        for line in lines:
            size += len(line) + 1
            if size > REPORT_MAX:
                text.append('{"t":"cut"}')
                break
            text.append(line.decode("ascii", "replace"))
        write_all(1, ("\n".join(text) + "\n").encode())
        os._exit(code)


# ---- the child ------------------------------------------------------------

class TimeLimitExceeded(BaseException):
    """Raised where the program stands, shortly before it would be killed."""


TimeLimitExceeded.__module__ = "builtins"


class Child:
    def __init__(self, out, report):
        self.pid = os.getpid()
        if "i" in FLAGS:
            fd = os.open(FOLDER + "/stdin", os.O_RDONLY)
            os.dup2(fd, 0)
            os.close(fd)
        os.dup2(out, 1)
        os.dup2(out, 2)
        # out of the way, because programs count on the lowest number
        most = os.sysconf("SC_OPEN_MAX")
        self.report = (most if 16 < most < 256 else 256) - 1
        os.dup2(report, self.report, inheritable=False)
        self.pipe = os.fstat(self.report).st_ino
        self.running = False
        self.waiting = {}
        self.codes = []		# the program's parts that did not run yet
        self.has_value = False	# of the last part
        self.code = None	# the part under way
        self.part = None	# what calls it
        self.scope = None	# the names of __main__
        self.over = False
        self.passed = True	# the last part ran to its end

    def send(self, line):
        """Tells the parent one line of ASCII, whatever the program did to
        its descriptors. False when that is not possible; processes forked by
        the program have no say."""
        try:
            if getpid() == self.pid and \
                    fstat(self.report).st_ino == self.pipe:
                write_all(self.report, line.encode("ascii") + b"\n")
                return True
        except OSError:
            pass
        return False

    def on_time(self, number, frame):
        if self.running and getpid() == self.pid:
            raise TimeLimitExceeded("the time limit of %g s" % TIME)

    def after(self, name, *args, **fields):
        """Calls what only some programs need."""
        if "died" not in SCOPE:
            load("after.py", SCOPE)
        return SCOPE[name](*args, **fields)

    def step(self):
        """Called by C code when a part of the program has run. The next part
        begins when what is returned here is dropped, again by C code."""
        if self.over:
            return None
        if not self.passed:
            # it failed, and the program has taken our hook away
            self.end(1)
            return None
        if not self.codes:
            self.end(0)
            return None
        self.code = self.codes.pop(0)
        self.passed = False
        if self.has_value and not self.codes:
            sys.displayhook = self.display
        # C code that counts as no recursion: calls the one, then the
        # other if that did not raise
        self.part = partial(list, chain(
            starmap(FunctionType(self.code, self.scope), [()]),
            starmap(self.__setattr__, [("passed", True)])))
        return [Part(self.step), Part(self.part)]

    def display(self, value):
        sys.displayhook = sys.__displayhook__
        if value is not None:
            self.after("result", value)

    def failed(self, args):
        """Stands in for sys.unraisablehook: there is no frame below the
        program, so what it raises arrives here."""
        tb = args.exc_traceback
        ours = tb.tb_frame.f_code is self.code if tb else \
            args.object is self.part
        if self.over or not ours:
            self.unraisable(args)
        else:
            self.fail(args.exc_type, args.exc_value, tb)

    def fail(self, kind, value, tb):
        self.running = False
        self.over = True
        if value is None:
            value = kind()
        try:
            code = self.after("died", kind, value, tb)
        except BaseException:
            # the program broke what we need; it failed all the same
            code = 1
            self.excepthook(kind, value, tb)
        self.end(code)

    def end(self, code):
        """Everything that is left before the interpreter ends by itself."""
        self.running = False
        self.over = True
        self.scope = self.part = None
        if "plot_end" in SCOPE or "threading" in sys.modules:
            try:
                code = self.after("finish", code)
            except BaseException:
                pass
        # the interpreter would make them deadly again
        faulthandler.unregister(SIGNAL_STACK)
        signal(SIGNAL_STACK, SIG_IGN)
        signal(SIGNAL_TIME, SIG_IGN)
        if code and not self.send("x%d" % code):
            self.after("leave", code)

    def find_spec(self, name, path=None, target=None):
        """As a finder on sys.meta_path: sees the first import of a library
        that draws."""
        if name == "matplotlib":
            load("plot.py", SCOPE)
            sys.meta_path[sys.meta_path.index(self)] = SCOPE["PlotFinder"]()
        return None

    def prepare(self, base):
        main = type(sys)("__main__")
        scope = main.__dict__
        scope.update(base)
        scope["__doc__"] = None
        scope["__file__"] = MAIN
        scope["__loader__"] = type(base["__loader__"])("__main__", MAIN)
        sys.argv[:] = ["main.py"]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = [sys.orig_argv[0], "main.py"]
        if sys.path[:1] == [FOLDER]:
            sys.path[0] = HOME
        if os.environ.get("PYTHON_COLORS") == "1":
            os.environ["PYTHON_COLORS"] = "0"
        for stream in (sys.stdout, sys.stderr):
            if stream.encoding.lower() != "utf-8":
                stream.reconfigure(encoding="utf-8")
        if sys.stdout.errors != "strict":
            sys.stdout.reconfigure(errors="strict")
        sys.meta_path.insert(0, self)
        signal(SIGNAL_TIME, self.on_time)
        faulthandler.enable(self.report)
        faulthandler.register(SIGNAL_STACK, self.report, all_threads=True)
        self.excepthook = sys.excepthook
        self.unraisable = sys.unraisablehook
        sys.unraisablehook = sys.__unraisablehook__ = self.failed
        return main

    def start(self, base):
        """Arranges for the program to run once this file is through: the
        interpreter then drops the old __main__, and the callback of a weak
        reference drops the first part. So C code calls the program, and no
        frame of ours is below its own (stack depth, recursion, warnings and
        inspect see none)."""
        main = self.prepare(base)
        self.scope = main.__dict__
        shared = sys.getrefcount(sys.modules["__main__"]) > 3
        try:
            self.codes = parts(self)
        except BaseException as e:
            sys.modules["__main__"] = main
            self.fail(type(e), e, None)
            return
        self.running = True
        if not shared:
            self.weak = ref(sys.modules["__main__"], self.waiting.pop)
            self.waiting[self.weak] = [Part(self.step)]
        sys.modules["__main__"] = main
        if shared:
            # the old module won't be dropped: run here and now
            Part(self.step)


class Part:
    """When one is dropped, C code calls the function that it was made of."""

    __slots__ = ("__del__",)

    def __init__(self, function):
        self.__del__ = function


def compiled(data, mode="exec", flags=0):
    return compile(data, MAIN, mode, flags, dont_inherit=True)


def quietly(data, mode, flags=0):
    """Whether text compiles, without its warnings."""
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compiled(data, mode, flags)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def last_statement(data):
    """Where the last line with a statement of its own begins; -1 when that is
    not found within reason. Looks at few lines: big programs cost nothing."""
    start = len(data)
    for _ in range(200):
        start = data.rfind(b"\n", 0, max(start - 1, 0)) + 1
        if len(data) - start > 20000:
            break
        if data[start:start + 1] not in b" \t\r\n\f#)]}" and \
                quietly(data[start:], "exec", PyCF_ONLY_AST):
            return start
        if start == 0:
            break
    return -1


def ends_with_value(data, tree):
    """Whether the last statement is an expression not ended by ";"."""
    last = tree.body[-1] if tree and tree.body else None
    if not isinstance(last, Expr):
        return False
    lines = data.replace(b"\xef\xbb\xbf", b"").split(b"\n")
    if last.end_lineno > len(lines):
        return False
    rest = lines[last.end_lineno - 1][last.end_col_offset:]
    return not rest.lstrip().startswith(b";")


def split(data):
    """The program in parts, the last a lone expression whose value is wanted;
    None where it doesn't end with one."""
    if b"coding" in data[:200]:
        return None
    start = last_statement(data)
    tail = data[start:]
    if start < 0 or not ends_with_value(
            tail, quietly(tail, "exec", PyCF_ONLY_AST)):
        return None
    try:
        codes = [compiled(data[:start])] if data[:start].strip() else []
    except SyntaxError:
        return None
    lines = b"\n" * data.count(b"\n", 0, start)
    if start:
        tail = lines + tail
    tree = compiled(tail, "exec", PyCF_ONLY_AST)
    last = tree.body.pop()
    if tree.body:
        codes.append(compiled(tree))
    return codes + [compiled(Interactive(body=[last]), "single")]


def program(child, data):
    codes = split(data)
    child.has_value = codes is not None
    return codes or [compiled(data)]


def parts(child):
    with open(HOME + "/main.py", "rb") as f:
        data = f.read()
    try:
        return program(child, data)
    except SyntaxError as e:
        data = child.after("repaired", data)
        if data is None:
            raise e.with_traceback(None)
        return program(child, data)


# ---- both -----------------------------------------------------------------

NAMES = os.listdir(HOME)
SCOPE = globals()
BASE = {k: v for k, v in SCOPE.items() if k[:2] == "__"}


def fork():
    write_all(1, ("\x1dB" + NONCE + "\n").encode())
    # what is there will stay: the collector would only copy its pages
    gc.freeze()
    out, report = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(out[1])
        os.close(report[1])
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
    child = Child(out[1], report[1])
    for fd in out + report:
        os.close(fd)
    return child


CHILD = fork()
CHILD.start(BASE)
