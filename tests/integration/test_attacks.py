"""Programs that try to get out, to read what is not theirs, to stay, or to
take the machine with them: in a service started by root and in one of an
ordinary user."""
import os
import pathlib
import socket
import tempfile

import pytest

import sandboxd_util as util

LIMIT = "2s"

# what every attack may use
HEAD = """
import ctypes, errno, os, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def syscall(*args):
    "The errno of a system call, or 0."
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return ctypes.get_errno() if libc.syscall(*args) == -1 else 0
def name(error):
    return errno.errorcode.get(error, "worked")
def attempt(what, *args):
    try:
        what(*args)
        return "worked"
    except OSError as e:
        return name(e.errno)
"""


@pytest.fixture(scope="module", params=util.MODES)
def service(request):
    memory = {"root": "128M", "user": "256M"}[request.param]
    yield from util.serve_module(request.param, sandbox_time_limit=LIMIT,
                                 jail_memory=memory, jail_disk="16M")


@pytest.fixture(autouse=True)
def unharmed(service):
    yield
    util.check_unharmed(service)


def attack(service, code, **fields):
    return service.eval(HEAD + code, **fields)


def words(service, code):
    answer = attack(service, code)
    assert answer.returncode == 0, answer
    return answer.stdout.split()


# ---- too much -------------------------------------------------------------

def test_fork_bomb(service):
    answer = attack(service, "while True:\n try: os.fork()\n"
                    " except OSError: pass")
    assert answer.killed_by in ("time", "output"), answer


def test_number_of_processes(service):
    code = """
n = 0
try:
    while n < 1000:
        if os.fork() == 0:
            time.sleep(9)
        n += 1
except OSError as e:
    print(n, name(e.errno))
"""
    count, error = words(service, code)
    assert 50 <= int(count) <= 66 and error == "EAGAIN"


def test_number_of_threads(service):
    code = """
import threading
threading.stack_size(65536)
n = 0
try:
    while n < 1000:
        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
        n += 1
except RuntimeError as e:
    print(n)
    sys.stdout.flush()
    os._exit(0)
"""
    assert 50 <= int(words(service, code)[0]) <= 66


def test_memory_bomb(service):
    answer = attack(service, "l = []\nwhile True: l.append(bytearray(1 << 20))")
    if service.mode == "root":
        assert answer.killed_by == "memory"
    else:
        assert answer.returncode == 1 and "MemoryError" in answer.stdout


def test_twenty_children_at_the_limit(service):
    """By a cgroup their sum is bounded; without one, each of them."""
    size = 100 if service.mode == "root" else 300
    answer = attack(service, f"""
for i in range(20):
    if os.fork() == 0:
        try: b = bytearray({size} << 20)
        except MemoryError: os._exit(9)
        time.sleep(9)
ended = 0
while ended < 19 and os.wait()[1] in (signal.SIGKILL, 9 << 8):
    ended += 1
print(ended)
""")
    # the kernel may end the parent, and time may run out on a slow machine
    assert answer.stdout == "19\n" or (service.mode == "root" and
                                       answer.killed_by), answer


def test_memory_that_no_rlimit_counts(service):
    code = """
print(name(syscall(319, b"x", 0)), name(syscall(29, 0, 4096, 0o1600)),
      name(syscall(68, 0, 0o1600)))
"""
    got = words(service, code)
    assert got == (["worked"] * 3 if service.mode == "root" else
                   ["EPERM"] * 3)


@pytest.mark.parametrize("folder", ["/home", "/tmp", "/dev/shm",
                                    "/var/cache/matplotlib"])
def test_full_disk(service, folder):
    code = f"""
n = 0
try:
    for i in range(100):
        with open("{folder}/f%d" % i, "wb") as f:
            f.write(bytes(1 << 20))
        n += 1
except OSError as e:
    print(n, name(e.errno))
"""
    count, error = words(service, code)
    assert int(count) <= 16 and error == "ENOSPC"


