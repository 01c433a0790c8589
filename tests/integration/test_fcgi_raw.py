"""The responder's side of FastCGI, with all the traps that web servers and
libfcgi set: each test speaks records straight to the socket."""

import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from fcgi import (ABORT, BEGIN, CANT_MPX, COMPLETE, END, GET_VALUES,
                  GET_VALUES_RESULT, KEEP, PARAMS, STDIN, UNKNOWN_ROLE,
                  UNKNOWN_TYPE, Responder, Stream, Wire, begin, pair, params,
                  record, refuses, stream_of, whole)
from harness import PROGRAM, clean_environment, make_folder, poll, run_as

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
NOBODY = "/messages/?session_id=" + "0" * 48


@pytest.fixture(scope="module")
def shared():
    one = Responder()
    yield one
    one.stop()


@pytest.fixture
def responder(shared):
    yield shared
    shared.sound()


@pytest.fixture
def start():
    started = []

    def begin_one(*args, **kw):
        started.append(Responder(*args, **kw))
        return started[-1]

    yield begin_one
    for one in started:
        if one.child.alive():
            one.stop()


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def call(code, id=2):
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                       "params": {"name": "execute_python_code",
                                  "arguments": {"python_code": code}}}
                      ).encode()


# ---- records in every shape ----------------------------------------------

def test_request_in_one_piece_is_answered(responder):
    got = responder.ask("POST", NOBODY, PING).check()
    assert got.status == 404
    assert json.loads(got.body)["error"]["code"] == -32600


@pytest.mark.parametrize("step", [1, 7, 8, 100])
def test_request_in_any_pieces_is_answered(responder, step):
    data = whole("POST", NOBODY, PING, padding=5, step=9)
    with responder.wire() as wire:
        for at in range(0, len(data), step):
            wire.send(data[at:at + step])
        assert wire.answer().check().status == 404


def test_records_of_64_KiB_with_padding_pass(responder):
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + \
        b"y" * 300_000 + b'"}}'
    got = responder.ask("POST", NOBODY, body, padding=255)
    assert got.check().status == 404


def test_ids_are_given_back(responder):
    with responder.wire() as wire:
        wire.send(whole("GET", "/none", id=0xABCD))
        assert wire.answer(0xABCD).check().status == 404


def test_connection_closes_after_the_answer_without_keep(responder):
    with responder.wire() as wire:
        assert wire.ask("GET", "/none").check().status == 404
        assert wire.at_end()


def test_kept_connection_serves_many_requests(responder):
    with responder.wire() as wire:
        for n in range(1, 50):
            got = wire.ask("POST", NOBODY, PING, id=n % 3 + 1, flags=KEEP)
            assert got.check().status == 404


def test_requests_sent_ahead_on_a_kept_connection_are_refused_or_served(
        responder):
    """The second may not begin before END_REQUEST of the first: whoever does
    so is told, and the connection lives on."""
    with responder.wire() as wire:
        wire.send(whole("GET", "/none", id=1, flags=KEEP) +
                  whole("GET", "/none", id=2, flags=KEEP))
        seen = {}
        while len(seen) < 2:
            kind, id, content = wire.record()
            if kind == END:
                seen[id] = content[4]
        assert seen[1] == COMPLETE
        assert seen[2] in (COMPLETE, CANT_MPX)
        assert wire.ask("GET", "/none", flags=KEEP).check().status == 404


def test_many_more_kept_connections_than_workers(responder):
    """libfcgi's own loop pins a thread to each: then everything hangs."""
    wires = [responder.wire() for _ in range(40)]
    for wire in wires:
        assert wire.ask("GET", "/none", flags=KEEP).check().status == 404
    begun = time.monotonic()
    assert responder.ask("GET", "/none").check().status == 404
    assert time.monotonic() - begun < 1
    for wire in wires:
        assert wire.ask("GET", "/none", flags=KEEP).check().status == 404
        wire.close()


def test_multiplexing_is_refused_and_the_first_request_lives(responder):
    with responder.wire() as wire:
        wire.send(begin(1, KEEP) + begin(2, KEEP))
        assert wire.record() == (END, 2, struct.pack(">LB3x", 0, CANT_MPX))
        wire.send(stream_of(PARAMS, params("GET", "/none")) +
                  record(STDIN))
        assert wire.answer().check().status == 404


@pytest.mark.parametrize("role", [0, 2, 3, 99])
def test_other_roles_are_refused(responder, role):
    with responder.wire() as wire:
        wire.send(begin(role=role))
        assert wire.record() == (END, 1,
                                 struct.pack(">LB3x", 0, UNKNOWN_ROLE))


