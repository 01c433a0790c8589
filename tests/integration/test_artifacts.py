"""Files of results: links, downloads through each web server, resources."""

import asyncio
import base64
import json
import os
import re
import signal
import time
from urllib.parse import quote, unquote, urljoin

import pytest

from client import Connection, Deadline, Session, build_head
from harness import BUILD, memory_kib, poll
from streamable import Client, Stateless
from test_sdk import connect, run

KEEP = "import base64,sys\nopen(%r, 'wb').write(base64.b64decode(%r))"


def keep(session, name, data):
    """Lets a program leave one file; returns its entry in the result."""
    code = KEEP % (name, base64.b64encode(data).decode())
    result = session.call(code)
    assert not result.is_error, result
    (entry,) = result["files"]
    return entry


def get(server, entry, method="GET", **headers):
    return server.request(method, entry["url"].removeprefix(server.prefix),
                          headers={k.replace("_", "-"): v
                                   for k, v in headers.items()})


@pytest.fixture(scope="module", params=["lighttpd", "apache"])
def front(request, sandbox):
    """A server of each kind, mounted below a path."""
    from harness import Server
    one = Server(sandbox.url, front=request.param, mount="/tools/py",
                 processes=2)
    yield one
    one.stop()


@pytest.fixture
def peer(front):
    with Session(front) as one:
        yield one


# ---- what a result says --------------------------------------------------

def test_every_file_and_figure_has_an_address(session, server):
    result = session.call(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n"
        "open('t.csv', 'w').write('a,b\\n1,2\\n')")
    (plot,), (file,) = result["plots"], result["files"]
    for entry in (plot, file):
        assert re.fullmatch(r"sandbox://files/[0-9a-f]{32}/[^/]+",
                            entry["uri"])
        assert entry["url"] == "/files/" + entry["uri"].split("/files/")[-1] \
            .removeprefix("sandbox://files/")
        assert "reason" not in entry
    assert result["plot_path"] == plot["uri"]
    assert get(server, plot).body == result.images[0]
    assert get(server, file).body == b"a,b\n1,2\n"


def test_files_are_linked_and_images_are_not(session):
    result = session.call(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n"
        "open('a.txt', 'w').write('x')")
    assert [b["type"] for b in result.content] == \
        ["text", "image", "resource_link"]
    link = result.content[2]
    assert link["uri"] == result["files"][0]["uri"]
    assert link["name"] == "a.txt"
    assert link["mimeType"] == "text/plain"
    assert link["size"] == 1


def test_an_old_revision_has_addresses_but_no_links(server):
    with Session(server, version="2025-03-26") as session:
        result = session.call("open('a.txt', 'w').write('x')")
        assert [b["type"] for b in result.content] == ["text"]
        assert get(server, result["files"][0]).body == b"x"


def test_a_figure_over_the_count_is_linked(start_server):
    server = start_server(processes=1, figures_max=1)
    with Session(server) as session:
        result = session.call(
            "import matplotlib.pyplot as plt\n"
            "for i in range(3):\n    plt.figure()\n    plt.plot([i, 2])\n"
            "plt.show()")
        assert [b["type"] for b in result.content] == \
            ["text", "image", "resource_link", "resource_link"]
        assert len(result["plots"]) == 3
        for plot, link in zip(result["plots"][1:], result.content[2:]):
            assert plot["uri"] == link["uri"]
            assert "figures_max" in plot["reason"]
            assert get(server, plot).body.startswith(b"\x89PNG")
        assert result["plot_path"] == result["plots"][2]["uri"]


def test_a_cut_output_is_whole_as_a_file(session, server):
    result = session.call("for i in range(20000): print('line', i)")
    assert result["truncated"] is True
    whole = "".join(f"line {i}\n" for i in range(20000))
    assert len(result.stdout) < len(whole)
    (entry,) = result["files"]
    assert entry["path"] == "stdout.txt"
    assert entry["bytes"] == len(whole)
    assert get(server, entry).body.decode() == whole


