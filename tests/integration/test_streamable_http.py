"""Streamable HTTP, 2025-03-26 to 2025-11-25."""

import json
import os
import re
import signal
import time

import pytest

from client import StreamEnded
from harness import poll
from streamable import TOOL, BOTH, Client, messages

VERSIONS = ["2025-03-26", "2025-06-18", "2025-11-25"]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def client(server):
    return Client(server)


def init(version="2025-11-25", id=0):
    return json.dumps({
        "jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"}}})


def post(server, body, headers=None, path="/mcp"):
    fields = {"Accept": BOTH}
    fields.update(headers or {})
    return server.request("POST", path, body, fields)


# ---- lifecycle -----------------------------------------------------------

@pytest.mark.parametrize("version", ["2024-11-05", *VERSIONS])
def test_http_negotiate_known(server, version):
    assert Client(server, version).info["protocolVersion"] == version


@pytest.mark.parametrize("version", ["1999-01-01", "2199-12-31", "",
                                     "2026-07-28"])
def test_http_negotiate_unknown(server, version):
    assert Client(server, version).info["protocolVersion"] == "2025-11-25"


def test_http_initialize_without_version_makes_no_session(server):
    answer = post(server, '{"jsonrpc":"2.0","id":1,"method":"initialize",'
                          '"params":{}}')
    assert answer.json()["error"]["code"] == -32602
    assert "mcp-session-id" not in answer.headers


def test_http_initialize_with_version_header(server):
    answer = post(server, init(), {"MCP-Protocol-Version": "2025-11-25"})
    assert answer.status == 200


def test_http_session_entropy_and_form(server):
    seen = {Client(server).session_id for _ in range(8)}
    assert len({one[:32] for one in seen}) == 8
    assert all(re.fullmatch("[!-~]{32,}", one) for one in seen)


def test_http_second_initialize_on_session(client):
    answer = client.post(init())
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32600)


def test_http_no_redirect_on_trailing_slash(server):
    assert Client(server, path="/mcp/").request("ping").status == 200


def test_http_below_a_mount(sub_server):
    assert Client(sub_server).call("print(1)").stdout == "1\n"


def test_T02_any_process_serves_a_session(client):
    for _ in range(20):
        answer = client.request("tools/list")
        assert answer.status == 200
        assert answer.json()["result"]["tools"][0]["name"] == TOOL


def test_http_no_session_400(server):
    answer = post(server, json.dumps(PING))
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize("id", ["x", "gone-123", "0" * 48, "a" * 500])
def test_T01_http_unknown_session_404(server, id):
    headers = {"Mcp-Session-Id": id, "MCP-Protocol-Version": "2025-06-18"}
    answer = post(server, json.dumps(PING), headers)
    assert answer.status == 404
    assert answer.json()["error"]["message"]
    assert answer.json()["id"] == 1
    for method in ("GET", "DELETE"):
        answer = server.request(method, "/mcp", headers={
            "Accept": "text/event-stream", **headers})
        assert answer.status == 404


def test_http_sse_session_is_no_streamable_one(server, session):
    answer = post(server, json.dumps(PING),
                  {"Mcp-Session-Id": session.session_id})
    assert answer.status == 404


def test_T12_delete_session(client):
    assert 200 <= client.do("DELETE").status < 300
    assert client.do("DELETE").status == 404
    assert client.request("ping").status == 404


def test_delete_ends_the_call_under_way(client):
    with client.start("import time; time.sleep(5)") as stream:
        assert 200 <= client.do("DELETE").status < 300
        answer = messages(stream.rest(4))[-1]
        assert answer["error"]["code"] == -32603


def test_session_idle_ends_a_session(start_server):
    one = start_server(processes=2, session_idle="1s")
    client = Client(one)
    busy = Client(one)
    with busy.get() as stream:
        stream.wait_comment(3)
        poll(lambda: client_gone(client), 40, "idle session ends", 1)
        assert busy.request("ping").status == 200, "its stream keeps it"


def client_gone(client):
    """Whether the session is unknown; asked without a message for it."""
    with client.get("0" * 16 + "-1") as stream:
        return stream.status == 404