def test_values_are_told(responder):
    asked = b"".join(pair(name, "") for name in (
        "FCGI_MAX_CONNS", "FCGI_MPXS_CONNS", "FCGI_X"))
    with responder.wire() as wire:
        wire.send(record(GET_VALUES, asked, 0))
        kind, id, content = wire.record()
        assert (kind, id) == (GET_VALUES_RESULT, 0)
        assert pair("FCGI_MPXS_CONNS", "0") in content
        assert re.search(rb"FCGI_MAX_CONNS\d+", content)
        assert b"FCGI_X" not in content
        assert wire.ask("GET", "/none").check().status == 404


def test_unknown_management_record_is_told(responder):
    with responder.wire() as wire:
        wire.send(record(77, b"abc", 0, padding=3))
        assert wire.record() == (UNKNOWN_TYPE, 0, bytes([77]) + bytes(7))
        assert wire.ask("GET", "/none").check().status == 404


def test_abort_ends_the_request(responder):
    with responder.wire() as wire:
        wire.send(begin(flags=KEEP) + record(PARAMS, params("GET", "/none")) +
                  record(ABORT))
        assert wire.answer().ended == COMPLETE
        assert wire.ask("GET", "/none", flags=KEEP).check().status == 404


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    random.Random(1).randbytes(4096), bytes(4096), b"\xff" * 4096,
    record(BEGIN, b"abc"), record(BEGIN, bytes(8), id=0),
    begin() + begin(), begin() + record(STDIN, b"x"),
    begin() + record(PARAMS) + record(PARAMS, b"x"),
    begin() + record(PARAMS, b"\1\1ab", version=2)],
    ids=["http", "random", "zeros", "ones", "short", "no-id", "twice",
         "no-params", "after-params", "version"])
def test_garbage_ends_its_connection_only(responder, data):
    with responder.wire() as wire:
        try:
            wire.send(data)
            while wire.sock.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass


@pytest.mark.parametrize("data", [
    b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0eREQUEST", b"\xff\xff\xff\xf0"
    b"\x00x", pair("REQUEST_METHOD", "GET")[:-1], pair("A\0B", "c")])
def test_malformed_parameters_are_400(responder, data):
    """libfcgi would believe a length of two gigabytes."""
    with responder.wire() as wire:
        wire.send(begin() + stream_of(PARAMS, data) + record(STDIN))
        assert wire.answer().check().status == 400


# ---- bodies and caps -----------------------------------------------------

@pytest.mark.parametrize("length", ["5", "40000", "-1", "x", "1e2", " 40"])
def test_wrong_content_length_is_400(responder, length):
    assert responder.ask("POST", NOBODY, PING,
                         CONTENT_LENGTH=length).check().status == 400


def test_body_without_content_length_is_read_to_its_end(responder):
    assert responder.ask("POST", NOBODY, PING,
                         CONTENT_LENGTH=None).check().status == 404


def test_truncated_upload_is_never_executed(responder):
    """Cut between records, where libfcgi sees but a short body."""
    with Stream(responder.path) as stream:
        with responder.wire() as wire:
            wire.send(begin() + stream_of(PARAMS, params(
                "POST", stream.url, PING, CONTENT_LENGTH=None)) +
                record(STDIN, PING))
        with responder.wire() as wire:
            assert wire.ask("POST", stream.url,
                            PING.replace(b"1,", b"7,")).status == 202
        assert json.loads(stream.message())["id"] == 7


def test_header_fields_beyond_the_cap_are_431(start):
    one = start(header_max="8K")
    got = one.ask("GET", "/none", HTTP_X="y" * 9000)
    assert got.check().status == 431
    with one.wire() as wire:
        wire.send(begin(flags=KEEP))
        for _ in range(10):
            wire.send(record(PARAMS, pair("HTTP_X", "y" * 1000)))
        assert wire.answer().check().status == 431
    one.sound()


def test_body_beyond_the_cap_is_413_at_once(start):
    """While the peer still sends, and whether or not it keeps the
    connection."""
    one = start(body_max="64K")
    for flags in (0, KEEP):
        with one.wire() as wire:
            wire.send(begin(flags=flags) + stream_of(PARAMS, params(
                "POST", NOBODY, b"x", CONTENT_LENGTH="10000000")))
            wire.send(record(STDIN, b"y" * 65535) + record(STDIN, b"y" * 9))
            got = wire.answer().check()
            assert got.status == 413
            assert "body_max" in json.loads(got.body)["error"]["message"]
            for _ in range(20):         # the rest is passed over
                wire.send(record(STDIN, b"y" * 65535))
            if flags:
                wire.send(record(STDIN))
                assert wire.ask("GET", "/none", flags=KEEP).status == 404
    one.sound()