def test_a_cut_output_yields_to_a_file_of_that_name(session, server):
    result = session.call("open('stdout.txt', 'w').write('mine')\n"
                          "print('x' * 70000)")
    ours, mine = result["files"]
    assert mine["path"] == "stdout.txt"
    assert ours["path"] == "stdout-1.txt"
    assert get(server, mine).body == b"mine"
    assert get(server, ours).body == b"x" * 70000 + b"\n"


def test_files_of_a_failed_program_are_kept(session, server):
    result = session.call("open('a', 'w').write('1')\nraise ValueError")
    assert result.is_error
    assert get(server, result["files"][0]).body == b"1"


def test_public_url_makes_addresses_absolute(start_server):
    server = start_server(processes=1, public_url="https://host.example/py/")
    with Session(server) as session:
        entry = keep(session, "a.txt", b"x")
        assert entry["url"].startswith(
            "https://host.example/py/files/" + entry["uri"].split("/")[3])


# ---- HTTP ----------------------------------------------------------------

def test_a_download_has_a_safe_head(front, peer):
    entry = keep(peer, "a.txt", b"plain\n")
    answer = get(front, entry)
    assert (answer.status, answer.body) == (200, b"plain\n")
    head = answer.headers
    assert head["content-type"] == "text/plain; charset=utf-8"
    assert head["content-length"] == "6"
    assert head["x-content-type-options"] == "nosniff"
    assert "sandbox" in head["content-security-policy"]
    assert "default-src 'none'" in head["content-security-policy"]
    assert head["content-disposition"] == 'inline; filename="a.txt"'
    assert head["accept-ranges"] == "bytes"
    assert re.fullmatch(r"private, max-age=\d+", head["cache-control"])
    assert entry["url"].startswith("/tools/py/files/")


def test_head_and_etag(front, peer):
    entry = keep(peer, "a.bin", bytes(range(256)) * 10)
    head = get(front, entry, "HEAD")
    assert (head.status, head.headers["content-length"]) == (200, "2560")
    tag = head.headers["etag"]
    again = get(front, entry, If_None_Match=f'"x", {tag}')
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == tag
    assert get(front, entry, If_None_Match='"x"').status == 200


RANGES = {"bytes=0-0": (0, 1), "bytes=10-19": (10, 20),
          "bytes=200-": (200, 256), "bytes=-6": (250, 256),
          "bytes=250-999": (250, 256)}


@pytest.mark.parametrize("field", RANGES)
def test_ranges(front, peer, field):
    data = bytes(range(256))
    entry = keep(peer, "a.bin", data)
    first, end = RANGES[field]
    part = get(front, entry, Range=field)
    assert part.status == 206
    assert part.body == data[first:end]
    assert part.headers["content-range"] == f"bytes {first}-{end - 1}/256"
    assert part.headers["content-length"] == str(end - first)


def test_ranges_that_can_not_be(front, peer):
    data = bytes(range(256))
    entry = keep(peer, "a.bin", data)
    beyond = get(front, entry, Range="bytes=256-")
    assert beyond.status == 416
    assert beyond.headers["content-range"] == "bytes */256"
    assert get(front, entry, Range="lines=1-2").body == data
    for field in ("bytes=9-3", "bytes=x"):
        answer = get(front, entry, Range=field)
        # lighttpd has its own mind about our 200
        assert answer.body == data or answer.status == 416
    tag = get(front, entry, "HEAD").headers["etag"]
    part = get(front, entry, Range="bytes=1-2", If_Range=tag)
    assert (part.status, part.body) == (206, data[1:3])
    whole = get(front, entry, Range="bytes=1-2", If_Range='"old"')
    assert (whole.status, whole.body) == (200, data)


def test_several_ranges_are_the_whole_or_parts(front, peer):
    """lighttpd and Apache may make a multipart answer of ours."""
    data = bytes(range(256))
    entry = keep(peer, "a.bin", data)
    answer = get(front, entry, Range="bytes=0-1,4-5")
    if answer.status == 206:
        assert data[:2] in answer.body and data[4:6] in answer.body
        assert "content-range" in answer.headers or answer.headers[
            "content-type"].startswith("multipart/byteranges")
    else:
        assert (answer.status, answer.body) == (200, data)


