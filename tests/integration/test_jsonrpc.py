"""JSON-RPC and the life cycle, as seen on a stream."""

import json

import pytest

from client import Session, request

INIT = {"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}}


def settle(session, id="the-end"):
    """All messages up to the answer of a ping sent now: whatever was to come
    before has come."""
    session.send("ping", id=id)
    got = []
    while True:
        message, raw = session.next_message()
        if message.get("id") == id:
            return got
        got.append((message, raw))


# ---- ids -----------------------------------------------------------------

@pytest.mark.parametrize("id", [
    '0', '1', '-1', '-7', '9007199254740991', '9007199254740993',
    '123456789012345678901234567890', '"abc"', '"0"', '"1e3"', '""',
    '"é\\"\\\\"', '"\\u00e9"', '"日本"', '"a\\nb"', '"😀"', '"null"'])
def test_T05_id_comes_back_with_type_and_digits(session, id):
    answer = session.post('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id)
    assert answer.status == 202
    message, raw = session.next_message()
    wanted = json.loads(id)
    assert message["id"] == wanted
    assert type(message["id"]) is type(wanted)
    if not id.startswith('"'):
        assert f'"id":{id}' in raw.replace(" ", "")


def test_T05_id_comes_back_on_errors_too(session):
    for id in (0, "0", -5, "é"):
        session.send("no/such", id=id)
        assert session.wait(id)["error"]["code"] == -32601


@pytest.mark.parametrize("id", ["null", "true", "[]", "{}", "[1]"])
def test_T07_id_that_is_none_is_refused(session, id):
    answer = session.post('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % id)
    assert answer.status == 400
    assert answer.json()["error"]["code"] == -32600
    assert settle(session) == []


# ---- notifications -------------------------------------------------------

@pytest.mark.parametrize("body", [
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","method":"notifications/no_such"}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled"}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled",'
    '"params":{"requestId":"never-seen"}}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled",'
    '"params":{"requestId":{}}}',
    '{"jsonrpc":"2.0","method":"ping"}',
    '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"none"}}'])
def test_T07_T08_notification_is_202_and_never_answered(session, body):
    answer = session.post(body)
    assert (answer.status, answer.body) == (202, b"")
    assert settle(session) == []


def test_response_of_a_client_is_taken_and_not_answered(session):
    answer = session.post('{"jsonrpc":"2.0","id":99,"result":{}}')
    assert (answer.status, answer.body) == (202, b"")
    assert settle(session) == []


# ---- malformed -----------------------------------------------------------

MALFORMED = {
    "empty": b"", "blank": b"   ", "open": b"{", "word": b"hello",
    "trailing-comma": b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
    "nan": b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
    "invalid-utf8": b'{"jsonrpc":"2.0","id":1,"method":"pi\xffng"}',
    "surrogate-bytes": b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
    "raw-control": b'{"jsonrpc":"2.0","id":1,"method":"a\nb"}',
    "deep": b"[" * 100_000,
    "deep-object": b'{"a":' * 100_000,
    "deep-closed": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":'
                   b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}}",
    "leading-zero": b'{"jsonrpc":"2.0","id":01,"method":"ping"}',
    "two-values": b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}',
    "single-quotes": b"{'jsonrpc':'2.0','id':1,'method':'ping'}",
    "duplicate-key": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    "nul": b'{"jsonrpc":"2.0","id":1,"method":"ping"}\x00',
    "utf16": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_T22_malformed_json_is_400_and_the_stream_stays(session, name):
    answer = session.post(MALFORMED[name])
    assert answer.status == 400, answer
    message = answer.json()
    assert message["error"]["code"] == -32700
    assert message.get("id") is None
    assert settle(session) == [], "nothing of it is on the stream"