def test_body_at_the_cap_passes(start):
    one = start(body_max="64K")
    body = PING + b" " * (65536 - len(PING))
    assert one.ask("POST", NOBODY, body).check().status == 404
    assert one.ask("POST", NOBODY, body + b" ").check().status == 413


def test_tiny_records_do_not_multiply_memory(start):
    one = start(body_max="64K", header_max="4K")
    got = one.ask("POST", NOBODY, PING + b" " * 60000, step=1)
    assert got.check().status == 413
    one.sound()


def test_request_that_never_comes_whole_is_408(start):
    one = start(request_timeout="300ms")
    with one.wire() as wire:
        wire.send(begin(flags=KEEP) + record(PARAMS, params("GET", "/none")))
        assert wire.answer().check().status == 408
        assert wire.at_end()
    with one.wire() as wire:            # silent from the start
        assert wire.at_end()
    with one.wire() as wire:            # kept ones may be silent
        assert wire.ask("GET", "/none", flags=KEEP).check().status == 404
        time.sleep(0.6)
        assert wire.ask("GET", "/none", flags=KEEP).check().status == 404
    one.sound()


def test_too_many_requests_at_once_are_503(start):
    one = start(requests_max=8)
    held = [one.wire().send(begin()) for _ in range(8)]
    got = poll(lambda: one.ask("GET", "/none"), what="answer")
    while got.status == 404:            # not all of them have arrived yet
        got = one.ask("GET", "/none")
    assert got.check().status == 503
    assert int(got.headers["retry-after"]) >= 1
    for wire in held:
        wire.close()
    poll(lambda: one.ask("GET", "/none").status == 404, what="room again")


# ---- descriptors ---------------------------------------------------------

def test_every_descriptor_is_close_on_exec(responder):
    with Stream(responder.path), responder.wire() as wire:
        wire.send(begin() + record(PARAMS, params("GET", "/none")))
        responder.sound()
        folder = f"/proc/{responder.pid}"
        for name in os.listdir(folder + "/fd"):
            if int(name) <= 2:
                continue
            with open(f"{folder}/fdinfo/{name}") as file:
                flags = re.search(r"flags:\s+(\d+)", file.read()).group(1)
            assert int(flags, 8) & os.O_CLOEXEC, \
                os.readlink(f"{folder}/fd/{name}")


def test_lack_of_descriptors_passes_by(start):
    """With streams beyond all descriptors: some are refused or wait, nothing
    ends, and when they go everything is served again."""
    one = start(limit=64)
    wires, opened, refused = [], 0, 0
    for _ in range(100):
        wire = one.wire(timeout=0.3)
        wires.append(wire)
        try:
            wire.send(whole("GET", "/sse"))
            first = wire.record()[2]
            opened += first.startswith(b"Status: 200 ")
            refused += first.startswith(b"Status: 503 ")
        except TimeoutError:
            break
    assert opened > 5 and refused > 0, (opened, refused)
    assert one.child.alive()
    for wire in wires:
        wire.close()
    poll(lambda: one.ask("GET", "/none").status == 404, what="served again")
    one.sound()


def test_accept_survives_no_descriptor_at_all(start):
    """EMFILE in accept4 itself: the limit is taken away while it runs."""
    one = start()
    soft_limit(one.pid, 3)
    # accept4 had its descriptor before it began to wait
    assert one.ask("GET", "/none").check().status == 503
    with one.wire(timeout=0.5) as wire:
        wire.send(whole("GET", "/none"))
        with pytest.raises(TimeoutError):
            wire.answer()
        soft_limit(one.pid, 1000)
        wire.sock.settimeout(10)
        assert wire.answer().check().status == 404
    one.sound()


def soft_limit(pid, soft):
    """Sets the soft limit of descriptors, as the process' own user may."""
    subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={soft}:"],
                   check=True, **run_as()[0])


def test_descriptors_come_back(responder):
    base = fds(responder.pid)
    for _ in range(20):
        with Stream(responder.path), responder.wire() as wire:
            wire.send(begin() + record(PARAMS, b"\1"))
    poll(lambda: fds(responder.pid) <= base, what="descriptors are back")


# ---- slow and vanishing peers --------------------------------------------

