"""HTTP and HTTP+SSE on bare sockets, so that every byte can be judged."""

import base64
import json
import re
import socket
import struct
import time
import zlib

from jsonschema import Draft202012Validator

JSON_TYPE = "application/json"


class Deadline:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self, what="an answer"):
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no {what} in time")
        return left


class Response:
    """A whole answer: status, reason, headers (lower case) and body."""

    def __init__(self, status, reason, headers, body):
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body.decode("utf-8"))

    def __repr__(self):
        return f"<{self.status} {self.reason} {self.headers} {self.body!r}>"


def build_head(address, method, path, headers):
    """The request's head; a header whose value is None is left out."""
    fields = {"Host": "%s:%d" % address}
    fields.update(headers)
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{k}: {v}" for k, v in fields.items() if v is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Connection:
    """One connection, with a buffer of what has come and is not yet read."""

    def __init__(self, address, timeout=10):
        self.sock = socket.create_connection(address, timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.ended = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data, timeout=10):
        self.sock.settimeout(timeout)
        self.sock.sendall(data)

    def fill(self, deadline, what="an answer"):
        """Reads once; False at the end of the stream."""
        self.sock.settimeout(deadline.left(what))
        try:
            data = self.sock.recv(262144)
        except ConnectionResetError:
            data = b""
        except socket.timeout:
            raise TimeoutError(f"no {what} in time") from None
        self.ended = self.ended or not data
        self.buffer += data
        return bool(data)

    def until(self, mark, deadline, what):
        while mark not in self.buffer:
            if not self.fill(deadline, what):
                raise ConnectionError(f"closed before {what} was whole: "
                                      f"{self.buffer[:200]!r}")
        part, self.buffer = self.buffer.split(mark, 1)
        return part

    def exactly(self, n, deadline):
        while len(self.buffer) < n:
            if not self.fill(deadline, "body"):
                raise ConnectionError("closed inside a body")
        part, self.buffer = self.buffer[:n], self.buffer[n:]
        return part

    def head(self, deadline):
        """Reads (status, reason, headers), 100 Continue passed over."""
        while True:
            lines = self.until(b"\r\n\r\n", deadline, "head").split(b"\r\n")
            _, status, *reason = lines[0].decode("latin-1").split(" ", 2)
            if status != "100":
                break
        headers = {}
        for line in lines[1:]:
            key, value = line.decode("latin-1").split(":", 1)
            headers[key.strip().lower()] = value.strip()
        return int(status), "".join(reason), headers

    def body(self, headers, deadline):
        if headers.get("transfer-encoding", "").lower() == "chunked":
            out = b""
            while True:
                n = int(self.until(b"\r\n", deadline, "chunk"), 16)
                out += self.exactly(n, deadline)
                self.exactly(2, deadline)
                if n == 0:
                    return out
        if "content-length" in headers:
            return self.exactly(int(headers["content-length"]), deadline)
        while self.fill(deadline, "end of the body"):
            pass
        out, self.buffer = self.buffer, b""
        return out


def request(address, method, path, body=None, headers=None, timeout=15):
    """One request on a new connection; body may be bytes or str."""
    if isinstance(body, str):
        body = body.encode("utf-8")
    fields = {"Connection": "close"}
    if body is not None:
        fields.update({"Content-Type": JSON_TYPE,
                       "Content-Length": str(len(body))})
    fields.update(headers or {})
    deadline = Deadline(timeout)
    with Connection(address, timeout) as conn:
        try:
            conn.send(build_head(address, method, path, fields)
                      + (body or b""), timeout)
        except (BrokenPipeError, ConnectionResetError):
            pass    # refused while we were sending: the answer is there
        status, reason, got = conn.head(deadline)
        if method == "HEAD" or status in (204, 304):
            return Response(status, reason, got, b"")
        return Response(status, reason, got, conn.body(got, deadline))


class Event:
    def __init__(self, name, data):
        self.name = name
        self.data = data

    def __repr__(self):
        return f"<{self.name}: {self.data[:300]}>"


