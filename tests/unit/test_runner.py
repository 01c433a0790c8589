"""The runner alone, in front of programs as people write them: run as an
unprivileged process in a folder like the sandbox's, without a sandbox.

Other interpreters can be named in RUNNER_PYTHONS, separated by blanks."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

RUNNER = pathlib.Path(__file__).parents[2] / "src/sandbox/runner"
PYTHONS = os.environ.get("RUNNER_PYTHONS", "/usr/bin/python3").split()
NONCE = "00112233445566778899aabbccddeeff"
NOBODY = 65534
MARK = "\x1d"
DECODED = {"r": "\r", "0": "\0", MARK: MARK}


class Run:
    """What came of a program; output is bytes, lines the report's."""

    def __init__(self, code, raw, took, folder):
        self.code = code
        self.raw = raw
        self.took = took
        text = raw.decode()
        begin = MARK + "B" + NONCE + "\n"
        assert text.startswith(begin), text[:300]
        body, at = [], len(begin)
        while True:
            assert at < len(text), "no end report: " + text[-300:]
            c = text[at]
            if c == MARK:
                c = text[at + 1]
                at += 1
                if c == "E":
                    break
                c = DECODED[c]
            body.append(c)
            at += 1
        self.output = "".join(body).encode("latin-1")
        self.text = self.output.decode("utf-8", "replace")
        tail = text[at + 1 + len(NONCE) + 1:]
        assert tail.isascii(), "the report is ASCII"
        self.lines = [json.loads(line) for line in tail.splitlines()]
        self.first = self.lines[0]
        self.files = sorted(
            str(path.relative_to(folder)) for path in folder.rglob("*")
            if path.is_file() and not str(path.relative_to(folder)).startswith(
                (".sandbox/", ".cache/", ".config/")))
        if "main.py" in self.files:
            self.files.remove("main.py")
        self.data = {name: (folder / name).read_bytes()
                     for name in self.files}

    def all(self, kind):
        return [line for line in self.lines if line.get("t") == kind]

    def one(self, kind):
        (line,) = self.all(kind)
        return line

    def none(self, kind):
        return self.all(kind) == []


@pytest.fixture(params=PYTHONS, ids=os.path.basename)
def python(request):
    return request.param


@pytest.fixture
def box(python):
    one = Box(python)
    yield one
    one.close()


def archive(files):
    """Input files as they travel: see unpack.py."""
    lines = [f"{len(data)} {os.fsencode(name).hex()}\n"
             for name, data in files.items()]
    return "".join(lines).encode() + b"\n" + b"".join(files.values())


class Box:
    """A folder as Snekbox makes it: the runner's folder belongs to somebody
    else, the working folder is the program's."""

    def __init__(self, python):
        self.python = python
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="runner-"))
        self.folder.chmod(0o777)

    def close(self):
        for path, folders, _ in os.walk(self.folder):
            for name in folders:
                if not os.path.islink(os.path.join(path, name)):
                    os.chmod(os.path.join(path, name), 0o700)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def own(self):
        """Gives the program all of its folder, as sandboxd does."""
        (self.folder / ".sandbox").mkdir()
        (self.folder / ".sandbox").chmod(0o777)
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)

    def fill(self, program, stdin=None, files=None):
        own = self.folder / ".sandbox"
        own.mkdir(exist_ok=True)
        for path in RUNNER.glob("*.py"):
            shutil.copy(path, own)
        if stdin is not None:
            (own / "stdin").write_bytes(stdin)
        if files:
            (own / "files").write_bytes(archive(files))
            (own / "files").chmod(0o777)
        main = self.folder / "main.py"
        main.write_bytes(program if isinstance(program, bytes)
                         else program.encode())
        main.chmod(0o777)

    def execute(self, *args, env=None):
        drop = {"user": NOBODY, "group": NOBODY, "extra_groups": []} \
            if os.geteuid() == 0 else {}
        begin = time.monotonic()
        done = subprocess.run(
            [self.python, "-u", *args], cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=60, env={
                "HOME": str(self.folder), "PYTHONIOENCODING": "utf-8:strict",
                "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8",
                **(env or {})}, **drop)
        return done.returncode, done.stdout, time.monotonic() - begin

    def plain(self, program):
        """As "python main.py" does it."""
        self.fill(program)
        code, output, _ = self.execute("main.py")
        return (128 - code if code < 0 else code), output

    def run(self, program, time_ms=20000, output=1000000, stdin=None,
            files=None, env=None):
        self.fill(program, stdin, files)
        flags = ("i" if stdin is not None else "") + ("f" if files else "")
        return Run(*self.execute(
            ".sandbox/runner.py", NONCE, str(time_ms), str(output), flags,
            "2000", env=env), self.folder)


# ---- the same as without it ----------------------------------------------

