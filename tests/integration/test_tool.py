"""The tool as listed and as called: arguments, schemas, progress, cancel."""

import json
import time

import pytest
from jsonschema import Draft202012Validator

from client import Result, Session
from harness import poll

TOOL = "execute_python_code"
SLEEP = "import time; time.sleep(%s); print('slept')"


def tools(session):
    return session.request("tools/list")["result"]["tools"]


# ---- the list ------------------------------------------------------------

def test_one_tool_is_listed_with_schemas(session):
    (tool,) = tools(session)
    assert tool["name"] == TOOL
    assert tool["description"]
    for key in ("inputSchema", "outputSchema"):
        assert tool[key]["type"] == "object"
        Draft202012Validator.check_schema(tool[key])
    asked = tool["inputSchema"]
    assert asked["required"] == ["python_code"]
    assert {"python_code", "stdin", "files",
            "timeout_seconds"} <= set(asked["properties"])


def test_list_is_the_same_each_time(session):
    assert tools(session) == tools(session)


def test_old_revision_is_told_only_what_it_knows(server):
    with Session(server, version="2024-11-05") as session:
        (tool,) = tools(session)
        assert "outputSchema" not in tool
        result = session.request("tools/call", {
            "name": TOOL, "arguments": {"python_code": "print(1)"}},
            timeout=30)["result"]
        assert json.loads(result["content"][0]["text"])["stdout"] == "1\n"
        assert "structuredContent" not in result


def test_invalid_cursor_is_refused(session):
    answer = session.request("tools/list", {"cursor": "x"})
    assert answer["error"]["code"] == -32602


# ---- arguments -----------------------------------------------------------

def refusal(session, message):
    """The words in which a call was refused before it ran: an error of the
    protocol, or a failed result (structured, if it is, by its schema)."""
    if "error" in message:
        assert message["error"]["code"] == -32602
        return message["error"]["message"]
    result = message["result"]
    assert result["isError"] is True
    if "structuredContent" in result:
        return Result(message, session.schema()).text
    return result["content"][0]["text"]


