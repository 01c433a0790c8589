"""Programs from public reports, by the id of their row: what went wrong
elsewhere goes right here; E39 and E40, which need more than one program or
sandbox, in test_backend.py."""

import re
import time

import pytest

from client import Session, png_size
from harness import Sandbox

FIGURE = "import matplotlib.pyplot as plt\n"

# Rows whose whole outcome is text: (program, output, returncode).
EXACT = {
    "E01": ("import sys\nfor n in range(3):\n    print('out', n)\n"
            "    print('err', n, file=sys.stderr)",
            "out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\n", 0),
    "E06": ("print('a'+chr(0x2028)+'b'+chr(0x2029)+'c'+chr(0x85)+'d')",
            "a\u2028b\u2029c\x85d\n", 0),
    "E07": ("print('温度 25℃ · 東京 · 한국 · 😀')",
            "温度 25℃ · 東京 · 한국 · 😀\n", 0),
    "E11-short": ("for p in range(0, 101, 25):\n"
                  "    print(f'\\r{p:3d}%', end='', flush=True)",
                  "100%", 0),
    "E17-137": ("import sys\nprint('mine'); sys.exit(137)", "mine\n", 137),
    "E17-143": ("import sys\nprint('mine'); sys.exit(143)", "mine\n", 143),
    "E17-255": ("import sys\nprint('mine'); sys.exit(255)", "mine\n", 255),
    "E17-minus": ("import sys\nprint('mine'); sys.exit(-1)", "mine\n", 255),
    "E18-zero": ("import sys\nprint('x'); sys.exit(0)", "x\n", 0),
    "E18-three": ("import sys\nprint('x'); sys.exit(3)", "x\n", 3),
    "E18-text": ("import sys\nsys.exit('bad input')", "bad input\n", 1),
    "E18-256": ("raise SystemExit(256)", "", 0),
    "E22": ("import warnings\nwarnings.warn('old name'); print('value', 5)",
            None, 0),
    "E23-comment": ("# only a comment", "", 0),
    "E23-empty": ("", "", 0),
    "E23-expression": ("6 * 7", "", 0),
    "E33": (FIGURE + "print('ready')", "ready\n", 0),
    "E35-indented": ("    a = 1\n    if a:\n        print('in', a)\n",
                     "in 1\n", 0),
    "E35-strings": ('s = """x\n   \ny"""\nprint(len(s))', "7\n", 0),
    "E36-future": ("from __future__ import annotations\n"
                   "def f(x: NoSuchName): pass\nprint('fine')", "fine\n", 0),
    "E37-bom": ("\ufeffprint('a')\r\nprint('b')\r\n", "a\nb\n", 0),
}


@pytest.mark.parametrize("row", EXACT)
def test_program_gives_exactly_this(session, row):
    code, output, returncode = EXACT[row]
    result = session.call(code)
    assert result["returncode"] == returncode, result
    assert result.is_error == (returncode != 0)
    if output is not None:
        assert result.stdout.lstrip(" ") == output


def test_E02_lone_surrogate_is_an_error_of_the_program(session):
    result = session.call("print('x' + chr(0xDC80))")
    assert result["returncode"] == 1
    assert "UnicodeEncodeError" in result.stdout
    assert session.call("print('next')").stdout == "next\n"


def test_E03_bytes_that_are_not_utf8_lose_nothing_else(session):
    result = session.call(
        "import sys\nprint('before', flush=True)\n"
        "sys.stdout.buffer.write(bytes([255, 254, 10]))")
    assert result.stdout.startswith("before\n\ufffd"), result
    assert result["returncode"] == 0