class StreamEnded(Exception):
    """The stream has ended; clean tells whether HTTP said so."""

    def __init__(self, clean):
        super().__init__(f"stream ended, {'cleanly' if clean else 'cut off'}")
        self.clean = clean


class Stream:
    """An open event stream."""

    def __init__(self, address, path, headers=None, timeout=10):
        self.conn = Connection(address, timeout)
        fields = {"Accept": "text/event-stream"}
        fields.update(headers or {})
        self.conn.send(build_head(address, "GET", path, fields))
        deadline = Deadline(timeout)
        self.status, self.reason, self.headers = self.conn.head(deadline)
        self.chunked = "chunked" in self.headers.get("transfer-encoding", "")
        self.text = b""
        self.comments = []      # times at which a comment came
        self.clean_end = False
        self.raw = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.conn.close()

    def reset(self):
        """Ends the connection with RST, as a killed client may."""
        self.conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                  struct.pack("ii", 1, 0))
        self.conn.close()

    def _take_chunks(self):
        """Moves whole chunks from the connection's buffer to the text."""
        conn = self.conn
        while not self.clean_end:
            if not self.chunked:
                part, conn.buffer = conn.buffer, b""
                self._add(part)
                return
            size, mark, rest = conn.buffer.partition(b"\r\n")
            if not mark or len(rest) < int(size, 16) + 2:
                return
            n = int(size, 16)
            conn.buffer = rest[n + 2:]
            self._add(rest[:n])
            self.clean_end = n == 0

    def _add(self, part):
        self.text += part
        self.raw += part

    def _take_event(self):
        """The next event out of the text; None when it is not whole."""
        while True:
            end = re.search(rb"\r\n\r\n|\n\n|\r\r", self.text)
            if end is None:
                return None
            block, self.text = self.text[:end.start()], self.text[end.end():]
            name, data = "message", []
            for line in re.split(rb"\r\n|\n|\r", block):
                key, _, value = line.partition(b":")
                value = value[1:] if value.startswith(b" ") else value
                if not key and line:
                    self.comments.append(time.monotonic())
                elif key == b"event":
                    name = value.decode("utf-8")
                elif key == b"data":
                    data.append(value.decode("utf-8"))
            if data:
                return Event(name, "\n".join(data))

    def next_event(self, timeout=10, what="event"):
        deadline = Deadline(timeout)
        while True:
            self._take_chunks()
            event = self._take_event()
            if event is not None:
                return event
            if self.clean_end or self.conn.ended:
                raise StreamEnded(self.clean_end)
            self.conn.fill(deadline, what)

    def wait_comment(self, timeout):
        """Waits for one more comment; any event on the way is an error."""
        have, deadline = len(self.comments), Deadline(timeout)
        while len(self.comments) == have:
            self._take_chunks()
            event = self._take_event()
            assert event is None, event
            if len(self.comments) > have:
                break
            if self.clean_end or self.conn.ended:
                raise StreamEnded(self.clean_end)
            self.conn.fill(deadline, "keep-alive comment")

    def wait_end(self, timeout=10):
        """Reads to the end; returns (events that still came, clean)."""
        events, deadline = [], Deadline(timeout)
        while True:
            try:
                events.append(self.next_event(deadline.left("end")))
            except StreamEnded as end:
                return events, end.clean


class Result:
    """What tools/call gave, checked for what holds of every result."""

    def __init__(self, message, schema):
        assert "result" in message, message
        self.message = message
        result = message["result"]
        self.content = result["content"]
        self.is_error = result.get("isError", False)
        assert self.content[0]["type"] == "text", self.content[0]
        self.text = self.content[0]["text"]
        self.structured = result.get("structuredContent")
        if schema is not None:
            assert self.structured is not None, "structuredContent is absent"
            Draft202012Validator(schema).validate(self.structured)
            assert json.loads(self.text) == self.structured
        else:
            self.structured = json.loads(self.text)
        wanted = "error" if self.is_error else "success"
        assert self.structured["status"] == wanted, self.structured

    def __getitem__(self, key):
        return self.structured.get(key)

    def __repr__(self):
        shown = json.dumps(self.structured, ensure_ascii=False)[:2000]
        kinds = [block["type"] for block in self.content]
        return f"<isError={self.is_error} {kinds} {shown}>"

    @property
    def stdout(self):
        return self.structured.get("stdout") or ""

    @property
    def said(self):
        """All that the result tells in words, output included."""
        keys = ("stdout", "error_message", "details")
        return "\n".join(str(self[k]) for k in keys if self[k])

    @property
    def images(self):
        return [base64.b64decode(block["data"], validate=True)
                for block in self.content if block["type"] == "image"]

    @property
    def file_names(self):
        return [entry["path"] for entry in self["files"] or []]