NAMES = ["plain.txt", "two words.txt", "#1 100%.txt", "a?b=c&d;e+f.txt",
         "图 표 🙂.txt", "quote\"'`.txt", "<b>.txt", "back\\slash.txt",
         "line\nfeed.txt", "tab\t.txt", "_lead", ".dot", "..odd", "%41",
         "a" * 200 + ".txt", "sse", "messages", "sub dir/deep/名.txt",
         "é.txt", "nul-like%00.txt", "semi;colon", "~tilde", "[br]{ac}"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_fetched(front, peer, name):
    data = name.encode()
    code = ("import os\np = %r\nd = os.path.dirname(p)\n"
            "d and os.makedirs(d)\nopen(p, 'wb').write(%r)" % (name, data))
    result = peer.call(code)
    (entry,) = [e for e in result["files"] if e["bytes"] == len(data)]
    answer = get(front, entry)
    assert (answer.status, answer.body) == (200, data), answer
    shown = answer.headers["content-disposition"]
    assert shown.isascii() and "\n" not in shown
    if "*=UTF-8''" in shown:
        true = unquote(shown.split("*=UTF-8''")[1])
    else:
        true = re.search(r'filename="(.*)"', shown).group(1)
    want = entry["path"].rpartition("/")[2]
    assert true == want.replace("\\", "_")
    assert get(front, entry, "HEAD").status == 200


HOSTILE = {
    "page.html": b"<!DOCTYPE html><script>alert(1)</script>",
    "image.svg": b"<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/"
                 b"svg'><script>alert(1)</script></svg>",
    "fake.png": b"<html><script>alert(1)</script></html>",
    "x.xml": b"<?xml version='1.0'?><?xml-stylesheet href='a'?><a/>",
    "doc.pdf": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_could_act_is_saved_not_shown(front, peer, name):
    answer = get(front, keep(peer, name, HOSTILE[name]))
    assert answer.body == HOSTILE[name]
    head = answer.headers
    assert head["content-disposition"].startswith("attachment;")
    assert head["x-content-type-options"] == "nosniff"
    assert re.search(r"\bsandbox\b", head["content-security-policy"])
    assert "allow-scripts" not in head["content-security-policy"]
    assert head["content-type"].split(";")[0] not in ("image/png",
                                                      "text/plain")


UNKNOWN = ["/files/" + "0" * 32 + "/a", "/files/" + "f" * 32 + "/a.png",
           "/files/x/a", "/files/", "/files/usage/a",
           "/files/%2e%2e/%2e%2e/etc/passwd",
           "/files/..%5c..%5cetc/passwd"]


@pytest.mark.parametrize("path", UNKNOWN)
def test_unknown_files_are_404(front, path):
    answer = front.request("GET", path)
    if "%" in path:     # a web server may refuse those by itself
        assert answer.status in (400, 403, 404)
    else:
        assert answer.status == 404
        assert answer.json()["error"]["message"]


def test_other_methods_are_refused(front, peer):
    entry = keep(peer, "a.txt", b"x")
    for method in ("POST", "PUT", "DELETE"):
        answer = front.request(
            method, entry["url"].removeprefix(front.prefix), "{}")
        assert answer.status == 405
        assert "GET" in answer.headers["allow"]
    assert get(front, entry, Origin="https://evil.example").status == 403


def test_a_large_file_comes_whole_and_costs_no_memory(front, peer):
    size = 24 << 20
    result = peer.call(
        "import random\nr = random.Random(5)\n"
        f"open('big.bin', 'wb').write(r.randbytes(1 << 20) * {size >> 20})")
    (entry,) = result["files"]
    before = sum(memory_kib(pid) for pid in front.responders())
    answer = get(front, entry)
    assert len(answer.body) == size
    assert answer.body[:1 << 20] * (size >> 20) == answer.body
    part = get(front, entry, Range=f"bytes={size - 10}-")
    assert part.body == answer.body[-10:]
    after = sum(memory_kib(pid) for pid in front.responders())
    # what the address sanitizer's quarantine holds is no cost of ours
    allowed = 4096 if "address" not in BUILD else 96 << 10
    assert after - before < allowed, (before, after)


def test_a_client_that_stops_reading_delays_nobody(front, peer):
    result = peer.call("open('big.bin', 'wb').write(bytes(20 << 20))")
    (entry,) = result["files"]
    with Connection(front.address) as slow:
        slow.send(build_head(front.address, "GET", entry["url"], {}))
        slow.head(Deadline(10))
        small = keep(peer, "a.txt", b"quick")
        begun = time.monotonic()
        for _ in range(5):
            assert get(front, small).body == b"quick"
        assert time.monotonic() - begun < 3
    # gone in the middle: the next is served as ever
    assert get(front, small).body == b"quick"


def test_many_clients_fetch_at_once(front, peer):
    from concurrent.futures import ThreadPoolExecutor
    data = os.urandom(300000)
    entry = keep(peer, "a.bin", data)
    with ThreadPoolExecutor(12) as pool:
        bodies = list(pool.map(lambda _: get(front, entry).body, range(48)))
    assert all(body == data for body in bodies)


# ---- time, limits, processes ---------------------------------------------

def test_expired_files_are_gone(start_server):
    server = start_server(processes=2, artifact_time="1s")
    with Session(server) as session:
        entry = keep(session, "a.txt", b"x")
        assert get(server, entry).status in (200, 410)
        poll(lambda: get(server, entry).status in (404, 410), 10, "expired")
        assert "artifact_time" in get(server, entry).json()["error"]["message"]
        error = session.request("resources/read",
                                {"uri": entry["uri"]})["error"]
        assert error["code"] == -32002
        poll(lambda: stored(server) == [], 20, "swept")


def stored(server):
    return [name for name in os.listdir(server.settings["artifact_dir"])
            if len(name) == 32]


def test_the_store_is_bounded_over_all_processes(start_server):
    server = start_server(processes=2, artifact_bytes="400K")
    sessions = [Session(server) for _ in range(4)]
    try:
        for i in range(5):
            for session in sessions:
                keep(session, f"{i}.bin", os.urandom(60000))
        folder = server.settings["artifact_dir"]
        total = sum(os.path.getsize(os.path.join(folder, name))
                    for name in stored(server))
        assert 200 << 10 < total <= 400 << 10
        last = keep(sessions[0], "last.bin", b"x")
        assert get(server, last).status == 200
    finally:
        for session in sessions:
            session.close()


def test_a_file_outlives_the_process_that_made_it(start_server):
    server = start_server(front="apache", processes=2)
    with Session(server) as session:
        entry = keep(session, "a.txt", b"kept")
        maker = next(w for w in server.workers if "call.end" in w.log())
        maker.process.send_signal(signal.SIGKILL)
        maker.process.wait()
    server.workers.remove(maker)
    server.pids = server.responders()
    for _ in range(4):
        assert get(server, entry).body == b"kept"
    with Session(server) as session:
        assert read(session, entry["uri"])[0]["text"] == "kept"


def test_a_store_that_fails_is_no_failure(start_server):
    server = start_server(processes=1, artifact_dir="/proc/nowhere")
    with Session(server) as session:
        result = session.call(
            "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n"
            "open('a.txt', 'w').write('x')\nprint('fine')")
        assert not result.is_error
        assert result.stdout == "fine\n"
        assert len(result.images) == 1
        (entry,) = result["files"]
        assert "uri" not in entry
        assert "artifact_dir" in entry["reason"]
        assert result["plot_path"] == result["plots"][0]["name"]


def test_a_file_over_the_limit_is_listed_with_the_reason(start_server):
    server = start_server(processes=1, artifact_max="2K")
    with Session(server) as session:
        result = session.call("open('a.bin', 'wb').write(bytes(3000))\n"
                              "open('b.bin', 'wb').write(bytes(2000))")
        large, small = result["files"]
        assert "artifact_max" in large["reason"] and "uri" not in large
        assert get(server, small).status == 200


def test_no_whole_id_is_in_the_log(start_server):
    server = start_server(processes=1)
    with Session(server) as session:
        entry = keep(session, "a.txt", b"x")
        assert get(server, entry).status == 200
        ident = entry["uri"].split("/")[3]
    poll(lambda: "/files/" + ident[:8] in server.logs(), 5, "the log's line")
    assert ident not in server.logs()


# ---- MCP resources -------------------------------------------------------

def read(session, uri):
    message = session.request("resources/read", {"uri": uri}, timeout=30)
    assert "result" in message, message
    return message["result"]["contents"]


def test_resources_are_announced(session):
    assert session.info["capabilities"]["resources"] == {}
    (one,) = session.request("resources/list")["result"]["resources"]
    assert one["uri"] == "sandbox://environment"
    assert one["name"]
    (template,) = session.request("resources/templates/list")["result"][
        "resourceTemplates"]
    assert template["uriTemplate"] == "sandbox://files/{id}/{name}"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26",
                                     "2025-06-18", "2025-11-25"])
