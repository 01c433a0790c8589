"""The routes of HTTP+SSE: what each answers, byte by byte."""

import json
import re
import time

import pytest

from client import (Connection, Deadline, Session, Stream, StreamEnded,
                    build_head, request)
from harness import poll

PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'


# ---- the stream ----------------------------------------------------------

@pytest.mark.parametrize("name,prefix", [("server", ""),
                                         ("sub_server", "/tools/python")])
def test_endpoint_comes_first_with_prefix_and_long_id(request, name, prefix):
    one = request.getfixturevalue(name)
    seen = set()
    for _ in range(5):
        with Stream(one.address, prefix + "/sse") as stream:
            assert stream.raw == b"" or stream.raw.startswith(b"event:")
            event = stream.next_event(2)
            assert event.name == "endpoint"
            found = re.fullmatch(
                re.escape(prefix) + r"/messages/\?session_id=([0-9a-f]{32,})",
                event.data)
            assert found, event
            seen.add(found.group(1)[:32])
    assert len(seen) == 5, "the random part differs"


def test_T15_endpoint_event_comes_within_a_second(server):
    begin = time.monotonic()
    with Stream(server.address, "/sse") as stream:
        stream.next_event(1)
    assert time.monotonic() - begin < 1


def test_T14_base_path_setting_gives_the_prefix(start_server):
    one = start_server(processes=1, base_path="/public/python")
    with Stream(one.address, "/sse") as stream:
        event = stream.next_event()
        assert event.data.startswith("/public/python/messages/?session_id=")


def test_query_of_the_stream_is_no_part_of_the_prefix(server):
    with Stream(server.address, "/sse?x=/sse") as stream:
        assert stream.next_event().data.startswith("/messages/?session_id=")


def test_headers_of_the_stream(server):
    with Stream(server.address, "/sse") as stream:
        assert (stream.status, stream.reason) == (200, "OK")
        kind = stream.headers["content-type"]
        assert kind.split(";")[0] == "text/event-stream"
        assert stream.headers["cache-control"] == "no-cache"
        assert stream.headers["x-accel-buffering"] == "no"
        assert "content-length" not in stream.headers


def test_comments_keep_an_idle_stream_alive(server):
    with Stream(server.address, "/sse") as stream:
        stream.next_event()
        for _ in range(3):
            stream.wait_comment(2)
        gaps = [b - a for a, b in zip(stream.comments, stream.comments[1:])]
        assert all(0.2 < gap < 1.5 for gap in gaps), gaps


def test_T17_idle_stream_serves_a_call_after_many_keepalives(start_server):
    one = start_server(processes=1, keepalive_idle="100ms")
    with Session(one) as session:
        for _ in range(20):
            session.stream.wait_comment(2)
        assert session.call("print('still here')").stdout == "still here\n"


def test_stream_of_a_gone_client_ends_its_session(server):
    session = Session(server)
    path = session.path
    session.close()
    poll(lambda: request(server.address, "POST", path, PING).status == 404,
         10, "session of the closed stream is gone")


def test_stream_ended_by_reset_ends_its_session(server):
    session = Session(server)
    path = session.path
    session.stream.reset()
    poll(lambda: request(server.address, "POST", path, PING).status == 404,
         10, "session of the reset stream is gone")


# ---- posting -------------------------------------------------------------

@pytest.mark.parametrize("form", ["/messages/", "/messages"])
def test_post_is_202_and_empty_and_answered_on_the_stream(server, form):
    with Session(server) as session:
        session.path = f"{form}?session_id={session.session_id}"
        answer = session.post(PING)
        assert (answer.status, answer.reason) == (202, "Accepted")
        assert answer.body == b""
        assert answer.headers["content-length"] == "0"
        event = session.stream.next_event()
        assert event.name == "message"
        assert json.loads(event.data) == {"jsonrpc": "2.0", "id": 1,
                                          "result": {}}


@pytest.mark.parametrize("form", ["/messages/", "/messages"])
def test_T03_unknown_session_is_404_json(server, form):
    for id in ("0" * 48, "f" * 32, "0" * 32 + "f" * 16):
        answer = server.request("POST", f"{form}?session_id={id}", PING)
        assert answer.status == 404, id
        assert_json_error(answer)


@pytest.mark.parametrize("query", [
    "", "?", "?session_id", "?session_id=", "?session_id=made-up",
    "?session_id=../../etc/passwd", "?other=1", "?session_id=" + "a" * 4000,
    "?session_id=%zz"], ids=lambda query: query[:20])
def test_missing_or_malformed_session_is_400_json(server, query):
    answer = server.request("POST", "/messages/" + query, PING)
    assert answer.status in ((400,) if "=" not in query.rstrip("=")
                             else (400, 404)), answer
    assert_json_error(answer)


def assert_json_error(answer):
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert answer.json()["error"]
    return answer.json()["error"]


def test_T03_request_right_after_the_endpoint_is_answered(server):
    with Session(server, initialize=False) as session:
        session.send("tools/list", id=7)
        message = session.wait(7)
        assert "result" in message or "error" in message


