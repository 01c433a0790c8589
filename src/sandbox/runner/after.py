"""What only some programs need at their end: a value to show, an exception,
figures, threads still running. Runs inside runner.py's own scope."""

TEXT_MAX = 30000	# characters of JSON for one text
MESSAGE_MAX = 8000


def shortened(text, most):
    """Head and tail of a text, most characters in all."""
    return text[:most * 2 // 3] + " \u2026 " + text[-most // 3:]


def escaped(text):
    out = []
    for c in text:
        o = ord(c)
        if c in '"\\':
            out.append("\\" + c)
        elif 0x20 <= o < 0x7f:
            out.append(c)
        elif o < 0x10000:
            out.append("\\u%04x" % (o or 0x2400))
        else:
            o -= 0x10000
            out.append("\\u%04x\\u%04x" % (0xd800 + (o >> 10),
                                           0xdc00 + (o & 0x3ff)))
    return "".join(out)


def quote(text, most=TEXT_MAX):
    """A JSON string of ASCII characters, most of them at most. Lone
    surrogates, which stand for bytes that are not UTF-8, become visible."""
    if len(text) > most:
        text = shortened(text, most)
    text = text.encode("utf-8", "backslashreplace").decode()
    out = escaped(text)
    if len(out) > most + 20:
        out = escaped(shortened(text, len(text) * most // len(out)))
    return '"' + out + '"'


def record(kind, **fields):
    out = '{"t":"' + kind + '"'
    for name, value in fields.items():
        out += ',"' + name + '":'
        out += str(value) if isinstance(value, int) else quote(value)
    CHILD.send(out + "}")


# ---- the value of the last expression -------------------------------------

SHOWN_MAX = 2000	# items of a container


def shape(value):
    """repr() of a value; of a large text or container only its beginning,
    because all of it could take more memory than there is."""
    kind = type(value)
    if kind in (str, bytes) and len(value) > TEXT_MAX:
        return "%r\u2026 (%d in all)" % (value[:TEXT_MAX], len(value))
    if kind in (list, tuple, set, frozenset, dict) and len(value) > SHOWN_MAX:
        from itertools import islice
        head = islice(value.items() if kind is dict else value, SHOWN_MAX)
        text = repr(kind(head))
        return "%s \u2026 (%d in all)" % (text, len(value))
    return repr(value)


def picture(value):
    """What an object draws of itself: a figure's image, or what
    _repr_png_() or _repr_jpeg_() give, as notebooks show it."""
    if "PLOTS" in SCOPE and PLOTS.show_value(value):
        return
    for method, ending in (("_repr_png_", "png"), ("_repr_jpeg_", "jpeg")):
        draw = getattr(type(value), method, None)
        if draw is None:
            continue
        data = draw(value)
        data = data[0] if isinstance(data, tuple) else data
        if isinstance(data, str):
            import binascii
            data = binascii.a2b_base64(data)
        if isinstance(data, bytes) and data:
            picture_file("image-1." + ending, data)
            return


def picture_file(name, data):
    os.makedirs(HOME + "/__sandbox__", exist_ok=True)
    at = (time.time_ns() - START_NS) // 1000
    record("figure", path="__sandbox__/" + name, seen=at, at=at, scaled=0)
    with open(HOME + "/__sandbox__/" + name, "wb") as f:
        f.write(data)


def result(value):
    try:
        picture(value)
    except Exception:
        pass
    try:
        text = shape(value)
    except TimeLimitExceeded:
        raise
    except BaseException as e:
        text = "<%s object whose repr() raised %s>" % (
            type(value).__name__, type(e).__name__)
    record("result", text=text, type=type(value).__name__)


# ---- an exception that ended the program ----------------------------------

class Tee:
    """Takes what is displayed, to be written in one piece."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False


def is_ours(tb):
    return tb.tb_frame.f_globals is SCOPE


def without_ours(error):
    """Takes the runner's frames out of the tracebacks of an exception and
    of all that hang on it."""
    seen, left = set(), [error]
    while left:
        error = left.pop()
        if not isinstance(error, BaseException) or id(error) in seen:
            continue
        seen.add(id(error))
        kept, tb = [], error.__traceback__
        while tb is not None:
            if not is_ours(tb):
                kept.append(tb)
            tb = tb.tb_next
        for one, following in zip(kept, kept[1:] + [None]):
            one.tb_next = following
        error.__traceback__ = kept[0] if kept else None
        left += [error.__context__, error.__cause__]
        group = getattr(error, "exceptions", ())
        if isinstance(group, tuple):
            left += group


def shown(hook, kind, value, tb):
    """What a hook writes to standard error."""
    tee, stderr = Tee(), sys.stderr
    sys.stderr = tee
    try:
        hook(kind, value, tb)
    finally:
        sys.stderr = stderr
    return tee.text


def say(text):
    try:
        sys.stdout.flush()
    except BaseException:
        pass
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:
        pass


def user_frames(text):
    """A traceback without the frames of libraries; all of it when there is
    no other."""
    out, keep, any_kept = [], True, False
    for line in text.splitlines(True):
        if line.startswith('  File "'):
            name = line[8:].split('"', 1)[0]
            keep = name.startswith(HOME + "/") or name == MAIN
            any_kept = any_kept or keep
        elif not line.startswith("  "):
            keep = True
        if keep:
            out.append(line)
    return "".join(out) if any_kept else text


def line_of(value, tb):
    line = 0
    if isinstance(value, SyntaxError) and value.filename == MAIN:
        line = value.lineno
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == MAIN:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line or 0


def described(kind, value, tb, text):
    name = getattr(kind, "__qualname__", "?")
    module = getattr(kind, "__module__", None)
    if isinstance(module, str) and module not in ("builtins", "__main__"):
        name = module + "." + name
    try:
        message = str(value)
        if isinstance(value, SyntaxError) and isinstance(value.msg, str):
            message = value.msg
    except BaseException:
        message = "<exception str() failed>"
    CHILD.send('{"t":"exception","type":%s,"message":%s,"line":%d,'
               '"traceback":%s}' % (
                   quote(name, 200), quote(message, MESSAGE_MAX),
                   line_of(value, tb), quote(user_frames(text))))


def exit_status(value):
    """What sys.exit(value) makes of the process, said as Python says it."""
    code = value.code if isinstance(value, SystemExit) else value
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 255 if -1 << 63 <= code < 1 << 63 else 255
    try:
        text = str(code)
    except BaseException:
        text = ""
    say(text + "\n")
    return 1


def display(kind, value, tb):
    """Shows an exception as Python does and returns the text."""
    hook = sys.excepthook
    if hook is sys.__excepthook__:
        text = shown(hook, kind, value, tb)
        say(text)
        return text
    try:
        text = shown(sys.__excepthook__, kind, value, tb)
        hook(kind, value, tb)
    except SystemExit:
        raise
    except BaseException as e:
        without_ours(e)
        say("Error in sys.excepthook:\n"
            + shown(sys.__excepthook__, type(e), e, e.__traceback__)
            + "\nOriginal exception was:\n" + text)
    return text


def died(kind, value, tb):
    """Deals with what ended the program; returns its exit code."""
    if issubclass(kind, SystemExit):
        return exit_status(value)
    value.__traceback__ = tb
    without_ours(value)
    tb = value.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = kind, value, tb
    if sys.version_info >= (3, 12):
        sys.last_exc = value
    try:
        text = display(kind, value, tb)
    except SystemExit as e:
        return exit_status(e)
    described(kind, value, tb, text)
    if issubclass(kind, TimeLimitExceeded):
        return 137
    return 130 if issubclass(kind, KeyboardInterrupt) else 1


# ---- the end --------------------------------------------------------------

def finish(code):
    """Waits for threads as Python does, then takes the figures left open."""
    threading = sys.modules.get("threading")
    if threading is not None and len(threading._active) > 1:
        CHILD.running = True
        try:
            threading._shutdown()
        except TimeLimitExceeded as e:
            CHILD.running = False
            code = died(type(e), e, e.__traceback__)
        except BaseException:
            pass
        CHILD.running = False
    if "plot_end" in SCOPE and os.getpid() == CHILD.pid:
        plot_end()
    return code


def leave(code):
    """Ends a process that the program forked: its exit code is wanted by the
    program, and the interpreter itself would make it 0."""
    import atexit
    threading = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()
        except BaseException:
            pass
    atexit._run_exitfuncs()
    say("")
    os._exit(code)


# ---- programs that do not compile as they are -----------------------------

def unfenced(lines):
    """Markdown fences become empty lines, so that numbers stay."""
    marks = [i for i, line in enumerate(lines)
             if line.strip().startswith(b"```")]
    if not marks or any(line.strip() for line in lines[:marks[0]]):
        return None
    last = marks[1] if len(marks) > 1 else len(lines)
    if any(line.strip() for line in lines[last + 1:]):
        return None
    return [b"\n" if i in marks else line for i, line in enumerate(lines)]


def dedented(lines):
    """Takes off the indentation that all lines share."""
    first = next((line for line in lines if line.strip()), b"")
    margin = first[:len(first) - len(first.lstrip(b" \t"))]
    if not margin:
        return None
    out = []
    for line in lines:
        if line.startswith(margin):
            out.append(line[len(margin):])
        elif line.strip():
            return None
        else:
            out.append(line.lstrip(b" \t"))
    return out


def repaired(data):
    """The program without a fence or a common indentation if it compiles
    only so; main.py is rewritten, so that tracebacks show the lines that
    ran. None when nothing helps."""
    lines, done = data.splitlines(True), []
    for name, change in (("fence", unfenced), ("indent", dedented)):
        changed = change(lines)
        if changed is None:
            continue
        lines = changed
        done.append(name)
        text = b"".join(lines)
        if quietly(text, "exec", PyCF_ONLY_AST) is None:
            continue
        try:
            with open(HOME + "/main.py", "wb") as f:
                f.write(text)
        except OSError:
            pass
        record("repaired", how="+".join(done))
        return text
    return None
