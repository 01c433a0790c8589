"""The sandbox is slow, down, silent or talks nonsense: rows E39 and E40, and
every way in which a Snekbox fails."""

import socket
import subprocess
import threading
import time

import pytest

from client import Session
from fakes import (FakeSandbox, dead_url, eval_answer, http_answer,
                   program_of)
from harness import PROGRAM, poll


def test_E39_more_calls_than_workers_all_come_right(server):
    results = {}

    def one(i):
        with Session(server) as session:
            results[i] = session.call(
                f"import time; time.sleep(1.5); print({i})", timeout=60)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert sorted(results) == list(range(8))
    for i, result in results.items():
        assert result.stdout == f"{i}\n", result
        assert not result.is_error
    assert max(r["queued_ms"] for r in results.values()) > 1000


@pytest.fixture
def gated(gate, start_server):
    """A server whose sandbox stands behind a gate."""
    return start_server(gate.url, processes=1, sandbox_connect_timeout="1s",
                        sandbox_time_limit="2s", sandbox_reply_timeout="2s",
                        sandbox_retry_after="200ms")


def test_E40_stopped_sandbox_is_told_and_found_again(gate, gated):
    with Session(gated) as session:
        assert session.call("print(1)").stdout == "1\n"
        gate.shut()
        begin = time.monotonic()
        result = session.call("print(2)")
        assert time.monotonic() - begin < 5
        assert result["error_type"] == "sandbox_unavailable", result
        assert result["details"]
        session.request("ping")
        gate.open()
        poll(lambda: session.call("print(3)").stdout == "3\n", 10,
             "sandbox is found again")


def test_E40_silent_sandbox_is_told_within_its_time(gate, gated):
    with Session(gated) as session:
        session.schema()
        gate.silent = True
        begin = time.monotonic()
        id = session.start("print(2)")
        session.request("ping", timeout=1)
        result = session.finish(id)
        assert 1 < time.monotonic() - begin < 9
        assert result.is_error
        assert result["error_type"] in ("sandbox_unavailable",
                                        "sandbox_error"), result
        gate.open()
        poll(lambda: session.call("print(3)").stdout == "3\n", 15,
             "sandbox is found again")


def test_dead_address_is_set_aside_and_tried_again(gate, start_server):
    gate.shut()
    other = FakeSandbox(lambda *_: eval_answer("from the other\n"))
    one = start_server(f"{gate.url},{other.url}", processes=1,
                       sandbox_retry_after="300ms",
                       sandbox_connect_timeout="1s")
    try:
        with Session(one) as session:
            for _ in range(6):
                assert not session.call("print('real')").is_error
            assert len(other.requests) == 6
            gate.open()
            poll(lambda: session.call("print('real')").stdout == "real\n",
                 10, "the address is tried again")
    finally:
        other.close()


def test_several_addresses_are_used_in_turn(start_server):
    fakes = [FakeSandbox(lambda *_: eval_answer("x")) for _ in range(3)]
    one = start_server(",".join(fake.url for fake in fakes), processes=1)
    try:
        with Session(one) as session:
            for _ in range(9):
                session.call("1")
        assert [len(fake.requests) for fake in fakes] == [3, 3, 3]
    finally:
        for fake in fakes:
            fake.close()