def test_files_are_read_in_every_revision(server, version):
    with Session(server, version=version) as session:
        text = keep(session, "é \"q\".txt", "zwölf\n".encode())
        (item,) = read(session, text["uri"])
        assert item == {"uri": text["uri"], "mimeType": "text/plain",
                        "text": "zwölf\n"}
        blob = keep(session, "b.bin", bytes(range(256)))
        (item,) = read(session, blob["uri"])
        assert base64.b64decode(item["blob"], validate=True) == \
            bytes(range(256))
        assert item["mimeType"] == blob["media_type"]
        empty = keep(session, "empty.txt", b"")
        assert read(session, empty["uri"])[0]["text"] == ""


def test_text_that_is_not_utf8_is_read_as_blob(session):
    entry = keep(session, "latin.txt", b"caf\xe9 " * 20)
    (item,) = read(session, entry["uri"])
    assert base64.b64decode(item["blob"]) == b"caf\xe9 " * 20


WRONG = ["sandbox://files/" + "0" * 32 + "/a", "sandbox://files/x/y",
         "sandbox://nothing", "file:///etc/passwd", "", "sandbox://files/",
         "sandbox://files/../../etc/passwd", "ü"]


@pytest.mark.parametrize("uri", WRONG)
def test_unknown_resources_are_32002(session, uri):
    error = session.request("resources/read", {"uri": uri})["error"]
    assert error["code"] == -32002
    assert error["data"] == {"uri": uri}


