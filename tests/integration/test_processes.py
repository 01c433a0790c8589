"""Several responders as one server: forwarding, deaths, and the end."""

import json
import os
import signal
import threading
import time
from collections import Counter

import pytest

from client import Connection, Deadline, Session, build_head, request
from harness import is_alive, make_folder, own_dir, poll

PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
SESSIONS, POSTS = 100, 20


@pytest.fixture
def farm(start_server):
    """A server of the test's own, because it loses processes."""
    return start_server(processes=4)


# ---- forwarding ----------------------------------------------------------

def post_all(session, fails):
    """POSTS pings, each on a new connection."""
    for i in range(POSTS):
        answer = session.post(json.dumps({
            "jsonrpc": "2.0", "id": f"{session.session_id}-{i}",
            "method": "ping"}))
        if (answer.status, answer.body) != (202, b""):
            fails.append(answer)


def read_all(session, got):
    """What comes on the stream, up to a last ping."""
    while True:
        message, _ = session.next_message(30)
        if message["id"] == "last":
            return
        got.append(message["id"])


def test_2000_posts_are_each_answered_once_on_their_own_stream(server):
    sessions = [Session(server, initialize=False) for _ in range(SESSIONS)]
    fails, streams = [], [[] for _ in sessions]
    readers = [threading.Thread(target=read_all, args=(s, got))
               for s, got in zip(sessions, streams)]
    posters = [threading.Thread(target=lambda part: [
        post_all(s, fails) for s in part], args=(sessions[i::8],))
        for i in range(8)]
    for thread in readers + posters:
        thread.start()
    for thread in posters:
        thread.join(60)
    for session in sessions:
        session.send("ping", id="last")
    for thread in readers:
        thread.join(60)
    for session in sessions:
        session.close()
    assert fails == []
    for session, got in zip(sessions, streams):
        assert Counter(got) == Counter(
            f"{session.session_id}-{i}" for i in range(POSTS))


def test_sessions_are_spread_over_the_processes(server):
    sessions = [Session(server, initialize=False) for _ in range(16)]
    try:
        owners = {s.session_id[32:] for s in sessions}
        assert len(owners) >= 3, owners
    finally:
        for session in sessions:
            session.close()


# ---- death of a process --------------------------------------------------

def sessions_by_owner(server, n=16):
    """Open sessions, grouped by the process that holds the stream."""
    groups = {}
    for _ in range(n):
        session = Session(server)
        groups.setdefault(session.session_id[32:], []).append(session)
    return list(groups.values())


def close_all(groups):
    for group in groups:
        for session in group:
            session.close()


def kill_owner(server, session, sig=signal.SIGKILL):
    """Kills the process that holds a session's stream; returns its pid."""
    pid = server.owner(session.session_id)
    os.kill(pid, sig)
    return pid


def test_killed_process_takes_only_its_own_streams(farm):
    groups = sessions_by_owner(farm)
    assert len(groups) >= 3
    kill_owner(farm, groups[0][0])
    for session in groups[0]:
        events, clean = session.stream.wait_end(5)
        assert events == [] and not clean
    for group in groups[1:]:
        for session in group:
            assert session.request("ping")["result"] == {}
    farm.changed()
    with Session(farm) as session:
        assert session.call("print('new')").stdout == "new\n"
    close_all(groups)