def test_E04_control_characters_harm_nothing(session):
    id = session.start("print('a'+chr(0)+'b'+chr(7)+chr(26)+'c', end='')")
    raw = ""
    while f'"id":{id},' not in raw.replace(" ", ""):
        _, raw = session.next_message(30)
    assert not re.search(r"[\x00-\x1f]", raw), "no raw control byte"
    text = re.sub(r"\\u00..", "", raw)
    assert "b" in text and "c" in text
    result = session.call("print('a'+chr(0)+'b'+chr(7)+chr(26)+'c', end='')")
    assert re.fullmatch(r"a.*b.*c", result.stdout, re.S), result


def test_E05_nul_in_the_program_is_refused(session):
    answer = session.post(
        '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":'
        '"execute_python_code","arguments":{"python_code":'
        '"print(1)\\u0000\\nprint(2)"}}}')
    assert answer.status == 202
    message = session.wait(5)
    if "error" in message:
        assert message["error"]["code"] == -32602
        assert "NUL" in message["error"]["message"]
    else:
        assert message["result"]["isError"] is True
        assert "NUL" in message["result"]["content"][0]["text"]


def test_E09_traceback_is_plain_with_true_lines(session):
    result = session.call("def f():\n    return 1 / 0\nf()")
    assert result.is_error
    assert "\x1b" not in result.text
    assert re.findall(r"line (\d+)", result.stdout) == ["3", "2"], result


def test_E10_terminal_codes_are_removed(session):
    result = session.call(
        r'print("\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2K\x1b[1Aup")')
    assert re.fullmatch(r"red\s+up\n", result.stdout), result
    assert "\\u001b" not in result.text and "title" not in result.stdout


def test_E11_progress_bar_does_not_flood(session):
    result = session.call(
        "for p in range(10_001):\n"
        "    print(f'\\r{p / 100:6.2f}%', end='', flush=True)")
    assert result.stdout.strip().endswith("100.00%")
    assert "\r" not in result.stdout
    assert len(result.stdout) < 70_000


def test_E12_output_over_the_limit_is_said_and_shown(session, sandbox):
    result = session.call(
        "print('0123456789' * 150_000); print('END-MARK')")
    assert result.is_error
    assert result["error_type"] == "output_limit", result
    assert result["returncode"] == 143
    assert result["truncated"] is True
    assert "0123456789" in result.stdout
    assert re.search(r"1,?000,?000|1 ?MB", result.said), result
    assert "time limit" not in result["details"]


def test_long_output_is_bounded_with_head_and_tail(session):
    result = session.call(
        "print('HEAD')\nfor i in range(40_000): print('line', i)\n"
        "print('TAIL')")
    assert not result.is_error
    assert result["truncated"] is True
    assert result["stdout_bytes"] > 300_000
    assert result.stdout.startswith("HEAD\n")
    assert result.stdout.endswith("TAIL\n")
    assert len(result.stdout.encode()) < 70_000


def test_E14_time_limit_keeps_the_output(session):
    begin = time.monotonic()
    result = session.call("print('start', flush=True)\nwhile True: pass")
    took = time.monotonic() - begin
    assert result.is_error
    assert result["error_type"] == "timeout", result
    assert result.stdout.startswith("start\n")
    assert re.search(r"\b[56](\.\d+)? ?s", result["details"]), result
    assert 4 < took < 9
    assert session.call("print('again')").stdout == "again\n"


def test_E15_memory_kill_is_not_told_as_time(session, sandbox):
    begin = time.monotonic()
    size = sandbox.limits.memory * 4
    result = session.call(
        "print('go', flush=True)\nb = bytearray(%d)\n"
        "for i in range(0, len(b), 4096): b[i] = 1\nprint(len(b))" % min(
            size, 300 << 20 if sandbox.kind == "snekbox" else size))
    assert result.is_error
    assert result.stdout.startswith("go\n")
    assert time.monotonic() - begin < 5.5
    assert result["error_type"] in ("memory_limit", "execution_error")
    assert re.search("memory", result.said, re.I), result
    assert "time limit" not in result.said
    if sandbox.kind == "snekbox":
        assert result["error_type"] == "memory_limit", result


