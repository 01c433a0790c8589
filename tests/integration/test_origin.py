"""Origin and Host: who may speak to the server (T29)."""

import json

import pytest

from client import Stream

PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'

PASS = [None, "http://localhost", "http://localhost:6274",
        "https://localhost:8443", "http://127.0.0.1", "http://127.0.0.1:1",
        "http://[::1]:3000", "https://good.example",
        "https://tools.example:8443"]
REFUSE = ["null", "http://evil.example", "http://localhost.evil.example",
          "http://evillocalhost", "http://127.0.0.1.evil.example",
          "http://good.example.evil.example", "https://evil-good.example",
          "http://evil.example/localhost", "http://localhost@evil.example",
          "localhost", "file://", "https://tools.example",
          "http://good.example:81/x"]
HOSTS_PASS = ["127.0.0.1", "localhost", "localhost:9", "[::1]", "[::1]:80",
              "mcp.example", "mcp.example:443", "LOCALHOST"]
HOSTS_REFUSE = ["evil.example", "evil.example:80", "localhost.evil.example",
                "mcp.example.evil.example", "127.0.0.1.evil.example",
                "xmcp.example"]


@pytest.fixture(scope="module")
def guarded(sandbox):
    from harness import Server
    one = Server(sandbox.url, processes=1,
                 allowed_origins="https://good.example,"
                 "https://tools.example:8443",
                 allowed_hosts="mcp.example")
    yield one
    one.stop()


def statuses(server, headers):
    """What each route and method answers with these headers."""
    with Stream(server.address, "/sse", headers) as stream:
        found = {"GET /sse": stream.status}
    for method, path, body in (
            ("POST", "/messages/?session_id=" + "0" * 48, PING),
            ("POST", "/messages?session_id=" + "0" * 48, PING),
            ("GET", "/messages/", None), ("POST", "/sse", PING),
            ("DELETE", "/sse", None), ("GET", "/nothing", None)):
        answer = server.request(method, path, body, headers)
        found[f"{method} {path[:9]}"] = answer.status
        if answer.status == 403:
            assert json.loads(answer.body)["error"]
    return found


USUAL = {"GET /sse": 200, "POST /messages": 404, "GET /messages": 405,
         "POST /sse": 405, "DELETE /sse": 405, "GET /nothing": 404}


def usual(found):
    return all(found[key] == USUAL.get(key.rstrip("/?"), 404)
               for key in found)


@pytest.mark.parametrize("origin", PASS)
def test_T29_good_origin_passes_everywhere(guarded, origin):
    found = statuses(guarded, {"Origin": origin})
    assert usual(found), found


@pytest.mark.parametrize("origin", REFUSE)
def test_T29_foreign_origin_is_403_everywhere(guarded, origin):
    found = statuses(guarded, {"Origin": origin})
    assert set(found.values()) == {403}, found


@pytest.mark.parametrize("host", HOSTS_PASS)
def test_T29_own_host_passes(guarded, host):
    found = statuses(guarded, {"Host": host})
    assert usual(found), found


@pytest.mark.parametrize("host", HOSTS_REFUSE)
def test_T29_foreign_host_is_refused_on_loopback(guarded, host):
    found = statuses(guarded, {"Host": host})
    assert set(found.values()) <= {403, 421}, found


def test_T29_foreign_origin_opens_no_session(guarded):
    with Stream(guarded.address, "/sse",
                {"Origin": "http://evil.example"}) as stream:
        assert stream.status == 403
        assert "text/event-stream" not in stream.headers["content-type"]