@pytest.mark.parametrize("folder", ["/home", "/tmp", "/dev/shm",
                                    "/var/cache/matplotlib"])
def test_full_of_files(service, folder):
    code = f"""
n = 0
try:
    while n < 10000:
        os.mkdir("{folder}/_%d" % n)
        n += 1
except OSError as e:
    print(n, name(e.errno))
"""
    count, error = words(service, code)
    assert int(count) < 4096 and error == "ENOSPC"


def test_nothing_else_is_writable(service):
    folders = ["/", "/dev", "/etc", "/usr", "/usr/lib", "/var", "/var/cache",
               "/usr/bin", "/usr/lib/python3", "/usr/share", "/usr/lib64"]
    got = words(service, f"for folder in {folders!r}:\n"
                " print(attempt(open, folder + '/x', 'w'))\n"
                " print(attempt(os.mkdir, folder + '/d'))\n"
                " print(attempt(os.chmod, folder, 0o777))")
    assert set(got) <= {"EROFS", "EACCES", "EPERM"}, got


def test_endless_output(service):
    answer = attack(service, "while True: os.write(1, b'x' * 65536)")
    assert (answer.killed_by, len(answer.stdout)) == ("output", 1_000_000)


def test_trickle(service):
    answer = attack(service, "while True:\n print('x', flush=True)\n"
                    " time.sleep(0.05)")
    assert answer.killed_by == "time" and answer.stdout.startswith("x\nx\n")


@pytest.mark.parametrize("last", ["time.sleep(60)", "print('gone')"])
def test_what_ignores_signals_and_hides(service, last):
    answer = attack(service, """
for s in range(1, 64):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        while True: time.sleep(1)
    time.sleep(60)
sys.stdout.flush()
""" + last)
    assert answer.killed_by == ("time" if "sleep" in last else None)
    assert answer.duration_ms < 4000


def test_descriptors(service):
    answer = attack(service, """
n = 0
try:
    while n < 10000:
        os.dup(0)
        n += 1
except OSError as e:
    print(n, name(e.errno))
""")
    count, error = answer.stdout.split()
    assert int(count) < 256 and error == "EMFILE"


def test_nothing_is_inherited(service):
    got = words(service, "for fd in range(3, 1024):\n"
                " if attempt(os.fstat, fd) == 'worked': print(fd)")
    assert got == []


# ---- what is not theirs ---------------------------------------------------

@pytest.fixture(scope="module")
def secret():
    """A file that everybody on the host may read."""
    with tempfile.NamedTemporaryFile(prefix="secret-", dir="/tmp") as f:
        f.write(b"do not tell")
        f.flush()
        os.chmod(f.name, 0o644)
        yield f.name


ABSENT = [
    "/etc/shadow", "/etc/passwd", "/root", "/proc", "/proc/self/environ",
    "/proc/1/environ", "/proc/1/mem", "/sys", "/run", "/var/log",
    "/var/lib", "/usr/local", "/usr/bin/env", "/bin/sh", "/usr/share/doc",
    "/usr/sbin", "/etc/ssl", "/mnt", "/media", "/opt", "/srv", "/boot",
    "/dev/kvm", "/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/tty",
    "/dev/ptmx", "/dev/pts", "/dev/fuse", "/dev/net", "/dev/loop-control",
    "/dev/hugepages", "/dev/mqueue", "/dev/fd",
]


def test_not_there(service):
    got = words(service, f"for path in {ABSENT!r}:\n"
                " print(attempt(os.stat, path))")
    assert dict(zip(ABSENT, got)) == dict.fromkeys(ABSENT, "ENOENT")
    top = words(service, "print(*os.listdir('/home/..'))")
    assert set(top) <= {".init", "dev", "etc", "home", "lib", "lib32",
                        "lib64", "libx32", "tmp", "usr", "var"}


def test_files_of_the_host(service, secret):
    code = f"print(attempt(open, {secret!r}), os.listdir('/tmp'))"
    assert words(service, code) == ["ENOENT", "[]"]


