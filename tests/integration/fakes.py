"""Sandboxes that misbehave, and a gate in front of one that behaves."""

import json
import os
import selectors
import socket
import threading


def listen(port=0):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(128)
    return sock


def read_request(conn):
    """Reads one HTTP request; returns (head, body)."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = conn.recv(65536)
        if not part:
            raise ConnectionError
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == b"content-length":
            length = int(value)
        if key.lower() == b"expect":
            conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(body) < length:
        part = conn.recv(65536)
        if not part:
            raise ConnectionError
        body += part
    return head, body


def http_answer(body, status="200 OK", kind="application/json"):
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    return (f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: "
            f"{len(body)}\r\nConnection: close\r\n\r\n").encode() + body


class FakeSandbox:
    """Answers every POST /eval with what answer(head, body) gives: bytes, or
    None for closing without a word. Keeps the requests."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.sock = listen()
        self.url = "http://127.0.0.1:%d/eval" % self.sock.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(conn,),
                             daemon=True).start()

    def _one(self, conn):
        with conn:
            try:
                head, body = read_request(conn)
                self.requests.append((head, body))
                answer = self.answer(head, body)
                if answer:
                    conn.sendall(answer)
            except OSError:
                pass

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()
        self.thread.join(5)


class Gate:
    """A port that leads to a sandbox: open, shut (refuses) or silent (accepts
    and says nothing). So a sandbox can be down without being stopped."""

    def __init__(self, url):
        self.target = url.split(",")[0]
        self.sock = listen()
        self.port = self.sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/eval"
        self.silent = False
        self.passed = 0         # connections led to the sandbox
        self.held = []
        self.lock = threading.Lock()
        self._spawn()

    def _spawn(self):
        self.thread = threading.Thread(target=self._serve, args=(self.sock,),
                                       daemon=True)
        self.thread.start()

    def _serve(self, sock):
        while True:
            try:
                conn, _ = sock.accept()
            except OSError:
                return
            with self.lock:
                self.held.append(conn)
                if self.silent:
                    continue
                self.passed += 1
            threading.Thread(target=self._lead, args=(conn,),
                             daemon=True).start()

    def _connect(self):
        if self.target.startswith("unix:"):
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target[len("unix:"):])
            return far
        host, _, rest = self.target.split("//", 1)[1].partition(":")
        return socket.create_connection((host, int(rest.split("/")[0])))

    def _lead(self, near):
        with near, self._connect() as far, \
                selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in selector.select():
                    try:
                        data = key.fileobj.recv(262144)
                        if not data:
                            return
                        key.data.sendall(data)
                    except OSError:
                        return

    def shut(self):
        """Refuses from now on."""
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join(5)

    def open(self):
        """Leads to the sandbox again, on the same port."""
        self.silent = False
        if self.sock.fileno() < 0:
            self.sock = listen(self.port)
            self._spawn()

    def close(self):
        if self.sock.fileno() >= 0:
            self.shut()
        with self.lock:
            for conn in self.held:
                try:
                    conn.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                conn.close()


def dead_url():
    """An address where nothing listens."""
    sock = listen()
    port = sock.getsockname()[1]
    sock.close()
    return f"http://127.0.0.1:{port}/eval"


def eval_answer(stdout="", returncode=0, files=()):
    return http_answer({"stdout": stdout, "returncode": returncode,
                        "files": list(files)})


def program_of(body):
    """The request that the server sent, decoded."""
    return json.loads(body.decode("utf-8"))


def exists_elsewhere(name):
    """Whether a name is left in shared memory."""
    return any(name in entry for entry in os.listdir("/dev/shm"))