# ---- JSON-RPC ------------------------------------------------------------

@pytest.mark.parametrize("id", ['0', '-1', '9007199254740991', '""', '"0"',
                                '"1e3"', r'"é\"\\"', '"日本"'])
def test_http_id_echo(client, id):
    body = '{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id
    answer = client.post(body)
    assert json.loads(id) == answer.json()["id"]
    assert type(json.loads(id)) is type(answer.json()["id"])
    assert answer.json()["result"] == {}


@pytest.mark.parametrize("id", ["null", "{}", "[]", "true", "1.5"])
def test_http_id_null_or_object_rejected(client, id):
    answer = client.post('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id)
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize("body", [
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","method":"notifications/no_such"}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled",'
    '"params":{"requestId":"unknown"}}',
    '{"jsonrpc":"2.0","id":7,"result":{}}',
    '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}'])
def test_T08_http_notification_202_empty(client, body):
    answer = client.post(body)
    assert (answer.status, answer.body) == (202, b"")
    assert "content-type" not in answer.headers


@pytest.mark.parametrize("body,code", [
    ('', -32700), ('{', -32700), ('{"jsonrpc":', -32700), ('[1,', -32700),
    ('{"jsonrpc":"2.0","id":1,"method":"ping",}', -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
    ('{"id":1,"method":"ping"}', -32600), ('1', -32600), ('{}', -32600),
    ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":1}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":2}', -32600)])
def test_T22_http_parse_error_and_invalid_request(client, body, code):
    answer = client.post(body)
    assert (answer.status, answer.json()["error"]["code"]) == (400, code)
    if code == -32700:
        assert "id" not in answer.json()


def test_parse_error_has_a_null_id_before_2025_11_25(server):
    answer = Client(server, "2025-06-18").post("{")
    assert answer.json()["id"] is None


def test_http_params_wrong_type(client):
    answer = client.post('{"jsonrpc":"2.0","id":1,"method":"tools/call",'
                         '"params":[]}')
    assert answer.json()["error"]["code"] in (-32600, -32602)


def test_http_unknown_method_http_200(client):
    answer = client.request("no/such")
    assert (answer.status, answer.json()["error"]["code"]) == (200, -32601)


def test_undeclared_capability_method(client):
    for method in ("prompts/list", "completion/complete", "server/discover"):
        assert client.request(method).json()["error"]["code"] == -32601


def test_http_unknown_tool_and_call_without_name(client):
    for params in ({"name": "nope", "arguments": {}}, {"arguments": {}}):
        answer = client.request("tools/call", params)
        assert answer.headers["content-type"] == "application/json"
        assert (answer.status, answer.json()["error"]["code"]) == (200, -32602)


def test_http_invalid_cursor(client):
    answer = client.request("tools/list", {"cursor": "x"})
    assert answer.json()["error"]["code"] == -32602


def test_http_tasks_ignored_when_undeclared(client):
    answer = client.post(json.dumps({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": TOOL, "arguments": {"python_code": "print(1)"},
            "task": {"ttl": 60000}}}), {"Accept": "application/json"})
    assert answer.json()["result"]["structuredContent"]["stdout"] == "1\n"


def test_http_no_null_fields(client):
    for answer in (client.request("tools/list"), client.request("ping")):
        assert b":null" not in answer.body


BATCH = ('[{"jsonrpc":"2.0","id":"a","method":"ping"},'
         '{"jsonrpc":"2.0","method":"notifications/x"},'
         '{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":'
         '"execute_python_code","arguments":{"python_code":"print(3)"}}},'
         '{"id":"c"},{"jsonrpc":"2.0","id":"d","method":"ping"}]')


def test_http_batch_2025_03_26(server):
    answer = Client(server, "2025-03-26").post(BATCH)
    assert answer.status == 200
    found = {one["id"]: one for one in answer.json()}
    assert set(found) == {"a", "b", "c", "d"}
    assert found["a"]["result"] == found["d"]["result"] == {}
    assert "3" in found["b"]["result"]["content"][0]["text"]
    assert found["c"]["error"]["code"] == -32600


def test_http_batch_notifications_only_202(server):
    one = '{"jsonrpc":"2.0","method":"notifications/x"}'
    answer = Client(server, "2025-03-26").post(f"[{one},{one}]")
    assert (answer.status, answer.body) == (202, b"")


def test_http_batch_empty_400(server):
    answer = Client(server, "2025-03-26").post("[]")
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_http_batch_rejected_since_2025_06_18(server, version):
    answer = Client(server, version).post(BATCH)
    assert (answer.status, answer.json()["error"]["code"]) == (400, -32600)


# ---- headers -------------------------------------------------------------

@pytest.mark.parametrize("accept", [
    None, "*/*", "application/json", "text/event-stream",
    "Application/JSON;q=0.5, text/*", BOTH])
def test_T09_http_accept_lenient(client, accept):
    for method, params in (("ping", {}), ("tools/call", {
            "name": TOOL, "arguments": {"python_code": "print(1)"}})):
        answer = client.post({"jsonrpc": "2.0", "id": 1, "method": method,
                              "params": params}, {"Accept": accept})
        assert answer.status == 200
        stream = answer.headers["content-type"] == "text/event-stream"
        assert stream == (method == "tools/call" and "text" in (accept or ""))


@pytest.mark.parametrize("accept", ["text/html", "image/png",
                                    "application/json;q=0"])
def test_http_accept_406(client, accept):
    assert client.post(PING, {"Accept": accept}).status == 406


@pytest.mark.parametrize("kind,status", [
    ("application/json; charset=utf-8", 200), ("Application/JSON", 200),
    ("text/plain", 415)])
def test_T10_http_content_type(client, kind, status):
    assert client.post(PING, {"Content-Type": kind}).status == status


@pytest.mark.parametrize("value", ["1999-01-01", "bogus", "2199-01-01"])
def test_http_protocol_version_header_invalid_400(client, value):
    headers = {"MCP-Protocol-Version": value}
    assert client.post(PING, headers).status == 400
    assert client.do("DELETE", headers).status == 400


def test_http_protocol_version_header_absent_ok(client):
    assert client.post(PING, {"MCP-Protocol-Version": None}).status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD"])
def test_http_methods_405(client, method):
    answer = client.do(method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, POST, DELETE, OPTIONS"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("accept", ["text/event-stream", "text/html"])
def test_T11_http_get_without_session_405(server, method, accept):
    answer = server.request(method, "/mcp", headers={"Accept": accept})
    assert answer.status == 405
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_http_origin_403(client, method):
    for origin in ("http://evil.example", "null", "http://localhost.evil.ex"):
        body = json.dumps(PING) if method == "POST" else None
        answer = client.server.request(
            method, "/mcp", body, client.headers({"Origin": origin}))
        assert answer.status == 403


def test_http_options_cors(server):
    answer = server.request("OPTIONS", "/mcp", headers={
        "Origin": "http://localhost:6274",
        "Access-Control-Request-Method": "POST"})
    assert answer.status == 204
    allowed = answer.headers["access-control-allow-headers"].lower()
    for name in ("content-type", "authorization", "mcp-session-id",
                 "mcp-protocol-version", "last-event-id", "mcp-method",
                 "mcp-name"):
        assert name in allowed
    assert "DELETE" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-origin"] \
        == "http://localhost:6274"


def test_cors_exposes_the_session(server):
    answer = post(server, init(), {"Origin": "http://localhost:6274"})
    assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]


def test_initialize_on_the_sse_address_is_405(server):
    assert post(server, init(), path="/sse").status == 405


# ---- streams -------------------------------------------------------------

@pytest.mark.parametrize("version", VERSIONS)
def test_call_is_a_stream_that_ends_after_the_answer(server, version):
    client = Client(server, version)
    with client.start("print(6 * 7)", id="c") as stream:
        assert stream.is_stream
        assert stream.headers["x-accel-buffering"] == "no"
        assert stream.headers["cache-control"] == "no-cache"
        events = stream.rest()
    answer = json.loads(events[-1].data)
    assert answer["id"] == "c"
    assert "42" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("token", [7, "p"])
def test_progress_comes_before_the_answer(client, token):
    code = "import time; time.sleep(2.3)"
    with client.start(code, token=token) as stream:
        found = messages(stream.rest())
    told = [one["params"] for one in found[:-1]]
    assert len(told) >= 2
    assert all(one["progressToken"] == token for one in told)
    values = [one["progress"] for one in told]
    assert values == sorted(set(values))
    assert "result" in found[-1]


def test_http_sse_priming_event(client):
    with client.start("print(1)") as stream:
        first, *rest = stream.rest()
        assert first.data == "" and first.id
        assert b"retry: " in stream.raw
    ids = [first.id] + [event.id for event in rest]
    assert len(set(ids)) == len(ids) and all(ids)


@pytest.mark.parametrize("version", VERSIONS[:2])
def test_http_priming_not_sent_to_old_clients(server, version):
    with Client(server, version).start("print(1)") as stream:
        assert all(event.data for event in stream.rest())
        assert b"retry:" not in stream.raw


def test_http_event_ids_unique_in_session(client):
    seen = []
    for _ in range(3):
        with client.start("print(1)", token=1) as stream:
            seen += [event.id for event in stream.rest()]
    assert len(set(seen)) == len(seen) >= 6


def test_http_get_stream_keepalive_at_once_and_again(client):
    begin = time.monotonic()
    with client.get() as stream:
        assert stream.is_stream
        stream.wait_comment(1)
        assert time.monotonic() - begin < 1
        stream.wait_comment(2)


def test_http_no_response_on_get_stream(client):
    with client.get() as stream:
        assert client.request("ping").status == 200
        assert client.call("print(1)").stdout == "1\n"
        stream.wait_comment(2)


def test_http_second_get_supersedes(client):
    with client.get() as old, client.get() as new:
        assert old.wait_end(5) == ([], True)
        new.wait_comment(2)


def test_after_a_drop_a_new_get_works_at_once(client):
    client.get().close()
    with client.get() as stream:
        stream.wait_comment(1)


def test_ping_while_a_call_runs(client):
    with client.start("import time; time.sleep(1.5)") as stream:
        begin = time.monotonic()
        assert client.request("ping").json()["result"] == {}
        assert time.monotonic() - begin < 1
        stream.rest()


def test_same_id_under_way_is_refused(client):
    with client.start("import time; time.sleep(1)", id="same") as stream:
        with client.start("print(1)", id="same") as other:
            assert other.status == 400 and not other.is_stream
        assert "result" in messages(stream.rest())[-1]


def test_T19_cancel_reaches_the_process_of_the_call(client, sandbox):
    for n in range(6):
        with client.start("import time; time.sleep(5)", id=n) as stream:
            poll(lambda: sandbox.runs() > 0, 5, "program runs")
            begin = time.monotonic()
            client.cancel(n)
            events = stream.rest(3)
            assert not [one for one in messages(events) if "id" in one]
            assert time.monotonic() - begin < 2
    poll(lambda: sandbox.runs() == 0, 3, "sandbox is free")
    assert client.call("print(1)").stdout == "1\n"


def test_cancel_of_another_sessions_call_is_ignored(server, client):
    with client.start("import time; time.sleep(1); print(5)", id=1) as stream:
        Client(server).cancel(1)
        assert "result" in messages(stream.rest())[-1]


# ---- coming back ---------------------------------------------------------

def test_http_disconnect_is_not_cancel(client):
    stream = client.start("import time; time.sleep(1.5); print('done')",
                          id="x")
    first = stream.next_event()
    stream.close()
    for _ in range(4):      # as often as asked, by any process
        with client.get(first.id) as again:
            assert again.is_stream
            answer = messages(again.rest())[-1]
        assert answer["id"] == "x"
        assert "done" in answer["result"]["content"][0]["text"]


def test_replay_begins_after_the_event_named(client):
    with client.start("import time; time.sleep(2.3)", token=1) as stream:
        events = stream.rest()
    for n, event in enumerate(events):
        with client.get(event.id) as again:
            assert [one.data for one in again.rest()] \
                == [one.data for one in events[n + 1:]]


def test_resume_while_the_call_runs_waits_for_it(client):
    with client.start("import time; time.sleep(2.3); print(8)",
                      token=1) as stream:
        first = stream.next_event()
        with client.get(first.id) as again:
            found = messages(again.rest())
    assert len(found) >= 3 and "result" in found[-1]


@pytest.mark.parametrize("id", ["x", "0" * 16 + "-1", "0" * 16, "-1",
                                "../../etc/passwd-1"])
def test_unknown_event_id_is_refused(client, id):
    with client.get(id) as stream:
        assert stream.status == 400


def test_events_of_another_session_are_not_replayed(server, client):
    with client.start("print('mine')") as stream:
        first = stream.next_event()
        stream.rest()
    with Client(server).get(first.id) as other:
        assert other.status == 400


def test_events_go_after_their_time(start_server):
    one = start_server(processes=2, events_time="1s")
    client = Client(one)
    with client.start("print(1)") as stream:
        first = stream.next_event()
        stream.rest()

    def gone():
        with client.get(first.id) as again:
            return again.status == 400
    assert not gone()
    poll(gone, 30, "events are removed", 1)


def test_dead_process_ends_the_resumed_stream(start_server):
    one = start_server()
    client = Client(one)
    stream = client.start("import time; time.sleep(5)", id="lost")
    first = stream.next_event()
    time.sleep(0.3)
    os.kill(holder_of(one, first.id), signal.SIGKILL)
    stream.wait_end(5)
    stream.close()
    one.changed()
    with client.get(first.id) as again:
        answer = messages(again.rest(10))[-1]
    assert (answer["id"], answer["error"]["code"]) == ("lost", -32603)
    assert client.request("ping").status == 200, "the session lives on"


def links(pid):
    folder = f"/proc/{pid}/fd"
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(os.path.join(folder, name)))
        except FileNotFoundError:
            pass
    return found


def test_session_outlives_the_process_that_made_it(start_server):
    one = start_server(processes=2)
    client = Client(one)
    os.kill(one.owner(client.session_id), signal.SIGKILL)
    one.changed()
    for _ in range(6):
        assert client.request("ping").status == 200


def test_message_of_the_stream_goes_to_one_stream_only(client):
    with client.get() as listening, client.start("print(1)") as stream:
        assert "result" in messages(stream.rest())[-1]
        listening.wait_comment(2)
        with pytest.raises((StreamEnded, TimeoutError)):
            listening.next_event(0.5)


def holder_of(server, event_id):
    """The process that writes the events of a stream."""
    name = event_id.split("-")[0]
    return next(pid for pid in server.responders()
                if any(name in link for link in links(pid)))


def test_shutting_down_waits_for_a_call_whose_client_is_gone(start_server):
    one = start_server(processes=2)
    client = Client(one)
    stream = client.start("import time; time.sleep(2); print('kept')")
    first = stream.next_event()
    pid = holder_of(one, first.id)
    stream.close()
    os.kill(pid, signal.SIGTERM)
    with client.get(first.id) as again:
        answer = messages(again.rest(10))[-1]
    assert "kept" in answer["result"]["content"][0]["text"]
    one.changed()


def test_shutting_down_tells_what_was_cut_off(start_server):
    one = start_server(processes=2, shutdown_grace="300ms")
    client = Client(one)
    with client.start("import time; time.sleep(5)", id="cut") as stream:
        first = stream.next_event()
        os.kill(holder_of(one, first.id), signal.SIGTERM)
        answer = messages(stream.rest(5))[-1]
        assert (answer["id"], answer["error"]["code"]) == ("cut", -32603)
    one.changed()
    with client.get(first.id) as again:
        assert messages(again.rest(5))[-1] == answer


def test_T24_http_oversized_body_413(start_server):
    one = start_server(processes=1, body_max="4K")
    answer = post(one, init().replace("tests", "x" * 5000))
    assert answer.status == 413
    assert answer.json()["error"]["message"]