def test_programs_of_the_web_server(service):
    if not os.path.isdir("/usr/lib/cgi-bin"):
        pytest.skip("there is no /usr/lib/cgi-bin on this machine")
    assert words(service, "print(os.listdir('/usr/lib/cgi-bin'))") == ["[]"]


def test_environment():
    """What sandboxd was started with does not get in."""
    folder = util.make_folder("user")
    process, path, log = util.launch(
        "user", folder, {}, {"DB_PASSWORD": "secret-word",
                             "HTTP_AUTHORIZATION": "secret-word"})
    service = util.Sandboxd("user", folder, process, path, log, os.cpu_count())
    try:
        util.until(lambda: "ready" in service.log_text(), 30)
        answer = service.eval("import os; print(dict(os.environ))")
        assert "secret-word" not in answer.stdout
        assert "PATH" not in eval(answer.stdout)
        for pid in util.children(service.pid):
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if line.startswith((b"/usr/bin/bwrap", b"/.init")):
                env = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                assert env == b"", (pid, env)
    finally:
        service.close()


def test_nothing_stays_for_the_next(service):
    for folder in ("/home", "/tmp", "/dev/shm", "/var/cache/matplotlib"):
        attack(service, f"open('{folder}/left', 'w').write('x')")
        for _ in range(3):
            assert words(service, f"print(os.path.exists('{folder}/left'))"
                         ) == ["False"]


def test_runs_do_not_see_each_other(service):
    con = service.send(HEAD + "open('/dev/shm/x', 'w')\ns = socket.socket("
                       "socket.AF_UNIX)\ns.bind('\\0meet')\ns.listen()\n"
                       "t = socket.socket(); t.bind(('127.0.0.1', 5000)); "
                       "t.listen()\nprint('up', flush=True)\ntime.sleep(1)")
    service.await_running(1)
    got = words(service, """
time.sleep(0.3)
s = socket.socket(socket.AF_UNIX)
print(attempt(s.connect, "\\0meet"), os.listdir("/dev/shm"),
      attempt(socket.create_connection, ("127.0.0.1", 5000)),
      [attempt(os.kill, p, 0) for p in range(3, 40)].count("worked"))
""")
    assert got == ["ECONNREFUSED", "[]", "ECONNREFUSED", "0"]
    con.close()


# ---- links and odd files --------------------------------------------------

def test_links_are_not_followed(service, secret):
    answer = attack(service, f"""
os.symlink("/etc/passwd", "passwd")
os.symlink({secret!r}, "secret")
os.symlink("/proc/self", "proc")
os.symlink("/", "root")
os.symlink("/etc", "d")
os.mkdir("sub"); os.symlink("..", "sub/up")
os.symlink("/proc/self/environ", "sub/env")
os.mkfifo("fifo")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
open("real", "w").write("x"); os.link("real", "hard")
""")
    assert answer.returncode == 0, answer
    assert [f["path"] for f in answer.files] == ["hard", "real"]
    assert {f["path"]: f["reason"] for f in answer.files_skipped} == {
        "passwd": "a link", "secret": "a link", "proc": "a link",
        "root": "a link", "d": "a link", "sub/up": "a link",
        "sub/env": "a link", "fifo": "not a regular file",
        "socket": "not a regular file"}


def test_a_link_in_place_of_an_upload(service, secret):
    answer = attack(service, f"os.unlink('in'); os.symlink({secret!r}, 'in')",
                    files=[{"path": "in", "content": ""}])
    assert answer.files == [] and answer.files_skipped[0]["path"] == "in"


def test_sparse_files(service):
    answer = attack(service, "f = open('s', 'wb')\n"
                    "print(attempt(f.truncate, 1 << 50))")
    assert answer.stdout == "EFBIG\n"


def test_folders_that_are_shut(service):
    answer = attack(service, "os.mkdir('d'); open('d/f', 'w').write('x')\n"
                    "os.chmod('d', 0); os.chmod('.', 0)")
    assert [f["path"] for f in answer.files] == ["d/f"]