def test_64_trickling_uploads_and_64_slow_readers_delay_nobody(responder):
    head = begin() + stream_of(PARAMS, params("POST", NOBODY, b"x" * 999999))
    uploads = [responder.wire().send(head + record(STDIN, b"x"))
               for _ in range(64)]
    readers = [Stream(responder.path) for _ in range(64)]
    for reader in readers:              # none of them reads this
        for _ in range(3):
            with responder.wire() as wire:
                assert wire.ask("POST", reader.url, PING).status == 202
    took = []
    with Stream(responder.path) as stream:
        for n in range(30):
            for wire in uploads:
                wire.send(b"x" if n == 0 else b"")
            begun = time.monotonic()
            assert responder.ask("POST", stream.url, PING).status == 202
            assert json.loads(stream.message())["result"] == {}
            took.append(time.monotonic() - begun)
    assert sorted(took)[len(took) // 2] < 0.1, took
    for wire in uploads + readers:
        wire.close()


def test_events_to_a_peer_that_reads_late_come_whole(start):
    """More than the socket's buffers hold."""
    one = start()
    with one.open() as stream:
        for n in range(300):
            assert one.ask("POST", stream.url, b'{"jsonrpc":"2.0","id":%d,'
                           b'"method":"tools/list"}' % n).status == 202
        for n in range(300):
            assert json.loads(stream.message())["id"] == n
    one.sound()


def test_stream_that_is_not_read_is_dropped_alone(start):
    one = start(stream_queue_max="64K")
    slow, good = Stream(one.path), Stream(one.path)
    text = "z" * 20000
    bad = json.dumps({"jsonrpc": "2.0", "id": text[:200],
                      "method": "ping"}).encode()
    listing = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    dropped = False
    for _ in range(2000):
        status = one.ask("POST", slow.url, listing).status
        if status == 404:
            dropped = True
            break
        assert status == 202
    assert dropped
    assert one.ask("POST", good.url, bad).status == 202
    assert json.loads(good.message())["id"] == text[:200]
    assert "stream.dropped" in one.child.log()
    slow.close()
    good.close()


@pytest.mark.parametrize("how", ["close", "abort", "half"])
def test_end_of_a_stream_is_seen_at_once(responder, how):
    stream = Stream(responder.path)
    url = stream.url
    assert responder.ask("POST", url, PING).status == 202
    if how == "close":
        stream.close()
    elif how == "half":
        stream.sock.shutdown(socket.SHUT_WR)
    else:
        stream.send(record(ABORT))
    poll(lambda: responder.ask("POST", url, PING).status == 404, 2,
         "the session is gone")
    if how == "abort":
        stream.message()
        assert stream.answer().ended == COMPLETE
    stream.close()


def test_peer_that_only_stops_sending_gets_its_answer(responder):
    with responder.wire() as wire:
        wire.send(whole("GET", "/none", flags=KEEP))
        wire.sock.shutdown(socket.SHUT_WR)
        assert wire.answer().status == 404


def test_peers_that_vanish_before_the_answer(responder):
    for _ in range(50):
        with responder.wire() as wire:
            wire.send(whole("POST", NOBODY, PING))
        with responder.wire() as wire:
            wire.send(whole("GET", "/sse"))


# ---- the end -------------------------------------------------------------

def test_SIGTERM_ends_idle_streams_with_END_REQUEST(start):
    one = start()
    streams = [Stream(one.path) for _ in range(5)]
    kept = one.wire()
    assert kept.ask("GET", "/none", flags=KEEP).status == 404
    begun = time.monotonic()
    os.kill(one.pid, signal.SIGTERM)
    for stream in streams:
        assert stream.answer().ended == COMPLETE
    assert kept.at_end()
    assert one.child.process.wait(5) == 0
    assert time.monotonic() - begun < 2
    assert not os.path.exists(one.path)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT,
                                 signal.SIGUSR1])
def test_run_in_flight_is_delivered_before_the_end(start, sandbox, sig):
    one = start(url=sandbox.url)
    stream, idle = one.open(), Stream(one.path)
    assert one.ask("POST", stream.url, call(
        "import time; time.sleep(1.5); print('done')")).status == 202
    time.sleep(0.3)
    os.kill(one.pid, sig)
    os.kill(one.pid, signal.SIGTERM)    # a second one changes nothing
    assert idle.answer().ended == COMPLETE
    time.sleep(0.2)
    os.kill(one.pid, signal.SIGTERM)
    reply = json.loads(stream.message())
    assert "done" in reply["result"]["content"][0]["text"]
    assert stream.answer().ended == COMPLETE
    assert one.child.process.wait(5) == 0


