"""The process that runs the program. Runs inside runner.py's own scope."""
import _warnings
import atexit
import faulthandler
from _ast import Expr, Interactive, PyCF_ONLY_AST
from _functools import partial
from _weakref import ref
from itertools import chain, starmap
from os import fstat, getpid

FunctionType = type(load)

# Python before 3.9 names a program in tracebacks as the command line did.
MAIN = "main.py" if sys.version_info < (3, 9) else HOME + "/main.py"


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
            load("after.py")
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
        self.scope = self.part = self.weak = None
        if "plot_end" in SCOPE or "threading" in sys.modules:
            try:
                code = self.after("finish", code)
            except BaseException:
                pass
        # the interpreter would make them deadly again
        faulthandler.unregister(SIGNAL_STACK)
        signal(SIGNAL_STACK, SIG_IGN)
        signal(SIGNAL_TIME, SIG_IGN)
        if nothing_left():
            os._exit(code)
        if code and not self.send("x%d" % code):
            self.after("leave", code)

    def find_spec(self, name, path=None, target=None):
        """As a finder on sys.meta_path: sees the first import of a library
        that draws."""
        if name == "matplotlib":
            load("plot.py")
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
        # what comes after is the program's own: see nothing_left
        gc.freeze()
        main = self.prepare(base)
        self.scope = main.__dict__
        shared = sys.getrefcount(sys.modules["__main__"]) > 3
        try:
            if FAULT is not None:
                raise FAULT
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


# types whose objects just go
HARMLESS = {dict, list, tuple, set, frozenset, type, type(sys), type(load),
            type(len), type(sys._getframe()), type(Child.send.__get__(0)),
            type(sys.__spec__), type(__loader__), Part, partial, chain,
            starmap, type(Part.__dict__["__del__"]),
            sys.modules["encodings.utf_8"].IncrementalEncoder}


def nothing_left():
    """Whether the interpreter's end would do nothing that can be seen: no
    thread, no callback, and of the program's objects none whose end does
    anything. It costs more than a small program, and copies every page."""
    try:
        if "threading" in sys.modules or atexit._ncallbacks():
            return False
        objects = gc.get_objects()
        if len(objects) > 2000:
            return False
        for one in objects:
            kind = type(one)
            if kind not in HARMLESS or \
                    kind is type and "__del__" in one.__dict__:
                return False
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        return False
    return True


def compiled(data, mode="exec", flags=0):
    return compile(data, MAIN, mode, flags, dont_inherit=True)


def quietly(data, mode, flags=0):
    """Whether text compiles, without its warnings (and without importing
    what deals with them)."""
    _warnings.filters.insert(0, ("ignore", None, Warning, None, 0))
    try:
        return compiled(data, mode, flags)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    finally:
        del _warnings.filters[0]


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