SAME = {
    "nothing": "",
    "comment": "# only a comment",
    "hello": "print('hello')",
    "order": "import sys\nfor n in range(50):\n    print('out', n)\n"
             "    print('err', n, file=sys.stderr)",
    "identity": "import sys\nprint(__name__, __file__, sys.argv, __doc__, "
                "__spec__, __package__, sorted(globals()))\n"
                "print(sys.modules['__main__'].__dict__ is globals(), "
                "sys.path[0], type(__loader__).__name__, "
                "__loader__.path, __builtins__)",
    "docstring": '"""Doc."""\nprint(__doc__)',
    "no-frames-below": "import sys, inspect, traceback\n"
                       "print(sys._getframe().f_back)\n"
                       "print(len(inspect.stack()))\n"
                       "def f():\n    traceback.print_stack()\nf()",
    "recursion-depth": "import sys\ndef f(n):\n    try:\n        return f(n + "
                       "1)\n    except RecursionError:\n        return n\n"
                       "print(f(0), sys.getrecursionlimit())",
    "warning": "import warnings\nwarnings.warn('old name')\n"
               "warnings.warn('deep', stacklevel=2)\nprint('value', 5)",
    "deprecation": "import warnings\n"
                   "warnings.warn('gone soon', DeprecationWarning)\nprint(1)",
    "syntax-warning": "x = 1 is 1\nprint(x)\n1 is 1",
    "exception": "def f():\n    return 1 / 0\n\nf()",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n"
               "    raise ValueError('b') from e",
    "context": "try:\n    {}['a']\nexcept KeyError:\n    int('x')",
    "deep-recursion": "def f(): f()\nf()",
    "library-frames": "import json\njson.loads('{')",
    "import-error": "import no_such_module",
    "unicode-error": "print('x' + chr(0xDC80))",
    "unprintable": "class E(Exception):\n    def __str__(self): 1 / 0\n"
                   "raise E",
    "syntax": "x = 1\nprint('never'\n",
    "syntax-indent": "if 1:\nprint(2)",
    "syntax-return": "return 1",
    "syntax-tabs": "if 1:\n        x = 1\n\ty = 2\n",
    "future": "from __future__ import annotations\ndef f(x: Missing): pass\n"
              "print(f.__annotations__)",
    "future-late": "x = 1\nfrom __future__ import annotations\n",
    "exit-0": "import sys\nprint('x'); sys.exit(0)",
    "exit-3": "import sys\nprint('x'); sys.exit(3)",
    "exit-137": "import sys\nsys.exit(137)",
    "exit-minus": "import sys\nsys.exit(-1)",
    "exit-256": "raise SystemExit(256)",
    "exit-true": "raise SystemExit(True)",
    "exit-none": "raise SystemExit",
    "exit-text": "import sys\nsys.exit('bad input')",
    "exit-object": "import sys\nsys.exit([1, 2])",
    "exit-builtin": "quit(4)",
    "exit-in-function": "def f():\n    raise SystemExit('late')\nf()",
    "exit-hard": "import os\nprint('a', flush=True)\nos._exit(9)",
    "exit-subclass": "class E(SystemExit): pass\nraise E(5)",
    "atexit": "import atexit\natexit.register(print, 'bye')\nprint('hi')",
    "atexit-after-error": "import atexit\natexit.register(print, 'bye')\n1/0",
    "atexit-error": "import atexit\natexit.register(lambda: 1/0)\nprint(1)",
    "destructor": "class A:\n    def __del__(self): print('gone')\na = A()",
    "destructor-error": "class A:\n    def __del__(self): 1/0\na = A()\n"
                        "del a\nprint('on')",
    "threads": "import threading, time\ndef f():\n    time.sleep(0.2)\n"
               "    print('late')\nthreading.Thread(target=f).start()\n"
               "print('main')",
    "thread-error": "import threading\nt = threading.Thread("
                    "target=lambda: 1/0)\nt.start(); t.join()\nprint('on')",
    "threads-then-error": "import threading, time\nthreading.Thread(target="
                          "lambda: (time.sleep(0.2), print('late'))).start()\n"
                          "1/0",
    "main-thread": "import threading\nprint(threading.main_thread() is "
                   "threading.current_thread())",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n"
               "    return 5\nprint(asyncio.run(f()))",
    "executor": "from concurrent.futures import ThreadPoolExecutor as T, "
                "ProcessPoolExecutor as P\nif __name__ == '__main__':\n"
                "    print(list(T(2).map(abs, [-1])), "
                "list(P(2).map(abs, [-2])))",
    "fork": "import os\nif os.fork() == 0:\n    print('child')\n    "
            "raise SystemExit(7)\nprint(os.wait()[1] >> 8)",
    "fork-error": "import os\nif os.fork() == 0:\n    1/0\n"
                  "print(os.wait()[1] >> 8)",
    "fork-end": "import os\npid = os.fork()\nif pid:\n    "
                "print(os.waitpid(pid, 0)[1])\nelse:\n    print('child')",
    "subprocess": "import subprocess, sys\nr = subprocess.run([sys."
                  "executable, '-c', 'print(9); import sys; sys.exit(3)'])\n"
                  "print(r.returncode)",
    "pickle": "import pickle\nclass A:\n    x = 1\n"
              "print(pickle.loads(pickle.dumps(A())).x, A.__module__)",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass P:\n"
                 "    x: int = 1\nprint(P())",
    "getsource": "import inspect\ndef f():\n    return 1\n"
                 "print(inspect.getsource(f), inspect.getfile(f))",
    "import-main": "import __main__\nx = 5\nprint(__main__.x)",
    "exec": "exec('y = 3')\nprint(y, eval('y + 1'))",
    "excepthook": "import sys\nsys.excepthook = lambda *a: print('mine', "
                  "a[0].__name__, a[2].tb_lineno)\n1/0",
    "excepthook-error": "import sys\ndef h(*a): {}[1]\nsys.excepthook = h\n"
                        "1/0",
    "unraisablehook": "import sys\nprint(sys.unraisablehook is "
                      "sys.__unraisablehook__)",
    "keyboard": "raise KeyboardInterrupt",
    "stderr-replaced": "import sys, io\nsys.stderr = io.StringIO()\n1/0",
    "stdout-closed": "import sys\nsys.stdout.close()\n",
    "stdin-end": "import sys\nprint(repr(sys.stdin.read()))",
    "eof": "input('who? ')",
    "signal-handler": "import os, signal\nsignal.signal(signal.SIGTERM, "
                      "lambda *a: print('got', a[0]))\n"
                      "os.kill(os.getpid(), signal.SIGTERM)\nprint('on')",
    "signals-default": "import signal\nprint([signal.getsignal(s) for s in "
                       "(2, 13, 15, 17)], signal.pthread_sigmask(0, []))",
    "terminated": "import os\nprint('a', flush=True)\nos.kill(os.getpid(), "
                  "15)",
    "killed": "import os\nos.kill(os.getpid(), 9)",
    "aborted": "import os\nos.abort()",
    "crlf": "print('a')\r\nprint('b')\r\n",
    "bom": b"\xef\xbb\xbfprint('a')\n",
    "latin-1": b"# coding: latin-1\nprint(ascii('\xe9'))\n",
    "form-feed": "x = 1\n\x0c\nprint(x)\n",
    "no-newline-at-end": "if True:\n    print('x')",
    "semicolon": "6 * 7;",
    "string-with-code": 's = """\n42\n# """\nprint(len(s))',
    "strings": 's = """x\n   \ny"""\nprint(len(s))',
    "continued": "x = 1 + \\\n    2\nprint(x)",
    "lowest-descriptor": "import os\nprint(os.open('main.py', 0))",
    "exception-group": "if hasattr(__builtins__, 'ExceptionGroup'):\n"
                       "    raise ExceptionGroup('g', [ValueError(1)])",
    "note": "e = ValueError('a')\nif hasattr(e, 'add_note'): "
            "e.add_note('more')\nraise e",
    "tracemalloc": "import tracemalloc, gc\ngc.collect()\n"
                   "print(len(gc.garbage))",
    "faulthandler": "import faulthandler\nfaulthandler.enable()\n"
                    "import sys\nprint('x')",
    "literals": "x = [%s]\nprint(sum(x))" % ", ".join(map(str, range(9999))),
}