def test_devices_can_not_be_made(service):
    got = words(service, "print(attempt(os.mknod, 'd', 0o20666, 0x101), "
                "attempt(os.mknod, 'b', 0o60666, 0xfe00))")
    assert got == ["EPERM", "EPERM"]


# ---- the network ----------------------------------------------------------

def test_no_network(service):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        got = words(service, f"""
socket.setdefaulttimeout(1)
print(attempt(socket.create_connection, ("127.0.0.1", {port})),
      attempt(socket.create_connection, ("192.0.2.1", 80)),
      attempt(socket.create_connection, ("2001:db8::1", 80)),
      attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, b"x",
              ("192.0.2.1", 53)))
try: socket.getaddrinfo("example.com", 80)
except OSError: print("no-dns")
""")
    assert got[0] == "ECONNREFUSED" and got[4] == "no-dns"
    assert set(got[1:4]) <= {"ENETUNREACH", "EADDRNOTAVAIL"}, got


def test_other_sockets(service):
    """All families but Unix and internet: netlink, packet, vsock, alg …"""
    families = [f for f in range(50) if f not in (1, 2, 10)]
    got = words(service, f"for family in {families!r} + [1000, -1]:\n"
                " for kind in (1, 2, 3):\n"
                "  print(name(syscall(41, family, kind, 0)))")
    assert got == ["EAFNOSUPPORT"] * 3 * (len(families) + 2)


def test_raw_sockets(service):
    got = words(service, "print(attempt(socket.socket, socket.AF_INET, "
                "socket.SOCK_RAW, 1))")
    assert got == ["EPERM"]


def test_unix_sockets_of_the_host(service):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0sandboxd-test")
        server.listen()
        got = words(service, "s = socket.socket(socket.AF_UNIX)\n"
                    "print(attempt(s.connect, '\\0sandboxd-test'), "
                    f"attempt(s.connect, {service.path!r}))")
    assert got == ["ECONNREFUSED", "ENOENT"]


# ---- the kernel -----------------------------------------------------------

NEW = {"NEWUSER": 0x10000000, "NEWNS": 0x20000, "NEWPID": 0x20000000,
       "NEWNET": 0x40000000, "NEWIPC": 0x8000000, "NEWUTS": 0x4000000,
       "NEWCGROUP": 0x2000000, "PARENT": 0x8000}


def test_namespaces(service):
    got = words(service, f"""
for flag in {list(NEW.values())!r}:
    print(name(syscall(272, flag)), name(syscall(56, flag | 17, 0, 0, 0, 0)))
print(name(syscall(435, b"\\0" * 88, 88)))
""")
    assert got == ["EPERM"] * 2 * len(NEW) + ["ENOSYS"]


# x86-64 numbers, with harmless arguments
CALLS = {
    "mount": (165, 0, b"/tmp", b"tmpfs", 0, 0), "umount2": (166, b"/tmp", 2),
    "chroot": (161, b"/tmp"), "pivot_root": (155, b"/tmp", b"/tmp"),
    "setns": (308, 0, 0), "fsopen": (430, b"tmpfs", 0),
    "open_tree": (428, -100, b"/", 1), "move_mount": (429, 0, 0, 0, 0, 0),
    "fsmount": (432, 0, 0, 0), "mount_setattr": (442, -100, b"/", 0, 0, 0),
    "ptrace": (101, 0, 0, 0, 0), "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "process_vm_writev": (311, 1, 0, 0, 0, 0, 0), "kcmp": (312, 1, 1, 0, 0, 0),
    "pidfd_getfd": (438, 0, 0, 0), "keyctl": (250, 0, -3, 1),
    "add_key": (248, b"user", b"a", b"b", 1, -3),
    "request_key": (249, b"user", b"a", 0, -3), "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0), "userfaultfd": (323, 1),
    "io_uring_setup": (425, 1, 0), "io_uring_enter": (426, 0, 0, 0, 0, 0),
    "io_uring_register": (427, 0, 0, 0, 0),
    "name_to_handle_at": (303, -100, b"/", 0, 0, 0),
    "open_by_handle_at": (304, 0, 0, 0), "kexec_load": (246, 0, 0, 0, 0),
    "init_module": (175, 0, 0, b""), "finit_module": (313, 0, b"", 0),
    "delete_module": (176, b"x", 0), "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, b"/tmp", 0), "syslog": (103, 2, 0, 0),
    "personality": (135, 0xffffffff), "settimeofday": (164, 0, 0),
    "clock_settime": (227, 0, 0), "sethostname": (170, b"x", 1),
    "iopl": (172, 3), "ioperm": (173, 0, 1, 1), "acct": (163, 0),
    "quotactl": (179, 0, 0, 0, 0), "fanotify_init": (300, 0, 0),
    "inotify_init1": (294, 0), "modify_ldt": (154, 0, 0, 0),
    "lookup_dcookie": (212, 0, 0, 0), "vhangup": (153,),
}