def test_post_to_a_killed_processes_session_is_404_at_once(farm):
    groups = sessions_by_owner(farm)
    pid = kill_owner(farm, groups[0][0])
    poll(lambda: not is_alive(pid), 5, "process is dead", 0.001)
    times = []
    for session in groups[0] * 3:
        begin = time.monotonic()
        answer = session.post(PING)
        times.append(time.monotonic() - begin)
        assert answer.status == 404, answer
        assert answer.json()["error"]
    assert sorted(times)[len(times) // 2] < 0.05, times
    assert min(times) < 0.05
    farm.changed()
    close_all(groups)


def test_slots_of_killed_processes_are_reclaimed(start_server):
    """The table has room for few: without reclaiming it is full soon."""
    one = start_server(processes=2, sessions_max=16)
    for _ in range(6):
        sessions = [Session(one) for _ in range(6)]
        kill_owner(one, sessions[0])
        for session in sessions:
            session.close()
        one.changed()
    sessions = [Session(one) for _ in range(12)]
    for session in sessions:
        assert session.request("ping")["result"] == {}
        session.close()


def test_every_process_may_die_in_turn(farm):
    for pid in list(farm.pids):
        os.kill(pid, signal.SIGKILL)
        farm.changed()
    with Session(farm) as session:
        assert session.call("print('alive')").stdout == "alive\n"


def test_leases_of_a_killed_process_are_given_back(start_server, sandbox):
    """The process that runs both programs dies; others must get to run."""
    one = start_server(processes=2)
    first = Session(one)
    for _ in range(2):
        start_running(first)
    kill_owner(one, first)
    first.close()
    one.changed()
    with Session(one) as session:
        begin = time.monotonic()
        assert session.call("print('mine')", timeout=40).stdout == "mine\n"
        took = time.monotonic() - begin
    if sandbox.kind == "sandboxd":
        assert took < 4, "sandboxd stops such runs: at once"


def start_running(session, code="while True: pass"):
    """Starts a call and waits until it is said to run."""
    id = session.start(code, meta={"progressToken": 1})
    while True:
        message, _ = session.next_message()
        params = message.get("params", {})
        if "running" in params.get("message", ""):
            return id


# ---- the end -------------------------------------------------------------

@pytest.mark.parametrize("signals", [1, 4])
def test_SIGTERM_lets_a_run_finish_and_ends_cleanly(farm, signals):
    with Session(farm) as session:
        session.schema()
        id = start_running(session,
                           "import time; time.sleep(2); print('finished')")
        pid = kill_owner(farm, session, signal.SIGTERM)
        for _ in range(signals - 1):
            os.kill(pid, signal.SIGTERM)
            session.stream.wait_comment(2)
        assert session.finish(id, 10).stdout == "finished\n"
        events, clean = session.stream.wait_end(5)
        assert events == [] and clean, "the stream ends in order"
        poll(lambda: not is_alive(pid), 5, "process has ended")
    farm.changed()
    assert f"child exited: {pid}" not in farm.web.log()


def test_SIGTERM_ends_a_run_that_is_too_long(start_server):
    one = start_server(processes=1, shutdown_grace="1s")
    with Session(one) as session:
        start_running(session)
        begin = time.monotonic()
        pid = kill_owner(one, session, signal.SIGTERM)
        session.stream.wait_end(5)
        poll(lambda: not is_alive(pid), 5, "process has ended")
        assert time.monotonic() - begin < 4
    one.changed()


def test_SIGTERM_exit_code_is_0_with_streams_open(start_server):
    """Under Apache the responders are our own children."""
    one = start_server(front="apache", processes=1)
    with Session(one) as session:
        assert session.request("ping")["result"] == {}
        assert one.workers[0].stop() == 0
        events, _ = session.stream.wait_end(10)
        assert events == []
    one.start_worker(0)
    one.workers.pop(0)
    one.changed()


def test_SIGHUP_changes_nothing(server):
    with Session(server) as session:
        os.kill(server.owner(session.session_id), signal.SIGHUP)
        assert session.call("print(1)").stdout == "1\n"


def test_half_sent_requests_hold_nothing_up(server):
    """Requests that never end must not keep others from being served."""
    held = []
    for _ in range(40):
        conn = Connection(server.address)
        conn.send(build_head(server.address, "POST",
                             "/messages/?session_id=" + "0" * 48, {
                                 "Content-Type": "application/json",
                                 "Content-Length": "1000"}) + b"{")
        held.append(conn)
    with Session(server) as session:
        begin = time.monotonic()
        session.request("ping")
        assert time.monotonic() - begin < 1
    for conn in held:
        conn.close()


def test_truncated_body_is_never_taken_for_a_message(server):
    with Session(server) as session:
        with Connection(server.address) as conn:
            conn.send(build_head(server.address, "POST", session.path, {
                "Content-Type": "application/json",
                "Content-Length": str(len(PING) + 100)}) + PING.encode())
        session.send("ping", id="after")
        assert session.next_message()[0]["id"] == "after"


def test_pipelined_requests_of_one_connection(server):
    with Session(server) as session, Connection(server.address) as conn:
        head = build_head(server.address, "POST", session.path, {
            "Content-Type": "application/json",
            "Content-Length": str(len(PING))})
        conn.send((head + PING.encode()) * 3)
        deadline = Deadline(10)
        for _ in range(3):
            status, _, headers = conn.head(deadline)
            assert status == 202
            assert conn.body(headers, deadline) == b""
        for _ in range(3):
            assert session.next_message()[0]["id"] == 1


# ---- an upgrade ----------------------------------------------------------

def test_another_versions_session_is_found_by_its_inbox(start_server):
    """During an upgrade two versions stand side by side, each with a table of
    its own; they share the run folder alone."""
    shared = own_dir(make_folder(), "run")
    old = start_server(processes=1, run_dir=shared)
    new = start_server(processes=1, run_dir=shared)
    with Session(old, initialize=False) as session:
        path = f"{new.prefix}/messages/?session_id=" + session.session_id
        assert request(new.address, "POST", path, PING).status == 202
        message, _ = session.next_message(10)
        assert message == {"jsonrpc": "2.0", "id": 1, "result": {}}
        # the right process, but a session that it does not know
        path = path.replace(session.session_id[:32], "0" * 32)
        assert request(new.address, "POST", path, PING).status == 404