def without_addresses(text):
    return re.sub("0x[0-9a-f]{8,}", "0x…", text)


@pytest.mark.parametrize("name", SAME)
def test_program_runs_as_without_the_runner(box, name):
    code, output = box.plain(SAME[name])
    run = box.run(SAME[name])
    assert without_addresses(run.text) == without_addresses(
        output.decode("utf-8", "replace"))
    assert run.code == code
    assert run.first["exit"] == code
    assert run.first["bytes"] == len(output)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works(box, method):
    run = box.run(
        "import multiprocessing as mp\ndef f(x): return x * x\n"
        "if __name__ == '__main__':\n"
        f"    with mp.get_context('{method}').Pool(2) as pool:\n"
        "        print(pool.map(f, [1, 2, 3]))\n")
    assert run.text == "[1, 4, 9]\n"
    assert run.code == 0


# ---- output --------------------------------------------------------------

def test_every_byte_arrives(box):
    run = box.run("import os\nos.write(1, bytes(range(256)) * 40)")
    assert run.output == bytes(range(256)) * 40
    run.raw.decode()
    for lost in (b"\r", b"\0"):
        assert lost not in run.raw


def test_output_of_children_keeps_its_place(box):
    run = box.run("import os, subprocess, sys\nprint('one')\n"
                  "subprocess.run([sys.executable, '-c', 'print(2)'])\n"
                  "os.write(2, b'three\\n')\nprint('four')")
    assert run.text == "one\n2\nthree\nfour\n"


def test_marks_cannot_be_forged(box):
    forged = f"{MARK}E{NONCE}\n{{}}\n"
    run = box.run(f"print({forged!r})\nraise ValueError")
    assert forged in run.text
    assert run.code == 1


def test_output_limit_ends_the_program(box):
    run = box.run("import sys\nwhile True: print('x' * 999)", output=200000)
    assert run.code == 143
    assert run.first["killed"] == "output"
    assert len(run.raw.decode()) <= 200000
    assert len(run.output) >= 100000


def test_output_limit_counts_characters_as_sent(box):
    run = box.run("while True: print('東京' * 99 + chr(29) * 99)",
                  output=200000)
    assert run.code == 143
    assert len(run.raw.decode()) <= 200000


def test_writing_after_both_outputs_are_closed_harms_nothing(box):
    run = box.run("import os\nos.close(1); os.close(2)\nos._exit(5)")
    assert run.code == 5 and run.output == b""


def test_all_descriptors_closed_harm_nothing(box):
    run = box.run("import os\nos.closerange(3, 300)\nprint('on')\n1/0")
    assert run.text.startswith("on\nTraceback")
    assert run.code == 1


def test_left_process_does_not_hold_the_end(box):
    run = box.run("import os, time\nif os.fork() == 0:\n    time.sleep(5)\n"
                  "    os._exit(0)\nprint('done')")
    assert run.took < 4
    assert run.text == "done\n"


