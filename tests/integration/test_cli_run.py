"""python-sandbox run: one program from a shell."""

import os
import pty
import shutil
import signal
import subprocess

import pytest

from cli import cli_environment, remove_folder
from harness import (BUILD, SANDBOXD, make_folder, own_dir, poll, run_as)

SAVING = ("import os\nimport matplotlib.pyplot as plt\n"
          "plt.plot([1, 2])\nplt.show()\n"
          "os.mkdir('sub')\nopen('sub/a.csv', 'w').write('1,2')\n")


class Shell:
    """A folder with the program, in which commands are run."""

    def __init__(self, url):
        self.folder = make_folder()
        self.url = url
        self.home = own_dir(self.folder, "home")
        for program in (os.path.join(BUILD, "python-sandbox"), SANDBOXD):
            shutil.copy(program, self.folder)

    def write(self, name, text):
        path = os.path.join(self.home, name)
        with open(path, "w" if isinstance(text, str) else "wb") as file:
            file.write(text)
        return name

    def start(self, *argv, own=False, **kw):
        env = cli_environment(
            self.folder, {} if own else {"SNEKBOX_URL": self.url})
        return subprocess.Popen(
            [os.path.join(self.folder, "python-sandbox"), *argv],
            cwd=self.home, env=env, **{
                "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE, **run_as()[0], **kw})

    def run(self, *argv, given=None, own=False):
        process = self.start("run", *argv, own=own, stdin=(
            subprocess.DEVNULL if given is None else subprocess.PIPE))
        out, err = process.communicate(given, timeout=60)
        process.out, process.err = out.decode(), err.decode()
        return process

    def files(self, folder="."):
        return sorted(os.listdir(os.path.join(self.home, folder)))


@pytest.fixture
def shell(sandbox):
    one = Shell(sandbox.url)
    yield one
    remove_folder(one.folder)


def test_text_and_exit_code_are_the_programs(shell):
    shell.write("p.py", "import sys\nprint('out')\n"
                "print('err', file=sys.stderr)\nsys.exit(3)\n")
    done = shell.run("p.py")
    assert (done.out, done.err, done.returncode) == ("out\nerr\n", "", 3)


def test_an_exception_is_shown_and_gives_1(shell):
    shell.write("p.py", "print(1)\n1/0\n")
    done = shell.run("p.py")
    assert done.returncode == 1
    assert done.out.endswith("ZeroDivisionError: division by zero\n")


def test_standard_input_of_a_pipe_is_the_programs(shell):
    shell.write("p.py", "print(input()[::-1])")
    assert shell.run("p.py", given=b"abc\n").out == "cba\n"


def test_the_program_comes_on_standard_input(shell):
    assert shell.run("-", given=b"print(6 * 7)").out == "42\n"


def test_long_output_is_whole(shell):
    shell.write("p.py", "print('x' * 300000)")
    assert shell.run("p.py").out == "x" * 300000 + "\n"


def test_figures_and_files_are_saved_beside_the_program(shell):
    own_dir(shell.home, "work")
    shell.write("work/p.py", SAVING)
    done = shell.run("work/p.py")
    assert done.returncode == 0
    assert shell.files("work") == ["figure-1.png", "p.py", "sub_a.csv"]
    assert shell.files() == ["work"]
    assert "saved: work/figure-1.png\n" in done.err
    with open(os.path.join(shell.home, "work/sub_a.csv")) as file:
        assert file.read() == "1,2"


def test_what_is_there_is_never_overwritten(shell):
    shell.write("p.py", SAVING)
    shell.write("sub_a.csv", "mine")
    os.symlink("/etc/passwd", os.path.join(shell.home, "figure-1.png"))
    done = shell.run("p.py")
    assert "saved: ./sub_a-2.csv (sub_a.csv is there already)" in done.err
    assert "saved: ./figure-1-2.png" in done.err
    with open(os.path.join(shell.home, "sub_a.csv")) as file:
        assert file.read() == "mine"


def test_output_names_the_folder(shell):
    shell.write("p.py", SAVING)
    assert shell.run("--output", "results", "p.py").returncode == 0
    assert shell.files("results") == ["figure-1.png", "sub_a.csv"]
    assert shell.files() == ["p.py", "results"]


def test_a_folder_that_cannot_be_written_is_a_failure(shell):
    shell.write("p.py", SAVING)
    shell.write("taken", "")
    done = shell.run("--output", "taken", "p.py")
    assert done.returncode == 1 and "not saved" in done.err


def test_the_time_limit_is_told(shell):
    done = shell.run("--set", "sandbox_time_limit=2s", "-",
                     given=b"while True: pass")
    assert done.returncode not in (0, 125)
    assert "time limit of 2 s" in done.err


def test_no_sandbox_gives_125(shell):
    shell.url = "http://127.0.0.1:1/eval"
    done = shell.run("-", given=b"1")
    assert done.returncode == 125 and "snekbox_url" in done.err


@pytest.mark.parametrize("argv,what", [
    (["missing.py"], "missing.py"), ([], "usage"), (["a", "b"], "usage"),
    (["--what", "a"], "usage")])
def test_wrong_words_give_2(shell, argv, what):
    done = shell.run(*argv)
    assert done.returncode == 2 and what in done.err and done.out == ""


def test_a_file_that_is_no_program_is_refused(shell):
    shell.write("p.py", b"\0\1")
    done = shell.run("p.py")
    assert done.returncode == 2 and "NUL" in done.err


def test_a_sandbox_of_its_own(shell):
    done = shell.run("-", given=b"print(6 * 7)", own=True)
    assert (done.out, done.err, done.returncode) == ("42\n", "", 0)


def test_a_signal_ends_the_run(shell, sandbox):
    shell.write("p.py", "import time\ntime.sleep(5)")
    process = shell.start("run", "p.py")
    poll(lambda: sandbox.runs() == 1, 20, "it runs")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGINT
    poll(lambda: sandbox.runs() == 0, 5, "the run ends")


def test_progress_on_a_terminal_and_only_there(shell):
    shell.write("p.py", "import time\ntime.sleep(1)\nprint('done')")
    near, far = pty.openpty()
    process = shell.start("run", "p.py", stderr=far)
    os.close(far)
    out = process.communicate(timeout=30)[0]
    shown = os.read(near, 65536).decode()
    os.close(near)
    assert out == b"done\n"
    assert "running for " in shown and "s of at most 6 s" in shown
    assert shown.endswith("\r\x1b[K")
