"""The stateless revision 2026-07-28 on /mcp."""

import base64
import json
import os
import signal
import time

import pytest

from client import request
from harness import poll
from streamable import (BOTH, META, MODERN, TOOL, Client, Stateless, envelope,
                        encode, messages)


@pytest.fixture
def modern(server):
    return Stateless(server)


def code_of(answer):
    return answer.status, answer.json()["error"]["code"]


def post(server, message, headers):
    return request(server.address, "POST", server.prefix + "/mcp",
                   encode(message), {"Accept": BOTH, **headers})


CALL = {"name": TOOL, "arguments": {"python_code": "print(6 * 7)"}}
NAMED = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}


def is_complete(result):
    assert result["resultType"] == "complete"
    assert result["_meta"][META + "serverInfo"]["name"]
    return result


# ---- what is answered ----------------------------------------------------

def test_m_discover(modern):
    answer = modern.request("server/discover")
    result = is_complete(answer.json()["result"])
    assert result["supportedVersions"] == [MODERN]
    assert "tools" in result["capabilities"]
    assert "logging" not in result["capabilities"]
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
def test_m_cache_hints(modern, method):
    result = is_complete(modern.request(method).json()["result"])
    assert type(result["ttlMs"]) is int and result["ttlMs"] >= 0
    assert result["cacheScope"] in ("public", "private")


def test_m_tools_list_deterministic(modern):
    one, other = (modern.request("tools/list").body for _ in range(2))
    assert one == other


def test_m_result_type_everywhere(modern):
    for code, failed in (("print(1)", False), ("raise ValueError(1)", True)):
        with modern.start(code) as stream:
            assert stream.is_stream
            assert stream.headers["x-accel-buffering"] == "no"
            answer = messages(stream.rest())[-1]
        result = is_complete(answer["result"])
        assert result["isError"] == failed
        assert "ttlMs" not in result


def test_m_json_where_no_stream_is_accepted(modern):
    answer = modern.request("tools/call", CALL,
                            {"Accept": "application/json"})
    assert answer.headers["content-type"] == "application/json"
    assert "42" in is_complete(answer.json()["result"])["content"][0]["text"]


def test_m_progress_before_response_only_and_no_event_ids(modern):
    meta = envelope(progressToken="p")
    with modern.start("import time; time.sleep(2.3)", meta=meta) as stream:
        events = stream.rest()
    assert all(event.id is None for event in events)
    found = messages(events)
    assert len(found) >= 3 and "result" in found[-1]
    assert all(one["method"] == "notifications/progress"
               for one in found[:-1])


def test_m_invalid_arguments(modern):
    with modern.open("tools/call", {"name": TOOL, "arguments": {
            "python_code": 42}}) as stream:
        result = is_complete(messages(stream.rest())[-1]["result"])
    assert result["isError"] and "python_code" in result["content"][0]["text"]


@pytest.mark.parametrize("id", [0, -1, "", "0", "é"])
def test_m_id_echo(modern, id):
    got = modern.request("tools/list", id=id).json()["id"]
    assert got == id and type(got) is type(id)


def test_m_no_null_fields(modern):
    assert b":null" not in modern.request("tools/list").body


def test_m_stateless_no_affinity_same_ids(modern):
    open_ones = [modern.start("import time; time.sleep(.5); print(5)", id=1)
                 for _ in range(3)]
    for stream in open_ones:
        assert "result" in messages(stream.rest())[-1]
        stream.close()


def test_m_old_headers_are_ignored(modern):
    answer = modern.request("tools/list", headers={
        "Mcp-Session-Id": "x", "Last-Event-ID": "y", "Mcp-Param-X": "z"})
    assert answer.status == 200
    assert "mcp-session-id" not in answer.headers


def test_m_missing_clientInfo_served(modern):
    meta = envelope()
    del meta[META + "clientInfo"]
    assert modern.request("tools/list", meta=meta).status == 200


def test_m_notification_202(modern):
    message = {"jsonrpc": "2.0", "method": "notifications/x",
               "params": {"_meta": envelope()}}
    answer = modern.send(message)
    assert (answer.status, answer.body) == (202, b"")


# ---- what is refused -----------------------------------------------------

@pytest.mark.parametrize("params", [
    None, {}, {"_meta": {}},
    {"_meta": {META + "protocolVersion": MODERN}},
    {"_meta": {META + "clientCapabilities": {}}},
    {"_meta": envelope(version=7)},
    {"_meta": {**envelope(), META + "clientCapabilities": []}},
    {"_meta": {**envelope(), META + "clientInfo": "x"}}])
def test_m_missing_meta_and_wrong_types(server, params):
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/list"}
    if params is not None:
        message["params"] = params
    answer = post(server, message, NAMED)
    assert code_of(answer) == (400, -32602)
    assert answer.json()["id"] == 5


@pytest.mark.parametrize("version", ["2199-01-01", "1999-01-01", "x",
                                     "2025-11-25"])
def test_m_unsupported_version(modern, version):
    answer = modern.request("tools/list", meta=envelope(version), headers={
        "MCP-Protocol-Version": version})
    assert code_of(answer) == (400, -32022)
    data = answer.json()["error"]["data"]
    assert data == {"supported": [MODERN], "requested": version}


def test_m_header_body_version_mismatch(modern):
    for meta, header in ((envelope(), "2025-11-25"),
                         (envelope("2199-01-01"), MODERN)):
        answer = modern.request("tools/list", meta=meta, headers={
            "MCP-Protocol-Version": header})
        assert code_of(answer) == (400, -32020)
        assert answer.json()["id"] == 1


@pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method",
                                    "Mcp-Name"])
@pytest.mark.parametrize("value", [None, "other"])
def test_m_missing_or_wrong_header(modern, header, value):
    answer = modern.request("tools/call", CALL, {header: value})
    assert code_of(answer) == (400, -32020)


def test_m_header_values_are_case_sensitive(modern):
    answer = modern.request("tools/list", headers={"Mcp-Method": "Tools/List"})
    assert code_of(answer) == (400, -32020)


def test_m_header_names_case_insensitive_and_ows_trimmed(modern):
    answer = modern.request("tools/list", headers={
        "Mcp-Method": None, "mCP-mETHOD": " tools/list \t"})
    assert answer.status == 200


def sentinel(text):
    return "=?base64?%s?=" % base64.b64encode(text.encode()).decode()


def test_m_name_base64(modern):
    answer = modern.request("tools/call", CALL, {
        "Mcp-Name": sentinel(TOOL), "Accept": "application/json"})
    assert answer.status == 200


@pytest.mark.parametrize("value", [
    sentinel("other"), "=?base64?!!!?=", sentinel(TOOL).replace("=?=", "?="),
    sentinel(TOOL).replace("base64", "BASE64"), "=?base64??=",
    sentinel(TOOL)[:-2]])
def test_m_name_base64_bad(modern, value):
    answer = modern.request("tools/call", CALL, {"Mcp-Name": value})
    assert code_of(answer) == (400, -32020)


@pytest.mark.parametrize("method", [
    "ping", "initialize", "logging/setLevel", "resources/subscribe",
    "prompts/list", "completion/complete", "no/such", "tasks/list"])
def test_m_unknown_method_404(modern, method):
    answer = modern.request(method)
    assert code_of(answer) == (404, -32601)
    assert answer.json()["id"] == 1


def test_m_unknown_tool_and_malformed_call(modern):
    for params in ({"name": "nope", "arguments": {}}, {"arguments": {}}):
        answer = modern.request("tools/call", params)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["error"]["code"] == -32602


def test_m_batch_and_response_rejected(server, modern):
    one = modern.message("tools/list")
    assert code_of(post(server, [one], NAMED)) == (400, -32600)
    answer = post(server, {"jsonrpc": "2.0", "id": 1, "result": {}}, NAMED)
    assert code_of(answer) == (400, -32600)


def test_m_parse_error_without_id(server):
    answer = post(server, "{", NAMED)
    assert code_of(answer) == (400, -32700)
    assert "id" not in answer.json()


def test_m_origin_evil_403(modern):
    answer = modern.request("tools/list",
                            headers={"Origin": "http://evil.example"})
    assert answer.status == 403


def test_m_initialize_without_envelope_is_the_older_era(server):
    answer = post(server, {
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": MODERN, "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"}}},
        {"MCP-Protocol-Version": MODERN})
    assert answer.json()["result"]["protocolVersion"] == "2025-11-25"
    assert answer.headers["mcp-session-id"]


def test_both_eras_side_by_side(server, modern):
    old = Client(server)
    for _ in range(5):
        assert "resultType" not in old.request("tools/list").json()["result"]
        is_complete(modern.request("tools/list").json()["result"])


# ---- the end of a stream -------------------------------------------------

def test_m_disconnect_cancels(modern, sandbox):
    for _ in range(4):
        stream = modern.start("import time; time.sleep(5)")
        poll(lambda: sandbox.runs() > 0, 5, "program runs")
        stream.close()
        poll(lambda: sandbox.runs() == 0, 2, "program is stopped")
    begin = time.monotonic()
    with modern.start("print(1)") as stream:
        stream.rest()
    assert time.monotonic() - begin < 3


def test_m_comments_come_fast_while_a_call_runs(modern):
    with modern.start("import time; time.sleep(1.5)") as stream:
        stream.rest()
        assert len(stream.comments) >= 4


# ---- subscriptions/listen ------------------------------------------------

@pytest.mark.parametrize("id", [7, "seven", 0])
def test_m_listen(modern, id):
    with modern.open("subscriptions/listen", {"notifications": {
            "toolsListChanged": True, "resourceSubscriptions": ["x:y"]}},
            id=id) as stream:
        assert stream.is_stream
        first = json.loads(stream.next_event().data)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        got = first["params"]["_meta"][META + "subscriptionId"]
        assert got == id and type(got) is type(id)
        assert first["params"]["notifications"] == {}
        stream.wait_comment(2)
        stream.wait_comment(2)


@pytest.mark.parametrize("params", [
    {}, {"notifications": []}, {"notifications": {"toolsListChanged": 1}}])
def test_m_listen_missing_filter(modern, params):
    answer = modern.request("subscriptions/listen", params)
    assert code_of(answer) == (400, -32602)


def test_m_listen_ends_with_a_result(start_server):
    one = start_server(processes=1)
    stream = Stateless(one).open("subscriptions/listen",
                                 {"notifications": {}}, id="l")
    stream.next_event()
    pid = one.responders()[0]
    os.kill(pid, signal.SIGTERM)
    last = json.loads(stream.next_event(5).data)
    assert last["id"] == "l" and last["result"]["resultType"] == "complete"
    assert last["result"]["_meta"][META + "subscriptionId"] == "l"
    assert stream.wait_end(5) == ([], True)
    stream.close()
    one.changed()
