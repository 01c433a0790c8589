"""Who may run, who waits, who is told "busy" - over all processes."""

import os
import signal
import time

import pytest

from client import Session
from harness import poll

HOLD = "import time; time.sleep(%s); print('held')"


def begin(session, code, want):
    """Starts a call and waits for a progress text that holds want."""
    id = session.start(code, meta={"progressToken": 1})
    while True:
        message, _ = session.next_message(10)
        assert message.get("method") == "notifications/progress", message
        if want in message["params"].get("message", ""):
            return id, message["params"]


def test_waiting_calls_learn_their_place_and_run_in_turn(start_server):
    one = start_server(processes=4, sandbox_workers=1)
    with Session(one) as a, Session(one) as b, Session(one) as c:
        for session in (a, b, c):
            session.schema()
        held, _ = begin(a, HOLD % 2, "running")
        second, note = begin(b, "print('second')", "queue")
        third, note = begin(c, "print('third')", "queue")
        assert "2" in note["message"], note
        assert a.finish(held).stdout == "held\n"
        result = b.finish(second)
        assert result.stdout == "second\n"
        assert result["queued_ms"] > 500
        assert c.finish(third).stdout == "third\n"


def test_beyond_the_queue_is_busy_with_a_hint(start_server):
    one = start_server(processes=4, sandbox_workers=1, queue_max=1)
    with Session(one) as a, Session(one) as b, Session(one) as c:
        for session in (a, b, c):
            session.schema()
        held, _ = begin(a, HOLD % 2, "running")
        waiting, _ = begin(b, "print('waited')", "queue")
        asked = time.monotonic()
        result = c.call("print('refused')")
        assert time.monotonic() - asked < 1
        assert result.is_error and result["error_type"] == "busy", result
        assert "again" in result["details"], result
        assert a.finish(held).stdout == "held\n"
        assert b.finish(waiting).stdout == "waited\n"
        assert c.call("print('now')").stdout == "now\n"


def test_queue_timeout_is_busy(start_server):
    one = start_server(processes=2, sandbox_workers=1, queue_timeout="500ms")
    with Session(one) as a, Session(one) as b:
        b.schema()
        held, _ = begin(a, HOLD % 2.5, "running")
        result = b.call("print('late')")
        assert result["error_type"] == "busy", result
        assert a.finish(held).stdout == "held\n"


def test_time_in_the_queue_is_not_run_time(start_server):
    """Waited 2.5 s, may run 3 s: a limit that began too early would hit."""
    one = start_server(processes=1, sandbox_workers=1)
    with Session(one) as a, Session(one) as b:
        b.schema()
        begin(a, HOLD % 2.5, "running")
        result = b.call(HOLD % 1.5, timeout_seconds=3)
        assert result.stdout == "held\n" and not result.is_error, result


def test_a_waiting_call_can_be_cancelled(start_server):
    one = start_server(processes=2, sandbox_workers=1, queue_max=1)
    with Session(one) as a, Session(one) as b, Session(one) as c:
        for session in (a, b, c):
            session.schema()
        held, _ = begin(a, HOLD % 2, "running")
        waiting, _ = begin(b, "print('never')", "queue")
        b.send("notifications/cancelled", {"requestId": waiting})
        third, _ = begin(c, "print('third')", "queue")
        assert a.finish(held).stdout == "held\n"
        assert c.finish(third).stdout == "third\n"
        b.others.clear()
        b.request("ping")
        assert b.others == [], "the cancelled call is not answered"


def by_process(server, n):
    """One open session in each of n different processes."""
    found, spare = {}, []
    for _ in range(20 * n):
        session = Session(server)
        if found.setdefault(session.session_id[32:], session) is not session:
            spare.append(session)
        if len(found) == n:
            break
    for session in spare:
        session.close()
    assert len(found) == n
    return list(found.values())


def test_killed_holder_and_killed_waiter_hold_nobody_up(start_server,
                                                        sandbox):
    one = start_server(processes=4, sandbox_workers=1)
    holder, waiter, third = by_process(one, 3)
    third.schema()
    try:
        begin(holder, "while True: pass", "running")
        begin(waiter, "print('second')", "queue")
        last, _ = begin(third, "print('third')", "queue")
        for session in (waiter, holder):
            os.kill(one.owner(session.session_id), signal.SIGKILL)
        asked = time.monotonic()
        assert third.finish(last, 40).stdout == "third\n"
        if sandbox.kind == "sandboxd":
            assert time.monotonic() - asked < 4
    finally:
        for session in (holder, waiter, third):
            session.close()
    one.changed()


def test_a_stream_that_closes_gives_its_place_back(start_server, sandbox):
    one = start_server(processes=2, sandbox_workers=1)
    first = Session(one)
    begin(first, "while True: pass", "running")
    first.close()
    with Session(one) as second:
        asked = time.monotonic()
        assert second.call("print('free')", 40).stdout == "free\n"
        if sandbox.kind == "sandboxd":
            assert time.monotonic() - asked < 5


def test_calls_of_one_session_are_bounded(start_server):
    one = start_server(processes=1, sandbox_workers=1, session_calls_max=3)
    with Session(one) as session:
        session.schema()
        ids = [session.start(HOLD % 1) for _ in range(4)]
        result = session.finish(ids[3], 5)
        assert result["error_type"] == "busy", result
        for id in ids[:3]:
            assert session.finish(id).stdout == "held\n"


@pytest.mark.parametrize("per_client", [3])
def test_queue_is_fair_between_clients(start_server, per_client):
    """One client's many calls do not stand before another's one: they come
    from different loopback addresses."""
    import client
    one = start_server(processes=2, sandbox_workers=1)
    many = Session(one)
    many.schema()
    begin(many, HOLD % 1, "running")
    ids = [many.start(HOLD % 1) for _ in range(per_client)]
    plain = client.socket.create_connection
    client.socket.create_connection = lambda address, timeout=None: plain(
        address, timeout, ("127.0.0.2", 0))
    try:
        other = Session(one)
        asked = time.monotonic()
        assert other.call("print('one')").stdout == "one\n"
        assert time.monotonic() - asked < 2.9, "before the second of many"
    finally:
        client.socket.create_connection = plain
    other.close()
    for id in ids:
        assert many.finish(id).stdout == "held\n"
    many.close()


def test_queue_is_empty_after_all(start_server):
    one = start_server(processes=2, sandbox_workers=1, queue_max=2)
    for _ in range(3):
        with Session(one) as a, Session(one) as b:
            begin(a, "while True: pass", "running")
            begin(b, "print(1)", "queue")
    with Session(one) as session:
        poll(lambda: not session.call("print(1)", 40).is_error, 40,
             "places are free again")