ARGUMENTS = {
    "absent": (None, "python_code"), "null": ({"arguments": None}, ""),
    "text": ({"arguments": "x"}, ""), "list": ({"arguments": []}, ""),
    "empty": ({"arguments": {}}, "python_code"),
    "number": ({"arguments": {"python_code": 5}}, "python_code"),
    "none": ({"arguments": {"python_code": None}}, "python_code"),
    "unknown": ({"arguments": {"python_code": "1", "codex": 1}}, "codex"),
    "stdin": ({"arguments": {"python_code": "1", "stdin": 5}}, "stdin"),
    "files": ({"arguments": {"python_code": "1", "files": "x"}}, "files"),
    "file-path": ({"arguments": {"python_code": "1", "files": [
        {"path": "../x", "text": ""}]}}, "path"),
    "file-absolute": ({"arguments": {"python_code": "1", "files": [
        {"path": "/etc/x", "text": ""}]}}, "path"),
    "file-empty": ({"arguments": {"python_code": "1", "files": [{}]}},
                   "path"),
    "file-base64": ({"arguments": {"python_code": "1", "files": [
        {"path": "x", "base64": "%%"}]}}, "base64"),
    "timeout-text": ({"arguments": {"python_code": "1",
                                    "timeout_seconds": "5"}},
                     "timeout_seconds"),
    "timeout-low": ({"arguments": {"python_code": "1",
                                   "timeout_seconds": 0}}, "timeout_seconds"),
    "timeout-high": ({"arguments": {"python_code": "1",
                                    "timeout_seconds": 1e9}},
                     "timeout_seconds"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_T21_wrong_arguments_are_named_and_harmless(session, name):
    more, word = ARGUMENTS[name]
    message = session.request("tools/call", {"name": TOOL, **(more or {})})
    said = refusal(session, message)
    assert word in said, said
    assert session.call("print('alive')").stdout == "alive\n"


@pytest.mark.parametrize("params", [
    {}, {"arguments": {}}, {"name": 5, "arguments": {}},
    {"name": "nope", "arguments": {}}, {"name": "", "arguments": {}},
    {"name": TOOL.upper(), "arguments": {"python_code": "1"}}])
def test_malformed_call_and_unknown_tool_are_protocol_errors(session, params):
    message = session.request("tools/call", params)
    assert message["error"]["code"] == -32602


def test_lone_surrogate_in_the_program_is_refused(session):
    answer = session.post(
        '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":'
        '"execute_python_code","arguments":{"python_code":"\'\\ud800\'"}}}')
    if answer.status == 400:
        assert answer.json()["error"]["code"] == -32700
    else:
        message = session.wait(5)
        assert "error" in message or message["result"]["isError"]
    assert session.call("print('alive')").stdout == "alive\n"


def test_stdin_reaches_the_program(session):
    result = session.call("name = input()\nimport sys\n"
                          "print(name, '|', sys.stdin.read())",
                          stdin="Ada\nrest é\n")
    assert result.stdout == "Ada | rest é\n\n"
    assert not result.is_error


def test_files_reach_the_program(session):
    result = session.call(
        "print(open('a/b.txt', encoding='utf-8').read(), "
        "open('raw.bin', 'rb').read())",
        files=[{"path": "a/b.txt", "text": "grüß"},
               {"path": "raw.bin", "base64": "AP8K"}])
    assert result.stdout == "grüß b'\\x00\\xff\\n'\n", result
    assert result.file_names == [], "unchanged files are not given back"


def test_timeout_seconds_ends_a_program_earlier(session):
    begin = time.monotonic()
    result = session.call("print('on', flush=True)\nwhile True: pass",
                          timeout_seconds=2)
    assert time.monotonic() - begin < 4.5
    assert result["error_type"] == "timeout", result
    assert result.stdout.startswith("on\n")


# ---- results -------------------------------------------------------------

def test_result_fields_of_a_success(session):
    result = session.call("print('a')\n6 * 7")
    assert result["status"] == "success"
    assert result["returncode"] == 0
    assert result["output_type"] == "text"
    assert result["stdout"] == "a\n"
    assert result["result"] == "42"
    assert result["stdout_bytes"] == 2
    assert result["truncated"] is False
    assert result["duration_ms"] >= 0
    assert result["queued_ms"] >= 0
    assert result["limits"]


@pytest.mark.parametrize("code,kind", [
    ("", "none"), ("print(1)", "text"),
    ("import matplotlib.pyplot as plt; plt.plot([1]); print(1)", "plot")])
def test_output_type_is_the_predecessors(session, code, kind):
    assert session.call(code)["output_type"] == kind


def test_exception_is_told_in_its_parts(session):
    result = session.call("def f(x):\n    return 1 / x\n\nf(0)\n")
    exception = result["exception"]
    assert exception["type"] == "ZeroDivisionError"
    assert exception["message"] == "division by zero"
    assert exception["line"] in (2, 4)
    assert "main.py" in exception["traceback"]
    assert result["error_type"] == "execution_error"


def test_text_block_never_holds_base64(session):
    result = session.call("import matplotlib.pyplot as plt\nplt.plot([1])")
    assert len(result.images) == 1
    assert len(result.text) < 4000


def test_text_setting_gives_plain_text(start_server):
    one = start_server(processes=1, text_json="no")
    with Session(one) as session:
        id = session.start("print('plain')")
        content = session.wait(id, 30)["result"]["content"]
        assert content[0]["text"].startswith("plain")


def test_answer_stays_under_its_limit(session):
    """Noise cannot be compressed: two figures of it do not fit."""
    result = session.call(
        "import numpy as np, matplotlib.pyplot as plt\n"
        "for i in range(2):\n"
        "    plt.imsave(f'n{i}.png', np.random.rand(420, 420, 3))\n")
    assert len(json.dumps(result.message, ensure_ascii=False)) < 1_000_000
    assert len(result["plots"] or []) == 2, "both are listed"
    assert len(result.images) == 1, "one is left out and said so"


# ---- progress ------------------------------------------------------------

@pytest.mark.parametrize("token", ["p", "", "日本", 0, 7, 9007199254740993])
def test_progress_token_keeps_type_and_digits(session, token):
    id = session.start(SLEEP % 1.5, meta={"progressToken": token})
    session.finish(id)
    notes = session.notifications("notifications/progress")
    assert notes, "at least one"
    for note in notes:
        assert note["progressToken"] == token
        assert type(note["progressToken"]) is type(token)


def test_progress_rises_strictly_and_stops_with_the_answer(session):
    id = session.start(SLEEP % 3, meta={"progressToken": "t"})
    session.finish(id)
    notes = session.notifications("notifications/progress")
    values = [note["progress"] for note in notes]
    assert len(values) >= 2
    assert all(a < b for a, b in zip(values, values[1:])), values
    assert any("running" in note.get("message", "") for note in notes), notes
    session.others.clear()
    session.request("ping")
    assert session.others == []


def test_no_progress_without_a_token(session):
    session.finish(session.start(SLEEP % 1.2))
    assert session.notifications("notifications/progress") == []


# ---- cancelling ----------------------------------------------------------

def wait_running(session):
    while True:
        message, _ = session.next_message()
        assert message.get("method") == "notifications/progress", message
        if "running" in message["params"].get("message", ""):
            return


@pytest.mark.parametrize("id", [77, "seventy", 0])
def test_T19_cancelled_call_is_never_answered(session, id):
    session.schema()
    session.start("while True: pass", id=id, meta={"progressToken": 1})
    wait_running(session)
    session.send("notifications/cancelled", {"requestId": id})
    session.others.clear()
    result = session.call("print('free')", timeout=30)
    assert result.stdout == "free\n"
    assert all(m.get("id") != id for m in session.others), session.others


def test_T19_cancel_needs_the_type_of_the_id(session):
    id = session.start(SLEEP % 1.5, id=5, meta={"progressToken": 1})
    wait_running(session)
    session.send("notifications/cancelled", {"requestId": "5"})
    session.send("notifications/cancelled", {"requestId": "unknown"})
    assert session.finish(id).stdout == "slept\n"


def test_T19_cancel_of_another_sessions_call_does_nothing(server, session):
    with Session(server) as other:
        id = session.start(SLEEP % 1.5, id=31, meta={"progressToken": 1})
        wait_running(session)
        other.send("notifications/cancelled", {"requestId": 31})
        assert session.finish(id).stdout == "slept\n"


def test_T19_cancel_kills_the_run(server, sandbox, session):
    session.start("while True: pass", id="endless", meta={"progressToken": 1})
    wait_running(session)
    if sandbox.kind == "sandboxd":
        poll(lambda: sandbox.runs() >= 1, 3, "it has arrived")
        session.send("notifications/cancelled", {"requestId": "endless"})
        poll(lambda: sandbox.runs() == 0, 3, "jail is gone")
    else:       # a Snekbox runs to its limit: its place stays taken till then
        session.send("notifications/cancelled", {"requestId": "endless"})
        poll(lambda: session.call("1", timeout=30), 30, "a place is free")


def test_T04_closing_the_stream_ends_the_run(server, sandbox):
    with Session(server) as session:
        session.start("while True: pass", meta={"progressToken": 1})
        wait_running(session)
    if sandbox.kind == "sandboxd":
        poll(lambda: sandbox.runs() == 0, 5, "jail is gone")
    with Session(server) as session:
        assert session.call("print('next')").stdout == "next\n"


def test_same_id_again_is_fine_after_its_answer(session):
    for _ in range(2):
        id = session.start("print('x')", id="same")
        assert session.finish(id).stdout == "x\n"


def test_same_id_while_under_way_is_refused(session):
    session.start(SLEEP % 1.5, id="twice", meta={"progressToken": 1})
    wait_running(session)
    session.send("tools/call", {"name": TOOL, "arguments": {
        "python_code": "1"}}, id="twice")
    first, second = session.wait("twice"), session.wait("twice")
    assert "error" in first and "result" in second


# ---- every failure keeps the schema (T32) --------------------------------

@pytest.mark.parametrize("code", [
    "import sys; sys.exit(3)", "1/0", "def", "import os; os.abort()",
    "import os; os.kill(os.getpid(), 9)", "raise KeyboardInterrupt"])
def test_T32_structured_content_keeps_its_schema_on_errors(session, sandbox,
                                                           code):
    """Where no one counts the kills for want of memory, as in a Snekbox, a
    SIGKILL of the program's own looks like one."""
    result = session.call(code)
    assert result.is_error
    kinds = ["execution_error", "crash"]
    if sandbox.kind == "snekbox" and "kill" in code:
        kinds.append("memory_limit")
    assert result["error_type"] in kinds, result
    assert result["error_message"] and result["details"]


def test_T32_structured_content_of_an_unreachable_sandbox(start_server):
    from fakes import dead_url
    one = start_server(dead_url(), processes=1)
    with Session(one) as session:
        result = session.call("print(1)")
        assert result.is_error
        assert result["error_type"] == "sandbox_unavailable"
        assert result["returncode"] is None
