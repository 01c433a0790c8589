"""FastCGI spoken straight to a responder's Unix socket, record by record."""

import json
import os
import shutil
import socket
import struct
import subprocess

from harness import (PROGRAM, Child, clean_environment, make_folder, poll,
                     run_as, write_settings)

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT = 1, 2, 3, 4, 5, 6
GET_VALUES, GET_VALUES_RESULT, UNKNOWN_TYPE = 9, 10, 11
RESPONDER, KEEP = 1, 1
COMPLETE, CANT_MPX, UNKNOWN_ROLE = 0, 1, 3


def record(kind, content=b"", id=1, padding=0, version=1):
    return struct.pack(">BBHHBB", version, kind, id, len(content), padding,
                       0) + content + bytes(padding)


def begin(id=1, flags=0, role=RESPONDER):
    return record(BEGIN, struct.pack(">HB5x", role, flags), id)


def pair(name, value):
    def length(n):
        return bytes([n]) if n < 128 else struct.pack(">I", n | 1 << 31)
    name, value = name.encode("latin-1"), value.encode("latin-1")
    return length(len(name)) + length(len(value)) + name + value


def params(method, uri, body=b"", **more):
    fields = {"REQUEST_METHOD": method, "REQUEST_URI": uri,
              "REMOTE_ADDR": "127.0.0.1", "SERVER_ADDR": "127.0.0.1",
              "HTTP_HOST": "localhost"}
    if body:
        fields["CONTENT_TYPE"] = "application/json"
        fields["CONTENT_LENGTH"] = str(len(body))
    fields.update(more)
    return b"".join(pair(k, v) for k, v in fields.items() if v is not None)


def stream_of(kind, content, id=1, step=65535, padding=0):
    """Content cut into records, and the empty one that ends it."""
    parts = [content[at:at + step] for at in range(0, len(content), step)]
    return b"".join(record(kind, part, id, padding)
                    for part in [*parts, b""])


def whole(method, uri, body=b"", id=1, flags=0, padding=0, step=65535,
          **more):
    return (begin(id, flags) +
            stream_of(PARAMS, params(method, uri, body, **more), id,
                      padding=padding) +
            stream_of(STDIN, body, id, step, padding))


class Answer:
    """What came on STDOUT up to END_REQUEST (or the end, then ended is
    None)."""

    def __init__(self, text, ended):
        self.text = text
        self.ended = ended
        head, _, self.body = text.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        status = self.headers.get("status", "0").split()
        self.status = int(status[0])
        self.reason = " ".join(status[1:])

    def check(self):
        """The rules for every answer that is no stream."""
        assert self.ended == COMPLETE
        assert self.reason
        if self.status != 204:
            assert int(self.headers["content-length"]) == len(self.body)
        if self.body:
            assert self.headers["content-type"]
        return self


class Wire:
    """One connection from a web server."""

    def __init__(self, path, timeout=10):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(timeout)
        self.sock.connect(path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)
        return self

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                return None
            data += more
        return data

    def record(self):
        """(type, id, content), or None at the end."""
        head = self.read(8)
        if head is None:
            return None
        version, kind, id, n, padding, _ = struct.unpack(">BBHHBB", head)
        assert version == 1
        content = self.read(n + padding) if n + padding else b""
        return None if content is None else (kind, id, content[:n])

    def answer(self, id=1):
        text = b""
        while True:
            one = self.record()
            if one is None:
                return Answer(text, None)
            kind, got, content = one
            assert got == id, one
            if kind == STDOUT:
                text += content
            else:
                assert kind == END, one
                return Answer(text, content[4])

    def ask(self, *args, **kw):
        return self.send(whole(*args, **kw)).answer(kw.get("id", 1))

    def at_end(self):
        """Whether the responder has closed (waits for it)."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


class Stream(Wire):
    """GET /sse."""

    def __init__(self, path, uri="/sse", flags=0, **more):
        super().__init__(path)
        self.send(whole("GET", uri, flags=flags, **more))
        self.text = b""
        self.ended = None
        self.until(b"\r\n\r\n")
        self.head, _, self.text = self.text.partition(b"\r\n\r\n")
        self.url = self.event().decode().partition("data: ")[2]

    def until(self, mark):
        while mark not in self.text:
            one = self.record()
            assert one is not None, self.text
            kind, _, content = one
            if kind == END:
                self.ended = content[4]
                assert mark in self.text, self.text
            self.text += content

    def event(self):
        """Takes the text up to the end of the next event or comment."""
        self.until(b"\n\n")
        one, _, self.text = self.text.partition(b"\n\n")
        return one

    def message(self):
        while True:
            one = self.event()
            if one.startswith(b"event: message\n"):
                return one.partition(b"data: ")[2]


class Responder:
    """One process with a socket of its own, as `--listen` gives it."""

    def __init__(self, url="http://127.0.0.1:9/eval", limit=None, **settings):
        self.folder = make_folder()
        self.path = os.path.join(self.folder, "r.sock")
        given = {"snekbox_url": url, "log_level": "debug",
                 "run_dir": os.path.join(self.folder, "run"),
                 "state_name": os.path.basename(self.folder)}
        given.update(settings)
        conf = os.path.join(self.folder, "settings.conf")
        write_settings(conf, given)
        program = shutil.copy(PROGRAM, self.folder)
        argv = [program, "--config", conf, "--listen", self.path]
        if limit is not None:
            argv = ["prlimit", f"--nofile={limit}:{limit}", "--", *argv]
        self.child = Child("responder", argv, self.folder)
        poll(self.ready, 20, "the responder listens")
        self.pid = self.child.pid

    def open(self):
        """A stream whose session is initialized."""
        stream = Stream(self.path)
        hello = {"jsonrpc": "2.0", "id": "hello", "method": "initialize",
                 "params": {"protocolVersion": "2024-11-05",
                            "capabilities": {},
                            "clientInfo": {"name": "t", "version": "1"}}}
        assert self.ask("POST", stream.url,
                        json.dumps(hello).encode()).status == 202
        assert b'"result"' in stream.message()
        return stream

    def ready(self):
        assert self.child.alive(), self.child.log()
        return "app.started" in self.child.log()

    def wire(self, **kw):
        return Wire(self.path, **kw)

    def ask(self, *args, **kw):
        with self.wire() as wire:
            return wire.ask(*args, **kw)

    def sound(self):
        """It lives and answers."""
        assert self.child.alive(), self.child.log()
        assert self.ask("GET", "/none").check().status == 404

    def stop(self):
        code = self.child.stop()
        assert code == 0, self.child.log()
        found = [name for name in os.listdir(self.folder)
                 if name.startswith("sanitizer")]
        assert not found, [open(os.path.join(self.folder, name)).read()
                           for name in found]
        shutil.rmtree(self.folder, ignore_errors=True)


def refuses(argv):
    """Runs the program where it must not start: its exit code and words."""
    as_user, _ = run_as()
    folder = make_folder()
    program = shutil.copy(PROGRAM, folder)
    done = subprocess.run([program, *argv], capture_output=True, text=True,
                          timeout=20, cwd=folder, stdin=subprocess.DEVNULL,
                          env=clean_environment(folder, None), **as_user)
    shutil.rmtree(folder)
    return done.returncode, done.stderr