def test_E16_memory_error_is_the_programs_own(session):
    result = session.call("b = bytearray(2 * 1024**3)")
    assert result["returncode"] == 1, result
    assert "MemoryError" in result.stdout
    assert "killed" not in result.said


@pytest.mark.parametrize("code", [137, 143, 255])
def test_E17_chosen_code_is_not_taken_for_a_kill(session, code):
    result = session.call(f"import sys\nsys.exit({code})")
    assert result["error_type"] == "execution_error", result


def test_E18_exit_text_has_no_traceback(session):
    result = session.call("import sys\nsys.exit('bad input')")
    assert "Traceback" not in result.text


def test_E19_fork_bomb_is_held(session, sandbox):
    result = session.call(
        "import os, time\nfor i in range(%d):\n    if os.fork() == 0:\n"
        "        time.sleep(1); os._exit(0)\n" % (
            40 if sandbox.kind == "snekbox" else 200))
    assert result.is_error
    assert "BlockingIOError" in result.said \
        or result["error_type"] == "process_limit", result
    assert re.search("process", result["details"], re.I), result
    assert session.call("print('next')").stdout == "next\n"


def test_E21_input_without_stdin_ends_with_a_hint(session):
    begin = time.monotonic()
    result = session.call("who = input('who? '); print('hi', who)")
    assert time.monotonic() - begin < 4
    assert result.is_error
    assert result.stdout.startswith("who? ")
    assert "EOFError" in result.stdout
    assert "stdin" in result["details"], result


def test_E22_warning_is_no_failure(session):
    result = session.call(EXACT["E22"][0])
    assert "UserWarning: old name" in result.stdout
    assert "value 5" in result.stdout


def test_E23_silence_is_said(session):
    result = session.call("# only a comment")
    assert result["output_type"] == "none"
    assert session.call("6 * 7")["result"] == "42"


def test_E24_figure_left_open_comes_back(session):
    result = session.call(FIGURE + "plt.plot([1, 3, 2])")
    assert not result.is_error
    assert len(result.images) == 1
    assert png_size(result.images[0])


def test_E25_show_is_a_capture_without_a_word(session):
    result = session.call(FIGURE + "plt.plot([1,2]); plt.show(); "
                          "print('after')")
    assert result.stdout == "after\n"
    assert len(result.images) == 1


def test_E26_figures_come_in_their_order(session):
    """Each figure has a width of its own, so that order shows."""
    result = session.call(
        FIGURE + "for i in range(1, 13):\n"
        "    plt.figure(figsize=(1 + i / 10, 1), dpi=100)\n"
        "    plt.savefig(f'p{i}.png')\n    plt.close()", timeout=40)
    assert not result.is_error, result
    widths = [png_size(image)[0] for image in result.images]
    assert widths == [100 + 10 * i for i in range(1, 13)]
    assert [plot["name"] for plot in result["plots"]] == [
        f"p{i}.png" for i in range(1, 13)]


def test_shown_and_saved_figure_comes_once(session):
    result = session.call(FIGURE + "plt.plot([1])\nplt.savefig('one.png')\n"
                          "plt.show()\nprint('ok')")
    assert len(result.images) == 1, result
    assert result.stdout == "ok\n"


def test_E28_other_types_are_listed_as_what_they_are(session):
    result = session.call(
        FIGURE + "plt.plot([1]); plt.savefig('Chart.PNG')\n"
        "plt.savefig('chart.svg'); plt.savefig('chart.pdf')\n"
        "open('table.csv', 'w').write('a,b\\n')\n"
        "open('fake.png', 'w').write('text')\n"
        "open('empty.txt', 'w').close()")
    assert not result.is_error, result
    assert len(result.images) == 1
    listed = {entry["path"]: entry for entry in result["files"]}
    assert set(listed) == {"chart.svg", "chart.pdf", "table.csv", "fake.png",
                           "empty.txt"}
    assert listed["empty.txt"]["bytes"] == 0
    assert listed["table.csv"]["bytes"] == 4
    assert "png" not in listed["fake.png"].get("media_type", "")