@pytest.mark.parametrize("params", [None, {}, {"uri": 5}, {"uri": None},
                                    {"uri": ["x"]}])
def test_malformed_reads_are_32602(session, params):
    assert session.request("resources/read",
                           params)["error"]["code"] == -32602


def test_a_file_too_large_to_read_names_the_address(session, server):
    entry = keep(session, "big.bin", bytes(900000))
    error = session.request("resources/read", {"uri": entry["uri"]})["error"]
    assert "result_max" in error["message"]
    assert entry["url"] in error["message"]
    small = keep(session, "fits.bin", bytes(600000))
    assert len(read(session, small["uri"])[0]["blob"]) == 800000


def test_reading_while_the_stream_ends_harms_nobody(server):
    for _ in range(10):
        with Session(server) as session:
            entry = keep(session, "a.bin", bytes(500000))
            session.send("resources/read", {"uri": entry["uri"]}, 77)
    with Session(server) as session:
        assert session.call("print(1)").stdout == "1\n"


def test_the_sdk_lists_and_reads(server):
    async def main():
        async with connect(server) as session:
            assert session.info.capabilities.resources is not None
            listed = (await session.list_resources()).resources
            assert [str(r.uri) for r in listed] == ["sandbox://environment"]
            templates = (await session.list_resource_templates())
            assert len(templates.resourceTemplates) == 1
            result = await session.call_tool("execute_python_code", {
                "python_code": "open('ß 1.csv', 'w').write('a,b')"})
            link = result.content[1]
            assert link.type == "resource_link"
            return await session.read_resource(link.uri)

    assert run(main()).contents[0].text == "a,b"