# ---- the value of the last expression -------------------------------------

@pytest.mark.parametrize("program,value", [
    ("6 * 7", "42"), ("x = 5\nx", "5"), ("x = 5; x + 1", "6"),
    ("'é\\0'", "'é\\x00'"), ("[\n1,\n2,\n]", "[1, 2]"),
    ("x = 1\n(x +\n2)\n\n# end\n", "3"), ('"""text"""', "'text'"),
    ("def f():\n    return 1\nf()", "1"),
    ("{'a': 1}['a']  # why", "1"),
    ("from __future__ import annotations\n3", "3"),
    ("x = '''\n)\n'''\nlen(x)", "3"), ("\ufeff1", "1"),
    ("1\r\n2\r\n", "2"), ("sum(\n    i\n    for i in range(4)\n)", "6"),
])
def test_value_is_told(box, program, value):
    run = box.run(program)
    assert run.one("result")["text"] == value
    assert run.code == 0 and run.text == ""


@pytest.mark.parametrize("program", [
    "6 * 7;", "6 * 7 ; # no", "x = 1; x;", "x = 1", "None", "print(1)", "if 1:\n    5",
    "for i in [1]:\n    i", "def f():\n    5", "x: int = 3", "import os",
    "s = '''\n42\n'''", "try:\n    5\nfinally:\n    6", "1/0\n5",
    "import sys\nsys.exit(0)\n5", "lambda: 5 if 1 else 0;",
])
def test_no_value_is_told(box, program):
    assert box.run(program).none("result")


def test_value_is_bounded(box):
    text = box.run("'x' * 10**6").one("result")["text"]
    assert len(text) < 40000


@pytest.mark.parametrize("program,begin", [
    ("list(range(10**7))", "[0, 1, 2"), ("{i: i for i in range(10**6)}",
                                         "{0: 0, 1: 1"),
    ("import numpy as np\nnp.arange(10**7)", "array([      0"),
    ("import pandas as pd\npd.DataFrame({'a': range(10**6)})", "    "),
])
def test_large_values_are_shown_in_part(box, program, begin):
    if "import" in program and box.python != "/usr/bin/python3":
        pytest.skip("only Debian's Python has it")
    run = box.run(program)
    told = run.one("result")["text"]
    assert told.startswith(begin) and len(told) < 40000


def test_value_that_cannot_be_shown_is_no_failure(box):
    run = box.run("class A:\n    def __repr__(self): 1/0\nA()")
    assert "ZeroDivisionError" in run.one("result")["text"]
    assert run.code == 0


def test_value_uses_the_programs_line_in_tracebacks(box):
    run = box.run("x = 0\n\n\n1 / x")
    assert re.findall(r"line (\d+)", run.text) == ["4"]


# ---- exceptions ----------------------------------------------------------

def test_exception_is_reported_in_its_parts(box):
    run = box.run("import json\n\ndef f():\n    json.loads('{')\n\nf()\n")
    told = run.one("exception")
    assert told["type"] == "json.decoder.JSONDecodeError"
    assert told["message"].startswith("Expecting property name")
    assert told["line"] == 4
    assert "json/decoder.py" in run.text
    assert "json/decoder.py" not in told["traceback"]
    assert told["traceback"].startswith("Traceback (most recent")
    assert told["traceback"].splitlines()[-1] == run.text.splitlines()[-1]


def test_syntax_error_is_reported_with_its_line(box):
    told = box.run("x = 1\nprint('never'\n").one("exception")
    assert told["type"] == "SyntaxError"
    assert told["line"] == 2


def test_report_of_a_huge_exception_stays_small(box):
    run = box.run("raise ValueError('é' * 200000)")
    assert len(run.raw) < 1100000
    assert run.one("exception")["message"].startswith("éé")


def test_no_frame_of_ours_in_a_failing_figure(box):
    run = box.run("import matplotlib.pyplot as plt\nplt.plot([1])\n"
                  "plt.savefig('no/such/folder.png')")
    assert ".sandbox" not in run.text and run.code == 1


# ---- programs that do not compile as they are -----------------------------

@pytest.mark.parametrize("program,how", [
    ("    a = 1\n    if a:\n        print('in', a)\n", "indent"),
    ("\tprint('in', 1)\n\n\tx = 2\n", "indent"),
    ("```python\nprint('in', 1)\n```", "fence"),
    ("\n```\nprint('in', 1)\n```\n\n", "fence"),
    ("```py\n    print('in', 1)\n```", "fence+indent"),
    ("```python\nprint('in', 1)", "fence"),
])
def test_program_is_repaired(box, program, how):
    run = box.run(program)
    assert run.text == "in 1\n"
    assert run.one("repaired")["how"] == how


def test_repaired_program_keeps_its_line_numbers(box):
    run = box.run("```python\nx = 1\n1/0\n```")
    assert run.one("exception")["line"] == 3
    assert "    1/0\n" in run.text


@pytest.mark.parametrize("program", [
    "    x = 1\n  y = 2\n", "```\nprint(\n```", "text\n```\nprint(1)\n```"])
def test_program_beyond_repair_is_a_syntax_error(box, program):
    run = box.run(program)
    assert run.code == 1 and run.none("repaired")
    assert re.search("SyntaxError|IndentationError", run.text)


