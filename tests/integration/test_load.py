"""Slow peers in great number beside normal ones."""

import socket
import statistics
import threading
import time

import pytest

from client import Connection, Session, Stream, build_head
from harness import poll

SLOW = 64
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def open_slow_reader(server):
    """A session whose client reads the endpoint and then nothing more, with a
    small window, and asks for large answers."""
    session = Session(server, initialize=False)
    session.stream.conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF,
                                        4096)
    return session


def flood(sessions, stop):
    """Asks for what nobody reads."""
    for session in sessions:
        for i in range(5):
            if stop.is_set():
                return
            try:
                session.post(b'{"jsonrpc":"2.0","id":%d,"method":'
                             b'"tools/list"}' % i)
            except OSError:
                pass


def trickle(conns, stop):
    """Sends a byte on each upload, again and again."""
    while not stop.is_set():
        for conn in conns:
            try:
                conn.send(b" ", 5)
            except OSError:
                pass
        stop.wait(0.05)


@pytest.fixture
def slow_peers(server):
    readers = [open_slow_reader(server) for _ in range(SLOW)]
    uploads = []
    for _ in range(SLOW):
        conn = Connection(server.address)
        conn.send(build_head(server.address, "POST", readers[0].path, {
            "Content-Type": "application/json",
            "Content-Length": "100000"}) + b"{")
        uploads.append(conn)
    stop = threading.Event()
    threads = [threading.Thread(target=flood, args=(readers, stop)),
               threading.Thread(target=trickle, args=(uploads, stop))]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join(30)
    for one in readers + uploads:
        one.close()


def round_trips(session, n):
    times = []
    for _ in range(n):
        begin = time.monotonic()
        assert session.request("ping")["result"] == {}
        times.append(time.monotonic() - begin)
    return times


def test_64_slow_readers_and_64_slow_uploads_delay_nobody(server,
                                                          slow_peers):
    with Session(server) as session:
        times = round_trips(session, 60)
        assert statistics.median(times) < 0.1, times
        assert max(times) < 1, times
        result = session.call("print('beside them')")
        assert result.stdout == "beside them\n"


def test_client_that_stops_reading_is_dropped_alone(start_server):
    """Its answers pile up behind the web server until the queue is full."""
    one = start_server(processes=1, stream_queue_max="64K",
                       result_max="4M", output_max="1M")
    slow, good = Session(one), Session(one)
    slow.stream.conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF,
                                     4096)
    code = "print('x' * 900_000)"
    dropped = False
    for i in range(30):
        answer = slow.post({"jsonrpc": "2.0", "id": i, "method": "tools/call",
                            "params": {"name": "execute_python_code",
                                       "arguments": {"python_code": code}}})
        if answer.status == 404:
            dropped = True
            break
        times = round_trips(good, 5)
        assert max(times) < 1, times
        good.call("1")
    assert dropped, "the one that does not read is ended"
    assert good.request("ping")["result"] == {}
    slow.close()
    good.close()


def test_300_streams_open_and_close_without_a_trace(server):
    streams = [Stream(server.address, "/sse") for _ in range(300)]
    for stream in streams:
        assert stream.next_event().name == "endpoint"
    for stream in streams:
        stream.wait_comment(5)
    for stream in streams[::2]:
        stream.reset()
    for stream in streams[1::2]:
        stream.close()
    with Session(server) as session:
        assert session.request("ping")["result"] == {}


def test_soft_descriptor_limit_is_raised_to_the_hard_one(server):
    for pid in server.pids:
        with open(f"/proc/{pid}/limits") as file:
            (line,) = [x for x in file if x.startswith("Max open files")]
        soft, hard = line.split()[3:5]
        assert soft == hard


def try_session(server):
    """A session, or None when there is no room for its stream."""
    with Stream(server.address, "/sse") as stream:
        assert stream.status in (200, 503)
        if stream.status == 503:
            return None
    try:
        return Session(server)
    except AssertionError:      # the probe above still takes the last place
        return None


def test_lack_of_descriptors_is_survived(start_server):
    """More streams than there are descriptors: the process pauses, serves
    those it has, and takes new ones when some have closed."""
    one = start_server(front="apache", processes=1,
                       wrap=["prlimit", "--nofile=48:48"])
    good = Session(one)
    opened = []
    for _ in range(60):
        conn = Connection(one.address)
        conn.send(build_head(one.address, "GET", "/sse", {}))
        opened.append(conn)
    for conn in opened:
        conn.close()
    with poll(lambda: try_session(one), 10, "room for a stream") as session:
        assert session.call("print('back')").stdout == "back\n"
    assert good.stream.wait_comment(3) is None, "it was alive all the time"
    good.close()