def test_refused_calls(service):
    got = words(service, f"for call in {CALLS!r}.values():\n"
                " print(name(syscall(*call)))")
    wrong = {call: result for call, result in zip(CALLS, got)
             if result != "EPERM"}
    assert wrong == {} and len(got) == len(CALLS)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 only")
@pytest.mark.parametrize("way,code", [
    ("i386", b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"),      # getpid by int 0x80
    ("x32", b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"),       # getpid | 0x40000000
])
def test_calls_of_other_architectures(service, way, code):
    answer = attack(service, f"""
import mmap
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
m.write({code!r})
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(
    ctypes.c_char.from_buffer(m)))
print("passed", f() > 0)
""")
    assert answer.returncode == 159 and "passed" not in answer.stdout


def test_typing_into_a_terminal(service):
    got = words(service, """
for request in (0x5412, 0x541c, 0x1_0000_5412, 0x7fff_0000_0000_5412):
    print(name(syscall(16, 0, request, b"x")))
""")
    assert got == ["EPERM"] * 4


def test_no_privileges(service):
    got = words(service, """
print(attempt(os.setuid, 0), attempt(os.setgid, 0), attempt(os.setgroups, []),
      attempt(os.chown, "/home", 0, 0), attempt(os.nice, -5),
      attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(5)))
import resource
for r in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE,
          resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(r)
    try:
        resource.setrlimit(r, (hard, hard + 1))
        print("raised")
    except (ValueError, OSError):
        print("kept")
print(os.getresuid(), libc.prctl(39, 0, 0, 0, 0), libc.prctl(23, 21, 0, 0, 0))
""")
    assert set(got[:6]) <= {"EPERM", "EINVAL", "EACCES"}, got
    assert got[6:11] == ["kept"] * 5
    assert "".join(got[11:]) == "(65534,65534,65534)10"


def test_signals_do_not_leave_the_jail(service):
    got = words(service, f"""
print(attempt(os.kill, {service.pid}, 0), attempt(os.kill, {os.getpid()}, 9))
print(attempt(os.kill, 1, 9))
time.sleep(0.1)
print("alive")
""")
    assert got[:2] == ["ESRCH", "ESRCH"] and got[-1] == "alive"


def test_killing_everything_in_the_jail(service):
    answer = attack(service, "child = os.fork()\n"
                    "if child == 0: time.sleep(60)\n"
                    "print(attempt(os.kill, -1, 9), os.wait()[1])")
    assert answer.stdout == "worked 9\n"


def test_setuid_bits_are_nothing(service):
    answer = attack(service, """
import shutil, subprocess
shutil.copy("/usr/bin/python3", "/tmp/p"); os.chmod("/tmp/p", 0o6755)
print(subprocess.run(["/tmp/p", "-c", "import os; print(os.geteuid())"],
      capture_output=True, text=True).stdout)
""")
    assert answer.stdout.strip() == "65534"