def test_two_sessions_are_isolated(server):
    with Session(server) as one, Session(server) as other:
        one.send("ping", id="mine")
        assert one.wait("mine")["result"] == {}
        other.send("ping", id="yours")
        message, _ = other.next_message()
        assert message["id"] == "yours", "only its own answer comes"


def test_answers_come_in_the_order_of_their_ends(session):
    slow = session.start("import time; time.sleep(1.5); print('slow')")
    session.send("ping", id="fast")
    first, _ = session.next_message()
    assert first["id"] == "fast"
    assert session.finish(slow).stdout == "slow\n"


def test_requests_of_one_session_are_answered_in_their_order(session):
    for i in range(20):
        session.send("ping", id=100 + i)
    got = [session.next_message()[0]["id"] for _ in range(20)]
    assert got == [100 + i for i in range(20)]


# ---- methods, paths, types -----------------------------------------------

@pytest.mark.parametrize("method,path,allowed", [
    ("POST", "/sse", "GET"), ("PUT", "/sse", "GET"), ("DELETE", "/sse", "GET"),
    ("PATCH", "/sse", "GET"), ("GET", "/messages/", "POST"),
    ("GET", "/messages", "POST"), ("PUT", "/messages/", "POST"),
    ("DELETE", "/messages/", "POST"), ("HEAD", "/messages/", "POST")])
def test_wrong_method_is_405_with_allow(server, method, path, allowed):
    body = None if method in ("GET", "HEAD", "DELETE") else PING
    answer = server.request(method, path, body)
    assert answer.status == 405, answer
    assert allowed in re.split(r",\s*", answer.headers["allow"])
    if method != "HEAD":
        assert_json_error(answer)


@pytest.mark.parametrize("path", [
    "/nothing", "/sse/", "/sse/x", "/messages/x", "/ssex", "/.env",
    "/SSE", "/%2e%2e/sse/none", "/.well-known/oauth-protected-resource"])
def test_other_paths_are_404_json(server, path):
    answer = server.request("GET", path)
    assert answer.status == 404, answer
    assert_json_error(answer)


@pytest.mark.parametrize("kind,status", [
    ("application/json", 202), ("application/json; charset=utf-8", 202),
    ("Application/JSON", 202), ("application/json;charset=UTF-8", 202),
    ("text/plain", 415), ("application/x-www-form-urlencoded", 415),
    ("application/jsonp", 415)])
def test_T10_content_type(session, kind, status):
    answer = session.post(PING, {"Content-Type": kind})
    assert answer.status == status, answer
    if status == 202:
        assert session.wait(1)["result"] == {}
    else:
        assert_json_error(answer)


def test_T10_absent_content_type_is_decided(session):
    answer = session.post(PING, {"Content-Type": None})
    assert answer.status in (202, 415), answer


# ---- sizes ---------------------------------------------------------------

@pytest.fixture(scope="module")
def small_server(sandbox):
    from harness import Server
    one = Server(sandbox.url, processes=2, body_max="64K",
                 request_timeout="2s")
    yield one
    one.stop()


def padded(n):
    """A ping of exactly n bytes."""
    return PING + " " * (n - len(PING))


def test_T24_body_at_the_limit_passes(small_server):
    with Session(small_server) as session:
        assert session.post(padded(65536)).status == 202
        assert session.wait(1)["result"] == {}


@pytest.mark.parametrize("extra", [1, 100_000, 2_000_000])
def test_T24_body_over_the_limit_is_413(small_server, extra):
    with Session(small_server) as session:
        answer = session.post(padded(65536 + extra))
        assert answer.status == 413, answer
        error = assert_json_error(answer)
        assert re.search(r"65536|64 ?K|body_max", json.dumps(error)), error
        session.send("ping", id="after")
        session.wait("after")


@pytest.mark.parametrize("size,status", [(65536, 202), (65537, 413),
                                         (1_000_000, 413)])
def test_T24_body_without_content_length(small_server, size, status):
    with Session(small_server) as session:
        head = build_head(small_server.address, "POST", session.path, {
            "Content-Type": "application/json", "Connection": "close",
            "Transfer-Encoding": "chunked"})
        body = padded(size).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (
            body[i:i + 30000] for i in range(0, size, 30000)))
        with Connection(small_server.address) as conn:
            conn.send(head + chunks + b"0\r\n\r\n")
            assert conn.head(Deadline(10))[0] == status


def test_large_body_under_the_default_limit_reaches_the_program(session):
    text = "x" * 3_000_000
    result = session.call(f"t = '{text}'\nprint(len(t))")
    assert result.stdout == "3000000\n"


def test_header_block_over_the_limit_is_refused(server):
    headers = {f"X-Filler-{i}": "y" * 1000 for i in range(100)}
    answer = server.request("GET", "/nothing", headers=headers)
    assert answer.status in (400, 413, 431), answer


def test_draining_ends_streams_cleanly(start_server):
    one = start_server(processes=1)
    with Session(one) as session:
        import os
        import signal
        os.kill(one.pids[0], signal.SIGTERM)
        try:
            events, clean = session.stream.wait_end(10)
        except StreamEnded as end:
            events, clean = [], end.clean
        assert events == [] and clean
    one.changed()