FAILURES = {
    "service-error": (eval_answer("FileParsingError: invalid bytes in "
                                  "filename while parsing attachments", None),
                      "sandbox_error"),
    "unicode": (eval_answer("UnicodeDecodeError: invalid Unicode in output "
                            "pipe", None), "sandbox_error"),
    "400": (http_answer({"title": "Request data failed validation",
                         "description": "'x' is not of type 'string'"},
                        "400 Bad Request"), "sandbox_error"),
    "415": (http_answer({"title": "415 Unsupported Media Type"},
                        "415 Unsupported Media Type"), "sandbox_error"),
    "500": (http_answer({"title": "500 Internal Server Error"},
                        "500 Internal Server Error"), "sandbox_error"),
    "404": (http_answer({"title": "404 Not Found"}, "404 Not Found"),
            "sandbox_error"),
    "html": (http_answer("<html><h1>Bad Gateway</h1></html>",
                         "502 Bad Gateway", "text/html"), "sandbox_error"),
    "html-200": (http_answer("<html>hello</html>", kind="text/html"),
                 "sandbox_error"),
    "empty-body": (http_answer(b""), "sandbox_error"),
    "cut-json": (http_answer(b'{"stdout": "a", "retu'), "sandbox_error"),
    "array": (http_answer([]), "sandbox_error"),
    "no-fields": (http_answer({}), "sandbox_error"),
    "wrong-types": (http_answer({"stdout": 5, "returncode": "x",
                                 "files": {}}), "sandbox_error"),
    "deep": (http_answer(b"[" * 100_000), "sandbox_error"),
    "no-answer": (None, "sandbox_error"),
    "rubbish": (b"\x00\x01\x02 not http\r\n\r\n", "sandbox_error"),
    "cut-body": (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 500\r\n\r\n{\"stdout\":", "sandbox_error"),
    "busy": (http_answer({"title": "503"}, "503 Service Unavailable"),
             None),
}


@pytest.fixture(scope="module")
def failing(sandbox):
    from harness import Server
    fake = FakeSandbox(lambda *_: FAILURES[fake.mode][0])
    fake.mode = "500"
    one = Server(fake.url, processes=1, sandbox_retry_after="10ms")
    one.fake = fake
    yield one
    one.stop()
    fake.close()


@pytest.mark.parametrize("mode", FAILURES)
def test_failure_of_the_sandbox_is_told_and_not_retried(failing, mode):
    failing.fake.mode = mode
    before = len(failing.fake.requests)
    with Session(failing) as session:
        session.schema()
        result = poll(lambda: not_set_aside(session), 5, "an answer")
        assert result.is_error
        assert len(failing.fake.requests) == before + 1, "sent once"
        if FAILURES[mode][1]:
            assert result["error_type"] == FAILURES[mode][1], result
        assert result["error_type"] != "execution_error"
        assert result["error_message"] and result["details"]
        assert len(result.said) < 1500
        session.request("ping")


def not_set_aside(session):
    """A call's result; None when the address was still set aside."""
    before = len(session.server.fake.requests)
    result = session.call("print(1)")
    return result if len(session.server.fake.requests) > before else None


def test_failures_differ_in_their_words(failing):
    words = set()
    with Session(failing) as session:
        for mode in ("service-error", "400", "415", "500", "html",
                     "empty-body", "no-answer"):
            failing.fake.mode = mode
            result = poll(lambda: not_set_aside(session), 5, "an answer")
            words.add(result["error_message"])
    assert len(words) == 7, words


def test_request_to_the_sandbox_is_as_it_wants_it(start_server):
    fake = FakeSandbox(lambda *_: eval_answer("x"))
    one = start_server(fake.url, processes=1)
    try:
        with Session(one) as session:
            session.call("print('é' * 3)")
        head, body = fake.requests[0]
        lines = head.lower().split(b"\r\n")
        assert lines[0] == b"post /eval http/1.1"
        assert b"content-type: application/json" in lines
        assert b"accept: application/json" in lines
        assert b"content-length: %d" % len(body) in lines
        assert not any(line.startswith(b"expect") for line in lines)
        sent = program_of(body)
        assert all(len(arg) < 131072 for arg in sent["args"])
        assert "main.py" in [file["path"] for file in sent["files"]]
        assert "input" not in sent
    finally:
        fake.close()


def test_huge_reply_is_refused_not_swallowed(start_server):
    big = http_answer({"stdout": "x" * 300_000, "returncode": 0, "files": []})
    fake = FakeSandbox(lambda *_: big)
    one = start_server(fake.url, processes=1, sandbox_reply_max="64K")
    try:
        with Session(one) as session:
            result = session.call("1")
            assert result["error_type"] == "sandbox_error", result
            assert "sandbox_reply_max" in result.said
    finally:
        fake.close()


def test_no_sandbox_configured_is_told_at_the_start():
    """Better than a server that can never run anything."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")       # an abstract name of the kernel's choice
        listener.listen()
        done = subprocess.run([PROGRAM], stdin=listener, timeout=10,
                              capture_output=True, text=True, env={})
    assert done.returncode not in (0, None) and done.returncode > 0
    assert "snekbox_url" in done.stderr and "http://" in done.stderr


def test_dead_addresses_only(start_server):
    one = start_server(f"{dead_url()},{dead_url()}", processes=1,
                       sandbox_retry_after="300ms")
    with Session(one) as session:
        for _ in range(3):
            begin = time.monotonic()
            result = session.call("print(1)")
            assert result["error_type"] == "sandbox_unavailable"
            assert time.monotonic() - begin < 5