# ---- standard input and files ---------------------------------------------

def test_standard_input_is_given(box):
    run = box.run("import sys\nname = input()\nprint(name, "
                  "repr(sys.stdin.read()), sys.stdin.fileno())",
                  stdin="Ada\nrest é\n".encode())
    assert run.text == "Ada 'rest é\\n' 0\n"
    assert run.first["input"] == 1


def test_input_files_are_no_results(box):
    run = box.run("print(open('d/a.txt').read())",
                  files={"d/a.txt": b"in", "b.txt": b"other"})
    assert run.text == "in\n"
    assert run.none("file")


def test_unchanged_input_files_do_not_travel_back(box):
    run = box.run("print(open('b.txt').read())",
                  files={"d/a.txt": b"in", "b.txt": b"other"})
    assert run.text == "other\n" and run.files == []


def test_folders_of_input_files_are_the_programs_own(box):
    run = box.run("import os\nopen('d/e/new.txt', 'w').write('n')\n"
                  "os.rename('d/e/a.txt', 'd/b.txt')\nos.chmod('d', 0o700)\n"
                  "print(os.stat('d').st_uid == os.getuid())",
                  files={"d/e/a.txt": b"in"})
    assert run.text == "True\n"
    assert {line["path"] for line in run.all("file")} == {"d/e/new.txt",
                                                          "d/b.txt"}


def test_input_files_hold_any_bytes(box):
    data = bytes(range(256)) * 9000
    run = box.run("import hashlib, os\nfor n in sorted(os.listdir('図 #1')):"
                  "\n    b = open('図 #1/' + n, 'rb').read()\n"
                  "    print(n, len(b), hashlib.md5(b).hexdigest()[:6])",
                  files={"図 #1/a\tb": data, "図 #1/empty": b"",
                         "図 #1/z": b"\n\n1 61\n"})
    assert run.text == "a\tb 2304000 %s\nempty 0 d41d8c\nz 7 %s\n" % (
        hashlib.md5(data).hexdigest()[:6],
        hashlib.md5(b"\n\n1 61\n").hexdigest()[:6])


def test_input_files_that_do_not_fit_are_told(box):
    run = box.run("print(1)", files={"main.py/x": b"in"})
    assert run.code == 1 and run.text.startswith(("FileExists", "NotADir"))
    assert run.one("exception")["type"] in ("FileExistsError",
                                            "NotADirectoryError")


def test_changed_input_file_is_a_result(box):
    run = box.run("open('a.txt', 'a').write('more')",
                  files={"a.txt": b"in", "b.txt": b"other"})
    assert [line["path"] for line in run.all("file")] == ["a.txt"]


ODD = ["_draft.png", ".hidden.png", "new\nline.txt", ".d/x.txt", "é",
       "out dir/图/销量 #1 100%.png"]


def test_odd_names_travel_under_safe_ones(box):
    run = box.run(
        "import os\nos.makedirs('.d'); os.makedirs('out dir/图')\n"
        f"for name in {ODD!r}:\n    open(name, 'w').write(name)\n"
        "open(b'bad\\xff', 'w').write('bad')")
    told = {line["path"]: line for line in run.all("file")}
    assert set(told) == {*ODD, "bad\\xff"}
    for path, line in told.items():
        name = line.get("safe", path)
        data = run.data[name].decode()
        assert data == ("bad" if path == "bad\\xff" else path)
        assert line["size"] == len(data.encode())
        assert not re.search(r"(^|/)[_.][^/]*$", name)
    assert all(name.isprintable() for name in run.files)


def test_links_and_special_files_do_no_harm(box):
    run = box.run("import os\nos.symlink('/etc/passwd', 'pw')\n"
                  "os.symlink('.', 'loop')\nos.mkfifo('pipe')\n"
                  "open('real', 'w').write('x')\nos.link('real', 'hard')")
    assert {line["path"] for line in run.all("lost")} == {"pw", "loop"}
    assert run.files == ["hard", "real"]


def test_folders_nested_deeply_are_set_aside(box):
    run = box.run("import os\nfor i in range(300):\n    os.mkdir('d')\n"
                  "    os.chdir('d')\nopen('x', 'w').close()")
    (lost,) = run.all("lost")
    assert lost["why"] == "it lies too deep"


def test_caches_are_no_results(box):
    run = box.run("import os\nfor d in ('.cache', '__pycache__', '.config'):\n"
                  "    os.mkdir(d)\n    open(d + '/x', 'w').close()\n"
                  "open('m.pyc', 'w').close()")
    assert run.none("file") and run.none("lost")


def test_many_files_are_counted(box):
    run = box.run("for i in range(400): open(f'{i:03}', 'w').close()")
    assert len(run.all("file")) == 300
    assert run.one("more")["count"] == 100


# ---- time ----------------------------------------------------------------

def test_time_limit_raises_where_the_program_stands(box):
    run = box.run("print('start')\n\nwhile True: pass", time_ms=3000)
    assert run.code == 137
    assert run.took < 3
    told = run.one("exception")
    assert (told["type"], told["line"]) == ("TimeLimitExceeded", 3)
    assert "3 s" in told["message"]
    assert run.text.startswith("start\nTraceback")
    assert "runner.py" not in run.text


