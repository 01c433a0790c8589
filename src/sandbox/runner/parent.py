"""The process that watches: carries output, keeps time, and reports. Runs
inside runner.py's own scope."""
from select import POLLIN, poll

# The report needs room below the sandbox's limit of output.
REPORT_ROOM = 120000
REPORT_MAX = 110000
FIRST = (b'{"t":"exception"', b'{"t":"result"')


def disk_size():
    """Bytes of the disk that the working folder lies on, however full."""
    try:
        disk = os.statvfs(HOME)
    except OSError:
        return 0
    return disk.f_blocks * disk.f_frsize


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
        load("files.py")
        return survey(stack)

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
            '"bytes":%d,"ms":%d,"rss":%d,"input":%d,"fds":%d,"disk":%d}' % (
                code, number, self.killed, self.soft, self.written,
                (time.monotonic() - START) * 1000,
                self.usage.ru_maxrss if self.usage else 0, "i" in FLAGS,
                max(os.sysconf("SC_OPEN_MAX"), 0), disk_size()))
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