def png_size(data):
    """(width, height) of a PNG that decodes whole; anything else raises."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:16]
    at, pixels, size = 8, b"", None
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        (crc,) = struct.unpack(">I", data[at + 8 + n:at + 12 + n])
        assert crc == zlib.crc32(kind + body), kind
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        elif kind == b"IDAT":
            pixels += body
        at += 12 + n
    assert zlib.decompress(pixels)
    return size


class Session:
    """An MCP client on HTTP+SSE. For one thread."""

    def __init__(self, server, version="2025-11-25", headers=None,
                 initialize=True):
        self.server = server
        self.version = version
        self.stream = Stream(server.address, server.prefix + "/sse", headers)
        assert self.stream.status == 200, self.stream.status
        event = self.stream.next_event(what="endpoint event")
        assert event.name == "endpoint", event
        self.path = event.data
        self.next_id = 1
        self.others = []        # messages that were not the awaited answer
        self.info = self.initialize() if initialize else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()

    @property
    def session_id(self):
        return self.path.split("session_id=", 1)[1]

    def post(self, body, headers=None, timeout=15):
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body, ensure_ascii=False)
        return request(self.server.address, "POST", self.path, body, headers,
                       timeout)

    def send(self, method, params=None, id=None, **more):
        """Posts a request (a notification where id is None): 202, empty."""
        message = {"jsonrpc": "2.0", **more, "method": method}
        if id is not None:
            message["id"] = id
        if params is not None:
            message["params"] = params
        answer = self.post(message)
        assert (answer.status, answer.body) == (202, b""), answer

    def next_message(self, timeout=10):
        event = self.stream.next_event(timeout, "message")
        assert event.name == "message", event
        message = json.loads(event.data)
        assert message["jsonrpc"] == "2.0", message
        message_raw = event.data
        return message, message_raw

    def wait(self, id, timeout=10):
        """The answer with this id (type and all); keeps what else comes."""
        deadline = Deadline(timeout)
        while True:
            message, _ = self.next_message(deadline.left(f"answer to {id!r}"))
            if "method" not in message and message.get("id") == id \
                    and type(message["id"]) is type(id):
                assert ("result" in message) != ("error" in message), message
                return message
            self.others.append(message)

    def new_id(self):
        self.next_id += 1
        return self.next_id

    def request(self, method, params=None, timeout=10, id=None):
        id = self.new_id() if id is None else id
        self.send(method, params, id)
        return self.wait(id, timeout)

    def initialize(self):
        info = self.request("initialize", {
            "protocolVersion": self.version, "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"}}, id=0)
        self.send("notifications/initialized")
        return info["result"]

    def schema(self):
        """The listed output schema; None before 2025-06-18."""
        if self.version < "2025-06-18":
            return None
        if self.server.schema is None:
            tools = self.request("tools/list")["result"]["tools"]
            self.server.schema = tools[0]["outputSchema"]
        return self.server.schema

    def start(self, code, id=None, meta=None, **arguments):
        """Begins a call and returns its id."""
        id = self.new_id() if id is None else id
        params = {"name": "execute_python_code",
                  "arguments": {"python_code": code, **arguments}}
        if meta is not None:
            params["_meta"] = meta
        self.send("tools/call", params, id)
        return id

    def finish(self, id, timeout=30):
        return Result(self.wait(id, timeout), self.schema())

    def call(self, code, timeout=30, **arguments):
        self.schema()
        return self.finish(self.start(code, **arguments), timeout)

    def notifications(self, method):
        return [m["params"] for m in self.others if m.get("method") == method]