@pytest.mark.parametrize("wait", [
    "import time\ntime.sleep(60)",
    "import threading\nthreading.Event().wait()",
    "import threading, time\nthreading.Thread(target=time.sleep, "
    "args=(60,)).start()",
    "import subprocess\nsubprocess.run(['sleep', '60'])",
    "import asyncio\nasyncio.run(asyncio.sleep(60))",
    "class A:\n    def __repr__(self):\n        while True: pass\nA()",
])
def test_time_limit_ends_waiting_too(box, wait):
    run = box.run(wait, time_ms=3000)
    assert run.code == 137 and run.took < 3
    assert run.one("exception")["type"] == "TimeLimitExceeded"


def test_time_limit_is_raised_again_when_swallowed(box):
    run = box.run("import time\nn = 0\nwhile True:\n    try:\n"
                  "        while True: time.sleep(0.01)\n"
                  "    except BaseException:\n        n += 1\n"
                  "        if n == 2: break\nprint('twice')\n"
                  "while True: pass", time_ms=4000)
    assert run.code == 137
    assert run.text.startswith("twice\n")
    assert run.first["soft"] >= 3


def test_program_may_use_its_last_second(box):
    run = box.run("import time\ntry:\n    while True: time.sleep(0.01)\n"
                  "except BaseException as e:\n    print('saved')",
                  time_ms=3000)
    assert run.code == 0 and run.text == "saved\n"


def test_what_cannot_raise_is_killed_with_its_stack(box):
    run = box.run("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, "
                  "signal.valid_signals())\nprint('x', flush=True)\n"
                  "signal.pthread_sigmask(signal.SIG_UNBLOCK, [60])\n"
                  "def spin():\n    while True: pass\nspin()", time_ms=3000)
    assert run.code == 137 and run.took < 3
    assert run.first["killed"] == "time"
    assert "in spin" in run.one("stack")["text"]
    assert run.text == "x\n"


def test_stopped_program_is_killed(box):
    run = box.run("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
                  time_ms=2000)
    assert run.code == 137 and run.first["killed"] == "time"


def test_figures_up_to_the_time_limit_are_kept(box):
    run = box.run("import matplotlib.pyplot as plt\nplt.plot([1])\n"
                  "while True: pass", time_ms=9000)
    assert run.code == 137
    assert run.files == ["__sandbox__/figure-1.png"]


# ---- crashes -------------------------------------------------------------

def test_crash_tells_signal_and_stack(box):
    run = box.run("import ctypes\ndef f():\n    ctypes.string_at(0)\nf()")
    assert run.code == 128 + signal.SIGSEGV
    assert run.first["signal"] == signal.SIGSEGV
    assert "line 3 in f" in run.one("stack")["text"]
    assert run.text == ""


def test_killing_its_process_group_spares_the_runner(box):
    run = box.run("import os\nprint('x', flush=True)\nos.killpg(0, 9)")
    assert run.code == 137 and run.first["signal"] == 9
    assert run.first["killed"] == ""


def test_memory_in_use_is_told(box):
    run = box.run("x = bytearray(100 << 20)\n"
                  "for i in range(0, len(x), 4096): x[i] = 1")
    assert run.first["rss"] > 100 << 10


# ---- figures -------------------------------------------------------------

PLT = "import matplotlib.pyplot as plt\n"
FIRST = "__sandbox__/figure-1.png"


@pytest.fixture(autouse=True)
def matplotlib(request, python):
    if "PLT" in request.function.__code__.co_names and subprocess.run(
            [python, "-c", "import matplotlib"], capture_output=True,
            ).returncode:
        assert python != "/usr/bin/python3", "python3-matplotlib is missing"
        pytest.skip("no matplotlib for " + python)


@pytest.mark.parametrize("program,files,text", [
    ("plt.plot([1])", [FIRST], ""),
    ("plt.plot([1]); plt.show(); print('after')", [FIRST], "after\n"),
    ("plt.plot([1]); plt.show(); plt.show()", [FIRST], ""),
    ("plt.plot([1]); plt.savefig('a.png')", ["a.png"], ""),
    ("plt.plot([1]); plt.savefig('a.png'); plt.show()", ["a.png"], ""),
    ("plt.plot([1]); plt.show(); plt.savefig('a.png')", ["a.png"], ""),
    ("plt.plot([1]); plt.show(); plt.close()", [FIRST], ""),
    ("plt.plot([1]); plt.close()", [], ""),
    ("plt.plot([1]); plt.savefig('a')", ["a.png"], ""),
    ("plt.plot([1]); plt.savefig('a.svg')", [FIRST, "a.svg"], ""),
    ("plt.plot([1]); plt.savefig('a.x', format='png')", ["a.x"], ""),
    ("import io\nplt.plot([1]); plt.savefig(io.BytesIO())", [FIRST], ""),
    ("fig, ax = plt.subplots(); fig.show()", [FIRST], ""),
    ("import matplotlib; matplotlib.use('Agg')\nplt.plot([1]); plt.show()",
     [FIRST], ""),
    ("plt.figure(); plt.show(); plt.figure(); plt.show()",
     [FIRST, "__sandbox__/figure-2.png"], ""),
    ("plt.plot([1]); plt.show(); plt.plot([2]); plt.show()",
     [FIRST, "__sandbox__/figure-2.png"], ""),
    ("plt.plot([1])\nprint('x')\n1/0", [FIRST], None),
    ("plt.plot([1])\nraise SystemExit(3)", [FIRST], ""),
    ("plt.title('销售额 东京 매출'); plt.show(); print('ok')", [FIRST],
     "ok\n"),
])
def test_figures_come_once(box, program, files, text):
    run = box.run(PLT + program)
    assert run.files == files
    assert all(data.startswith(b"\x89PNG") for name, data in
               run.data.items() if name != "a.svg")
    if text is not None:
        assert run.text == text
    told = run.all("figure") + run.all("saved")
    assert len(told) >= len(files) - ("a.svg" in files)


