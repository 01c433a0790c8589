"""Streamable HTTP on bare sockets: sessions, event streams with ids, and the
stateless revision."""

import json
import re
import time

from client import (Connection, Deadline, Event, Result, Stream, build_head,
                    request)

TOOL = "execute_python_code"
BOTH = "application/json, text/event-stream"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"


class Events(Stream):
    """An event stream that answers any method; events have an id."""

    def __init__(self, address, method, path, body=None, headers=None,
                 timeout=10):
        self.conn = Connection(address, timeout)
        fields = {"Accept": BOTH, "Connection": "close"}
        if body is not None:
            fields.update({"Content-Type": "application/json",
                           "Content-Length": str(len(body))})
        fields.update(headers or {})
        self.conn.send(build_head(address, method, path, fields)
                       + (body or b""))
        deadline = Deadline(timeout)
        self.status, self.reason, self.headers = self.conn.head(deadline)
        self.chunked = "chunked" in self.headers.get("transfer-encoding", "")
        self.text = self.raw = b""
        self.comments = []
        self.clean_end = False

    @property
    def is_stream(self):
        return self.headers.get("content-type") == "text/event-stream"

    def body(self, timeout=20):
        return self.conn.body(self.headers, Deadline(timeout))

    def _take_event(self):
        while True:
            end = re.search(rb"\n\n", self.text)
            if end is None:
                return None
            block, self.text = self.text[:end.start()], self.text[end.end():]
            event, data = Event("message", ""), []
            event.id = None
            for line in block.split(b"\n"):
                key, _, value = line.partition(b":")
                value = value.removeprefix(b" ").decode()
                if not key and line:
                    self.comments.append(time.monotonic())
                elif key == b"event":
                    event.name = value
                elif key == b"id":
                    event.id = value
                elif key == b"data":
                    data.append(value)
            if data:
                event.data = "\n".join(data)
                return event

    def rest(self, timeout=20):
        """All events to the end, which must be a clean one."""
        events, clean = self.wait_end(timeout)
        assert clean or "content-length" in self.headers, "cut off"
        return events


def messages(events):
    return [json.loads(event.data) for event in events if event.data]


def encode(message):
    if isinstance(message, bytes):
        return message
    if isinstance(message, str):
        return message.encode()
    return json.dumps(message).encode()


class Client:
    """A session of the 2025 revisions; every request is a connection of its
    own, so any process may get it."""

    def __init__(self, server, version="2025-11-25", path="/mcp"):
        self.server = server
        self.version = version
        self.path = server.prefix + path
        self.id = 0
        self.session_id = None
        answer = self.post({
            "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": version, "capabilities": {},
                "clientInfo": {"name": "tests", "version": "1"}}})
        assert answer.status == 200, answer
        self.info = answer.json()["result"]
        self.version = self.info["protocolVersion"]
        self.session_id = answer.headers["mcp-session-id"]
        answer = self.post({"jsonrpc": "2.0",
                            "method": "notifications/initialized"})
        assert (answer.status, answer.body) == (202, b""), answer

    def headers(self, more=None):
        fields = {"Accept": BOTH}
        if self.session_id is not None:
            fields["Mcp-Session-Id"] = self.session_id
            fields["MCP-Protocol-Version"] = self.version
        fields.update(more or {})
        return fields

    def post(self, message, headers=None, **kw):
        return request(self.server.address, "POST", self.path,
                       encode(message), self.headers(headers), **kw)

    def do(self, method, headers=None):
        return request(self.server.address, method, self.path,
                       headers=self.headers(headers))

    def request(self, method, params=None, id=None):
        self.id += 1
        message = {"jsonrpc": "2.0", "id": self.id if id is None else id,
                   "method": method}
        if params is not None:
            message["params"] = params
        return self.post(message)

    def open(self, message, headers=None):
        return Events(self.server.address, "POST", self.path, encode(message),
                      self.headers(headers))

    def get(self, last_event_id=None, headers=None):
        more = {"Accept": "text/event-stream", **(headers or {})}
        if last_event_id is not None:
            more["Last-Event-ID"] = last_event_id
        return Events(self.server.address, "GET", self.path, None,
                      self.headers(more))

    def start(self, code, id=None, token=None):
        """A tools/call; its open stream."""
        self.id += 1
        params = {"name": TOOL, "arguments": {"python_code": code}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.open({"jsonrpc": "2.0", "method": "tools/call",
                          "id": self.id if id is None else id,
                          "params": params})

    def call(self, code):
        with self.start(code) as stream:
            return Result(messages(stream.rest(30))[-1], None)

    def cancel(self, id):
        answer = self.post({"jsonrpc": "2.0",
                            "method": "notifications/cancelled",
                            "params": {"requestId": id}})
        assert answer.status == 202


def envelope(version=MODERN, **more):
    return {META + "protocolVersion": version,
            META + "clientInfo": {"name": "tests", "version": "1"},
            META + "clientCapabilities": {}, **more}


class Stateless:
    """Requests of 2026-07-28."""

    def __init__(self, server):
        self.server = server
        self.path = server.prefix + "/mcp"

    def message(self, method, params=None, id=1, meta=None):
        params = dict(params or {})
        params["_meta"] = envelope() if meta is None else meta
        return {"jsonrpc": "2.0", "id": id, "method": method,
                "params": params}

    def headers(self, message, more=None):
        fields = {"Accept": BOTH, "MCP-Protocol-Version": MODERN,
                  "Mcp-Method": message.get("method")}
        params = message.get("params") or {}
        name = params.get("name", params.get("uri"))
        if isinstance(name, str):
            fields["Mcp-Name"] = name
        fields.update(more or {})
        return fields

    def send(self, message, headers=None):
        return request(self.server.address, "POST", self.path,
                       encode(message), self.headers(message, headers))

    def request(self, method, params=None, headers=None, **kw):
        return self.send(self.message(method, params, **kw), headers)

    def open(self, method, params=None, headers=None, **kw):
        message = self.message(method, params, **kw)
        return Events(self.server.address, "POST", self.path, encode(message),
                      self.headers(message, headers))

    def start(self, code, **kw):
        return self.open("tools/call", {
            "name": TOOL, "arguments": {"python_code": code}}, **kw)