def test_E29_odd_names_are_returned(session):
    result = session.call(
        "import os\nos.makedirs('out dir/图')\n"
        "for n in ('out dir/图/销量 #1 100%.png', '_draft.png', "
        "'.hidden.png'):\n    open(n, 'w').write('x')")
    assert not result.is_error, result
    assert "out dir/图/销量 #1 100%.png" in result.file_names
    assert "_draft.png" in result.file_names
    assert ".hidden.png" in result.file_names


def test_E30_one_bad_file_name_loses_nothing(session):
    result = session.call(
        "print('héllo')\nopen(b'bad\\xff.txt', 'w').write('x')\n"
        "open('good.txt', 'w').write('y')")
    assert result.stdout.startswith("héllo\n"), result
    assert not result.is_error
    assert "good.txt" in result.file_names


def test_E31_files_of_a_failed_program_are_kept(session):
    result = session.call(
        FIGURE + "plt.plot([1]); plt.savefig('kept.png')\n"
        "open('note.txt', 'w').write('n')\nraise ValueError('late')")
    assert result.is_error and result["returncode"] == 1
    assert len(result.images) == 1
    assert "ValueError: late" in result.stdout
    assert "note.txt" in result.file_names


def test_E34_cjk_titles_give_no_warnings(session):
    result = session.call(
        FIGURE + "plt.title('销售额 东京 매출')\nplt.savefig('t.png')\n"
        "print('saved')")
    assert len(result.images) == 1
    assert result.stdout == "saved\n"


def test_E35_indented_program_with_docstring(session):
    result = session.call('    def f():\n        """Doc\n\n        more"""\n'
                          '    print(len(f.__doc__))\n')
    assert not result.is_error, result


def test_E36_traceback_has_true_line_and_no_foreign_frame(session):
    result = session.call("a = 1\n\nraise KeyError('k')")
    assert re.findall(r'File "([^"]+)", line (\d+)', result.stdout) == [
        (re.search(r'File "([^"]+)"', result.stdout).group(1), "3")]
    assert "main.py" in result.stdout


def test_E37_fenced_program_runs_or_gets_a_hint(session):
    result = session.call("```python\nprint(6 * 7)\n```")
    assert result.stdout == "42\n" or (
        result.is_error and "fence" in result.said.lower()), result


def test_E38_nothing_is_left_for_the_next_program(session):
    session.call("import builtins\nbuiltins.x = 1\n"
                 "open('note.txt', 'w').write('secret')")
    result = session.call("import builtins, os\n"
                          "print(os.path.exists('note.txt'), "
                          "hasattr(builtins, 'x'))")
    assert result.stdout == "False False\n"


def test_program_is_main_with_its_own_text(session):
    result = session.call(
        "import sys, os\nprint(__name__, os.path.basename(__file__), "
        "sys.argv[1:])\nprint(open(__file__).read().count('PROBE'))")
    assert result.stdout == "__main__ main.py []\n1\n", result


def test_syntax_error_is_told_with_its_line(session):
    result = session.call("x = 1\nprint('never'\n")
    assert result.is_error and result["returncode"] == 1
    assert "SyntaxError" in result.stdout
    assert result["exception"]["type"] == "SyntaxError"
    assert result["exception"]["line"] == 2


def test_child_output_keeps_its_place(session):
    result = session.call(
        "import os\nprint('one', flush=True)\n"
        "if os.fork() == 0:\n    os.write(1, b'two\\n'); os._exit(0)\n"
        "os.wait()\nprint('three')")
    assert result.stdout == "one\ntwo\nthree\n"