INVALID = {
    "no-version": {"id": 1, "method": "ping"},
    "old-version": {"jsonrpc": "1.0", "id": 1, "method": "ping"},
    "number-version": {"jsonrpc": 2.0, "id": 1, "method": "ping"},
    "no-method": {"jsonrpc": "2.0", "id": 1},
    "number-method": {"jsonrpc": "2.0", "id": 1, "method": 5},
    "empty-object": {}, "number": 5, "string": "x", "null": None,
    "empty-batch": [],
    "batch": [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
}


@pytest.mark.parametrize("name", INVALID)
def test_valid_json_that_is_no_request_is_400(session, name):
    answer = session.post(json.dumps(INVALID[name]))
    assert answer.status == 400, answer
    assert answer.json()["error"]["code"] == -32600
    assert settle(session) == []


def test_keys_are_looked_up_with_their_case(session):
    answer = session.post('{"JSONRPC":"2.0","ID":1,"Method":"ping"}')
    assert answer.status == 400
    answer = session.post('{"jsonrpc":"2.0","id":1,"method":"ping",'
                          '"Method":"no/such"}')
    assert answer.status == 202
    assert session.wait(1)["result"] == {}


def test_unknown_method_is_an_error_on_the_stream(session):
    for method in ("no/such", "resources/subscribe", "prompts/list",
                   "completion/complete", "logging/setLevel", ""):
        assert session.request(method)["error"]["code"] == -32601, method


@pytest.mark.parametrize("params", [[], "x", 5, None])
def test_params_that_are_no_object_are_refused(session, params):
    answer = session.post({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
                           "params": params})
    if answer.status == 400:
        error = answer.json()["error"]
    else:
        assert answer.status == 202
        error = session.wait(3)["error"]
    assert error["code"] in (-32600, -32602)


def test_absent_fields_are_absent_not_null(session):
    assert "null" not in json.dumps(session.info)
    tools = session.request("tools/list")["result"]
    assert "nextCursor" not in tools
    assert None not in tools["tools"][0].values()


# ---- life cycle ----------------------------------------------------------

@pytest.mark.parametrize("asked,given", [
    ("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"),
    ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"),
    ("1999-01-01", "2025-11-25"), ("2199-12-31", "2025-11-25"),
    ("2026-07-28", "2025-11-25"), ("", "2025-11-25")])
def test_T26_version_is_negotiated(server, asked, given):
    with Session(server, initialize=False) as session:
        result = session.request("initialize", {
            **INIT, "protocolVersion": asked})["result"]
        assert result["protocolVersion"] == given
        assert isinstance(result["capabilities"]["tools"], dict)
        assert result["serverInfo"]["name"]
        assert result["serverInfo"]["version"]


def test_T26_initialize_without_version_is_an_error(server):
    with Session(server, initialize=False) as session:
        for params in (None, {}, {"protocolVersion": 5}):
            error = session.request("initialize", params)["error"]
            assert error["code"] == -32602


def test_second_initialize_is_refused(session):
    error = session.request("initialize", INIT)["error"]
    assert error["code"] == -32600
    session.request("ping")


def test_ping_before_initialize(server):
    with Session(server, initialize=False) as session:
        assert session.request("ping")["result"] == {}


def test_T18_ping_is_answered_while_a_program_runs(session):
    import time
    call = session.start("import time; time.sleep(4); print('done')",
                         meta={"progressToken": "p"})
    while not session.next_message()[0].get("method"):
        pass
    begin = time.monotonic()
    session.request("ping")
    assert time.monotonic() - begin < 1
    assert session.finish(call).stdout == "done\n"


def test_T23_message_in_many_small_pieces(server, session):
    """A body that trickles in is one message all the same."""
    from client import Connection, Deadline, build_head
    body = b'{"jsonrpc":"2.0","id":"slow","method":"ping"}'
    with Connection(server.address) as conn:
        conn.send(build_head(server.address, "POST", session.path, {
            "Content-Type": "application/json", "Connection": "close",
            "Content-Length": str(len(body))}))
        for byte in body:
            conn.send(bytes([byte]))
        assert conn.head(Deadline(10))[0] == 202
    assert session.wait("slow")["result"] == {}


def test_expect_100_continue(server, session):
    body = '{"jsonrpc":"2.0","id":"e","method":"ping"}'
    answer = request(server.address, "POST", session.path, body,
                     {"Expect": "100-continue"})
    assert answer.status == 202
    session.wait("e")