def test_figures_keep_the_order_of_their_creation(box):
    run = box.run(PLT + "a = plt.figure(); b = plt.figure()\n"
                  "b.savefig('b.png')\nc = plt.figure()\nc.savefig('c.png')")
    seen = {line["path"]: line["seen"]
            for line in run.all("figure") + run.all("saved")}
    assert sorted(seen, key=seen.get) == [FIRST, "b.png", "c.png"]


def test_large_figure_is_drawn_at_a_lower_resolution(box):
    run = box.run(PLT + "plt.figure(figsize=(40, 4))")
    width, height = (int.from_bytes(run.data[FIRST][at:at + 4], "big")
                     for at in (16, 20))
    assert (width, height) == (2000, 200)
    assert run.one("figure")["scaled"] == 1


def test_one_figure_shown_often_keeps_its_order(box):
    run = box.run(PLT + "for i in range(12):\n    plt.plot([i]); plt.show()")
    told = run.all("figure")
    assert len({line["seen"] for line in told}) == 1
    assert [line["path"] for line in sorted(told, key=lambda l: l["at"])] == [
        f"__sandbox__/figure-{i}.png" for i in range(1, 13)]


ANIMATION = ("from matplotlib.animation import FuncAnimation, "
             "ArtistAnimation\nfig = plt.figure(figsize=(1, 1), dpi=100)\n"
             "def f(i):\n    fig.set_facecolor((i / 10, 0, 0)); print(i, "
             "end=' ')\n")


def test_animation_left_open_shows_its_last_frame(box):
    run = box.run(PLT + ANIMATION + "a = FuncAnimation(fig, f, 11, "
                  "repeat=False)\nplt.show()\nfrom PIL import Image\n"
                  f"print(Image.open('{FIRST}').getpixel((1, 1)))")
    assert run.files == [FIRST]
    assert "(255, 0, 0" in run.text and "Warning" not in run.text, run.text


def test_animation_of_artists_shows_its_last_frame(box):
    run = box.run(PLT + ANIMATION + "plt.axis('off')\nfrom matplotlib import "
                  "patches\np = [[fig.add_artist(patches.Rectangle((0, 0), 1,"
                  " 1, color=(i / 10, 0, 0)))] for i in range(11)]\n"
                  "a = ArtistAnimation(fig, p)\nplt.show()\n"
                  "from PIL import Image\n"
                  f"print(Image.open('{FIRST}').getpixel((50, 50)))")
    assert run.files == [FIRST]
    assert "(255, 0, 0" in run.text, run.text


def test_saved_animation_comes_once(box):
    run = box.run(PLT + ANIMATION + "a = FuncAnimation(fig, f, 3)\n"
                  "a.save('a.gif', writer='pillow')")
    assert run.files == ["a.gif"]
    assert run.one("saved")["path"] == "a.gif"
    assert "Warning" not in run.text


@pytest.mark.parametrize("program,files", [
    ("fig = plt.figure()\nfig", [FIRST]),
    ("ax = plt.gca()\nax", [FIRST]),
    ("plt.plot([1])", [FIRST]),
    ("from matplotlib.figure import Figure\nf = Figure()\n"
     "f.subplots().plot([1])\nf", [FIRST]),
    ("from PIL import Image\nImage.new('RGB', (3, 3))",
     ["__sandbox__/image-1.png"]),
    ("class A:\n    def _repr_png_(self):\n        return b'\\x89PNG..'\n"
     "A()", ["__sandbox__/image-1.png"]),
    ("class A:\n    def _repr_png_(self):\n        return 1 / 0\nA()", []),
])
def test_value_that_draws_itself_is_an_image(box, program, files):
    run = box.run(PLT + program)
    assert run.files == files
    assert [line["path"] for line in run.all("figure")] == files
    assert run.one("result") and run.code == 0 and run.text == ""


@pytest.mark.parametrize("choice", [
    "", "plt.rcParams['font.family'] = 'SimHei'\n",
    "plt.rcParams['font.sans-serif'] = ['No Such Font', 'SimHei']\n",
    "import matplotlib.font_manager as fm\nplt.rc('font', family='serif')\n",
])
def test_cjk_is_drawn_with_real_glyphs(box, choice):
    """Two characters that both lack a glyph would look the same."""
    if not subprocess.run(["fc-list", ":lang=zh"], capture_output=True).stdout:
        pytest.fail("fonts-wqy-microhei is missing")
    texts = "销额东京매출あ"
    run = box.run(PLT + choice + f"for i, c in enumerate({texts!r}):\n"
                  "    plt.figure(figsize=(1, 1))\n    plt.text(.2, .2, c, "
                  "fontsize=30)\n    plt.axis('off')\n"
                  "    plt.savefig(f'{i}.png')\n    plt.close()\n")
    assert run.text == ""
    assert len(run.files) == len(texts)
    assert len(set(run.data.values())) == len(texts)