def test_E34_cjk_has_real_glyphs_where_a_font_is_installed(session, sandbox):
    """Characters without a glyph would all look the same."""
    texts = "销額東京매출ア"
    result = session.call(
        FIGURE + "plt.rcParams['font.family'] = 'SimHei'\n"
        f"for i, c in enumerate({texts!r}):\n"
        "    plt.figure(figsize=(1, 1)); plt.axis('off')\n"
        "    plt.text(.2, .2, c, fontsize=30)\n"
        "    plt.savefig(f'{i}.png'); plt.close()", timeout=40)
    assert not result.is_error and result.stdout == "", result
    assert len(result.images) == len(texts)
    if sandbox.kind == "sandboxd":
        assert len(set(result.images)) == len(texts)


def test_captured_figure_yields_its_name(session):
    result = session.call(
        FIGURE + "plt.figure(figsize=(1, 1)).savefig('figure-1.png')\n"
        "plt.figure(figsize=(2, 1))")
    assert [plot["name"] for plot in result["plots"]] == [
        "figure-1.png", "open-figure-1.png"]
    assert [png_size(image) for image in result.images] == [
        (100, 100), (200, 100)]


def test_large_open_figure_is_drawn_smaller_and_that_is_said(session):
    result = session.call(FIGURE + "plt.figure(figsize=(50, 5))")
    assert png_size(result.images[0]) == (2000, 200)
    assert "lower resolution" in result["details"]


def test_too_many_open_files_are_told_with_their_limit(session, sandbox):
    result = session.call("kept = [open('main.py') for _ in range(5000)]")
    limit = 32 if sandbox.kind == "snekbox" else 256
    assert result["error_type"] == "execution_error"
    assert f"{limit} descriptors" in result["details"], result


def test_full_disk_is_told_with_its_limit(session):
    result = session.call(
        "with open('big', 'wb') as f:\n    while True:\n"
        "        f.write(bytes(1 << 16)); f.flush()")
    assert result.is_error
    if "[Errno 28]" in result.stdout:
        assert "48 MiB" in result["details"], result
    else:
        assert result["error_type"] == "memory_limit", result


def test_swallowed_time_limit_comes_again(session):
    result = session.call(
        "import time\ntry:\n    while True: time.sleep(0.01)\n"
        "except BaseException:\n    print('swallowed', flush=True)\n"
        "while True: pass")
    assert result["error_type"] == "timeout", result
    assert result.stdout.startswith("swallowed\n")
    assert result["exception"]["line"] == 6


def test_what_nothing_can_raise_in_is_killed_with_its_stack(session):
    result = session.call(
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, "
        "signal.valid_signals())\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [60])\n"
        "print('x', flush=True)\ndef spin():\n    while True: pass\nspin()")
    assert result["error_type"] == "timeout", result
    assert result.stdout == "x\n"


def test_folders_of_input_files_belong_to_the_program(session):
    result = session.call(
        "open('in/deep/new.txt', 'w').write('n')\n"
        "open('in/deep/a.txt', 'a').write('more')", files=[
            {"path": "in/deep/a.txt", "text": "a"},
            {"path": "in/b.txt", "text": "b"}])
    assert not result.is_error, result
    assert result.file_names == ["in/deep/a.txt", "in/deep/new.txt"]


def test_value_that_draws_itself_is_an_image(session):
    result = session.call("from PIL import Image\n"
                          "Image.new('RGB', (7, 5), 'red')")
    assert [png_size(image) for image in result.images] == [(7, 5)], result


def test_sandbox_with_another_output_limit(start_server):
    """The runner stops a program before the sandbox does, so that figures
    and files still get their report."""
    box = Sandbox(jail_output=300_000)
    try:
        server = start_server(box.url, processes=1, jail_output=300_000)
        with Session(server) as session:
            result = session.call(
                "open('_kept.txt', 'w').write('k')\nprint('x' * 299)\n"
                "while True: print('0123456789' * 20)")
        assert result["error_type"] == "output_limit", result
        assert "300,000" in result["details"]
        assert "_kept.txt" in result.file_names
    finally:
        box.stop()
