"""Runs one program over MCP's HTTP+SSE transport and shows what comes back:
    first-result.py http://127.0.0.1:18080/sse PROGRAM.py FOLDER
Nothing but the standard library, so that it also shows how little a client
needs. Figures are saved in FOLDER. Exit code 3: it ran into the time limit
each time."""

import base64
import http.client
import json
import os
import sys
import urllib.parse

ATTEMPTS = 3
TOO_SLOW = 3


class Client:
    """One session: an event stream to read from, posts to write with."""

    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url)
        self.stream = self.connect()
        self.stream.request("GET", self.address.path,
                            headers={"Accept": "text/event-stream"})
        self.events = self.stream.getresponse()
        if self.events.status != 200:
            sys.exit(f"GET {url}: {self.events.status} "
                     f"{self.events.read(500).decode()}")
        event, self.endpoint = self.read_event()
        assert event == "endpoint", event
        self.last_id = 0

    def connect(self):
        return http.client.HTTPConnection(self.address.hostname,
                                          self.address.port, timeout=60)

    def read_event(self):
        """The next event and its data; comments (keep-alives) are skipped."""
        event, data = "message", []
        while True:
            line = self.events.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data.append(line[6:])
            elif not line and data:
                return event, "\n".join(data)

    def post(self, message):
        connection = self.connect()
        connection.request("POST", self.endpoint, json.dumps(message),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        if response.status != 202:
            sys.exit(f"POST: {response.status} {body.decode()}")
        connection.close()

    def call(self, method, **params):
        self.last_id += 1
        self.post({"jsonrpc": "2.0", "id": self.last_id, "method": method,
                   "params": params})
        while True:
            message = json.loads(self.read_event()[1])
            if message.get("id") == self.last_id:
                break
        if "error" in message:
            sys.exit(f"{method}: {message['error']}")
        return message["result"]


def main(url, program, folder):
    client = Client(url)
    server = client.call("initialize", protocolVersion="2025-11-25",
                         capabilities={},
                         clientInfo={"name": "first-result", "version": "1"})
    print(f"initialize: {server['serverInfo']['name']} "
          f"{server['serverInfo']['version']}, "
          f"MCP {server['protocolVersion']}")
    client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    tools = client.call("tools/list")["tools"]
    print("tools/list:", ", ".join(tool["name"] for tool in tools))

    with open(program, encoding="utf-8") as file:
        code = file.read()
    for _ in range(ATTEMPTS):
        result = client.call("tools/call", name="execute_python_code",
                             arguments={"python_code": code})
        answer = json.loads(result["content"][0]["text"])
        print(f"tools/call: {answer['status']} "
              f"in {answer.get('duration_ms', '?')} ms", flush=True)
        if answer.get("error_type") != "timeout":
            break
        print(answer["error_message"], flush=True)
    else:
        sys.exit(TOO_SLOW)
    print(answer.get("stdout", ""), end="", flush=True)
    if result.get("isError"):
        sys.exit(f"{answer.get('error_message', 'the program failed')}\n"
                 f"{answer.get('details', '')}")

    images = [c for c in result["content"] if c["type"] == "image"]
    if not images:
        sys.exit("no figure came back")
    for number, image in enumerate(images, 1):
        kind = image["mimeType"].rsplit("/", 1)[-1]
        path = os.path.join(folder, f"figure-{number}.{kind}")
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))
        print(f"figure saved: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