def test_backend_of_the_environment_is_kept(box):
    run = box.run(PLT + "import matplotlib\nprint(matplotlib.get_backend())\n"
                  "plt.plot([1])", env={"MPLBACKEND": "svg"})
    assert run.text.lower() == "svg\n"
    assert run.files == [FIRST]


def test_figure_that_cannot_be_drawn_is_told(box):
    run = box.run(PLT + "plt.title('$\\\\frac{$')\nprint('on')")
    assert run.code == 0 and run.text == "on\n"
    assert "could not be drawn" in run.one("lost")["why"]


def test_forked_process_captures_nothing(box):
    run = box.run(PLT + "import os\nplt.plot([1])\nif os.fork() == 0:\n"
                  "    plt.savefig('child.png')\n    raise SystemExit\n"
                  "os.wait()\nplt.close()")
    assert run.files == ["child.png"]


# ---- cost ----------------------------------------------------------------

def test_matplotlib_is_not_imported_by_the_runner(box):
    run = box.run("import sys\nprint([m for m in ('json', 're', 'matplotlib', "
                  "'subprocess', 'threading', 'ast', 'traceback') "
                  "if m in sys.modules and m not in %s])" % (
                      "()" if box.python == "/usr/bin/python3" else "('re',)"))
    assert run.text == "[]\n"

# ---- programs that break what the runner needs -----------------------------

BREAKERS = {
    "empties-its-folder": "import shutil, os\nshutil.rmtree(os.getcwd(), "
                          "ignore_errors=True)",
    "no-excepthook": "import sys\ndel sys.excepthook",
    "other-unraisablehook": "import sys\nsys.unraisablehook = "
                            "lambda *args: None",
    "no-builtins": "import builtins\nbuiltins.open = builtins.exec = "
                   "builtins.compile = None",
    "no-os-functions": "import os\nos.getpid = os.fstat = os.write = None",
    "no-modules": "import sys\nsys.modules.clear()\nsys.path.clear()",
    "long-chain": "e = ValueError()\nfor i in range(3000):\n    try:\n"
                  "        raise ValueError(i) from e\n"
                  "    except ValueError as f:\n        e = f",
}


@pytest.mark.parametrize("name", BREAKERS)
def test_failure_is_a_failure_whatever_was_broken(box, name):
    box.own()
    run = box.run(BREAKERS[name] + "\nraise KeyError('told')")
    assert run.code == run.first["exit"] == 1
    if name != "other-unraisablehook":
        assert "KeyError: 'told'" in run.text
    assert ".sandbox" not in run.text


def test_other_unraisablehook_alone_is_no_failure(box):
    run = box.run("import sys\nsys.unraisablehook = print\nprint(1)\n7")
    assert run.code == 0 and run.text == "1\n"
    assert run.one("result")["text"] == "7"


def test_figure_of_a_program_that_empties_its_folder(box):
    box.own()
    run = box.run("import shutil, os\nfor name in os.listdir('.'):\n"
                  "    shutil.rmtree(name, ignore_errors=True)\n"
                  "import matplotlib.pyplot as plt\nplt.plot([1])")
    assert run.code == 0 and run.text == ""
    assert run.files == ["__sandbox__/figure-1.png"]


@pytest.mark.parametrize("told", [
    "xabc", "x", "x" + "9" * 6000, "x-5", "[", "\x00", "x 1"])
def test_what_a_program_writes_into_the_report_does_no_harm(box, told):
    run = box.run("import os\nfor fd in range(3, 256):\n    try:\n"
                  f"        os.write(fd, {told!r}.encode() + b'\\n')\n"
                  "    except OSError:\n        pass\nprint('hi');")
    assert run.text == "hi\n"


def test_flood_in_the_report_hides_no_failure(box):
    run = box.run("import os\nline = b'{\"t\":\"lost\",\"path\":\"' + "
                  "b'a' * 900 + b'\"}\\n'\nfor i in range(3000):\n"
                  "    os.write(255, line)\nraise KeyError('told')")
    assert run.code == run.first["exit"] == 1
    assert run.one("exception")["type"] == "KeyError"
    assert run.lines[-1] == {"t": "cut"}


@pytest.mark.parametrize("name", [
    "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1",
    "SIGTSTP", "SIGRTMIN"])
def test_signals_to_the_parent_are_passed_over(box, name):
    run = box.run("import os, signal, time\nprint('before')\n"
                  f"os.kill(os.getppid(), signal.{name})\n"
                  "time.sleep(0.1)\nprint('after')", time_ms=5000)
    assert (run.code, run.text) == (0, "before\nafter\n")


def test_folder_made_unreadable_is_listed(box):
    box.own()
    run = box.run("import os\nopen('a.txt', 'w').close()\n"
                  "os.chmod('.', 0)\nprint('hi')")
    assert (run.code, run.text) == (0, "hi\n")
    assert run.one("file")["path"] == "a.txt"


def test_parent_that_is_broken_says_nothing_of_its_own(box):
    run = box.run("import os, resource, time\nprint('hi')\n"
                  "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, "
                  "(0, 0))\ntime.sleep(0.5)\nprint('hi')", time_ms=5000)
    assert run.code == 137 and ".sandbox" not in run.text