def test_grace_ends_a_run_that_is_too_long(start, sandbox):
    one = start(url=sandbox.url, shutdown_grace="500ms")
    stream = one.open()
    assert one.ask("POST", stream.url,
                   call("import time; time.sleep(5)")).status == 202
    time.sleep(0.3)
    begun = time.monotonic()
    os.kill(one.pid, signal.SIGTERM)
    assert one.child.process.wait(5) == 0
    assert time.monotonic() - begun < 2.5


def test_SIGTERM_at_any_moment_of_the_start_ends_it():
    """Also between libfcgi's signal handlers and ours."""
    folder = make_folder()
    program = shutil.copy(PROGRAM, folder)
    for n in range(30):
        child = subprocess.Popen(
            [program, "--listen", folder + "/s.sock", "--set", "snekbox_url="
             "http://127.0.0.1:9/eval", "--set", f"run_dir={folder}/run",
             "--set", "state_name=" + os.path.basename(folder)],
            stderr=subprocess.DEVNULL, cwd=folder,
            env=clean_environment(folder, None), **run_as()[0])
        time.sleep(n * 0.001)
        child.terminate()
        assert child.wait(10) in (0, -signal.SIGTERM)
    shutil.rmtree(folder)


def test_half_sent_requests_do_not_hold_the_end_up_for_long(start):
    one = start(shutdown_grace="500ms")
    with one.wire() as wire:
        wire.send(begin())
        one.sound()
        begun = time.monotonic()
        os.kill(one.pid, signal.SIGTERM)
        assert one.child.process.wait(5) == 0
        assert time.monotonic() - begun < 2.5


def test_SIGHUP_and_SIGPIPE_change_nothing(responder):
    os.kill(responder.pid, signal.SIGHUP)
    os.kill(responder.pid, signal.SIGPIPE)
    responder.sound()


# ---- the start -----------------------------------------------------------

def test_living_socket_is_refused_and_a_dead_one_replaced(start):
    one = start()
    code, words = refuses(["--listen", one.path])
    assert code == 2 and "listen" in words
    one.sound()
    one.child.process.kill()
    one.child.process.wait()
    assert os.path.exists(one.path)
    one.child = type(one.child)("again", [
        os.path.join(one.folder, "python-sandbox.fcgi"), "--config",
        os.path.join(one.folder, "settings.conf"), "--listen", one.path],
        one.folder)
    poll(one.ready, 20, "it listens again")
    one.sound()


@pytest.mark.parametrize("argv, word", [
    ([], "descriptor 0"), (["--nonsense"], "--nonsense"),
    (["--set", "body_max=x"], "body_max"), (["--listen"], "--listen"),
    (["--listen", "/nonexistent/x.sock"], "listen")])
def test_wrong_start_says_what_is_wrong(argv, word):
    code, words = refuses(argv)
    assert code in (1, 2)
    assert word in words


def test_non_blocking_listen_socket_from_the_web_server(start):
    """Some process managers hand one over; and it is not ours to change."""
    folder = make_folder()
    path = os.path.join(folder, "given.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        listener.bind(path)
        listener.listen(100)
        os.chmod(path, 0o777)
        child = subprocess.Popen(
            [shutil.copy(PROGRAM, folder), "--set", "snekbox_url="
             "http://127.0.0.1:9/eval", "--set", f"run_dir={folder}/run",
             "--set", "state_name=" + os.path.basename(folder)],
            stdin=listener, stderr=subprocess.DEVNULL, cwd=folder,
            env=clean_environment(folder, None), **run_as()[0])
        with Wire(path) as wire:
            assert wire.ask("GET", "/none").check().status == 404
        child.terminate()
        assert child.wait(5) == 0
        assert os.path.exists(path)     # it belongs to the web server
        assert not listener.getblocking()


def test_workers_are_not_threads_per_connection(responder):
    before = len(os.listdir(f"/proc/{responder.pid}/task"))
    wires = [responder.wire().send(begin()) for _ in range(50)]
    responder.sound()
    assert len(os.listdir(f"/proc/{responder.pid}/task")) == before
    for wire in wires:
        wire.close()


def test_parallel_posts_of_one_session_are_all_answered(responder):
    with Stream(responder.path) as stream:
        def post(n):
            body = PING.replace(b":1,", b":%d," % n)
            assert responder.ask("POST", stream.url, body).status == 202

        threads = [threading.Thread(target=post, args=(n,))
                   for n in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        got = {json.loads(stream.message())["id"] for _ in range(100)}
        assert got == set(range(100))