# ---- the environment -----------------------------------------------------

def environment(session):
    (item,) = read(session, "sandbox://environment")
    assert item["mimeType"] == "application/json"
    return json.loads(item["text"])


def test_the_environment_is_told(session):
    told = environment(session)
    assert re.fullmatch(r"3\.\d+\.\d+", told["python"]["version"])
    packages = {p["name"].lower(): p["version"] for p in told["packages"]}
    if session.server.settings["snekbox_url"].startswith("unix:"):
        assert {"numpy", "matplotlib", "pandas"} <= set(packages)
    result = session.call(
        "import sys, importlib.metadata as m\n"
        "print('%d.%d.%d' % sys.version_info[:3])\n"
        "print(sorted({d.metadata['Name'] for d in m.distributions()}))")
    version, names = result.stdout.splitlines()
    assert version == told["python"]["version"]
    assert sorted(p["name"] for p in told["packages"]) == sorted(
        eval(names))
    assert told["limits"]["time_seconds"] == 6
    assert any("network" in text for text in told["not_possible"])


def test_the_instructions_have_the_facts_briefly(server):
    with Session(server) as session:
        told = environment(session)

    def instructions():
        with Session(server) as session:
            return session.info["instructions"]

    poll(lambda: told["python"]["version"] in instructions(), 10, "known")
    assert len(instructions()) < 2000
    assert "sandbox://environment" in instructions()


def test_a_missing_module_is_told_what_there_is(session):
    told = environment(session)
    result = session.call("import no_such_module_x")
    assert result.is_error
    assert "no_such_module_x" in result["error_message"]
    first = sorted((p["name"] for p in told["packages"]), key=str.lower)
    assert any(name in result["details"] for name in first[:3])
    assert "operator" in result["details"]


def test_a_sandbox_that_is_down_delays_no_initialize(start_server):
    server = start_server("unix:/nonexistent/sandboxd.sock", processes=1,
                          environment_refresh="10m")
    begun = time.monotonic()
    with Session(server) as session:
        assert time.monotonic() - begun < 2
        told = environment(session)
        assert told["python"] is None
        assert told["limits"]["time_seconds"] == 6


# ---- Streamable HTTP -----------------------------------------------------

def answer_of(response):
    """The message of an answer: JSON, or the last event of a stream."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    return json.loads(re.findall(rb"^data: ?(.+)$", response.body, re.M)[-1])


def test_files_over_streamable_http(sub_server):
    client = Client(sub_server)
    (entry,) = client.call("open('a b.txt', 'w').write('x')")["files"]
    assert entry["url"].startswith("/tools/python/files/")
    assert get(sub_server, entry).body == b"x"
    answer = answer_of(client.request("resources/read",
                                      {"uri": entry["uri"]}))
    assert answer["result"]["contents"] == [
        {"uri": entry["uri"], "mimeType": "text/plain", "text": "x"}]
    lost = answer_of(client.request("resources/read", {"uri": WRONG[0]}))
    assert lost["error"]["code"] == -32002


def test_files_in_the_stateless_revision(server):
    client = Stateless(server)

    def ask(method, **params):
        return answer_of(client.request(method, params))

    found = ask("server/discover")["result"]
    assert found["capabilities"]["resources"] == {}
    with Session(server) as session:
        entry = keep(session, "a.txt", b"x")
    for method, key in (("resources/list", "resources"),
                        ("resources/templates/list", "resourceTemplates")):
        result = ask(method)["result"]
        assert len(result[key]) == 1
        assert result["resultType"] == "complete"
        assert result["cacheScope"] == "public"
    result = ask("resources/read", uri=entry["uri"])["result"]
    assert result["contents"][0]["text"] == "x"
    assert result["resultType"] == "complete"
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
    lost = ask("resources/read", uri=WRONG[0])
    assert lost["error"]["code"] == -32602
    assert lost["error"]["data"] == {"uri": WRONG[0]}
