"""The official SDK's Streamable HTTP client drives the server; the transport
under Apache."""

import asyncio
import base64
import time
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamablehttp_client

from client import png_size
from harness import Server, poll
from streamable import TOOL, Client, Stateless, messages

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"


@asynccontextmanager
async def connect(server, **more):
    url = "http://%s:%d%s/mcp" % (*server.address, server.prefix)
    async with streamablehttp_client(url, timeout=10) as (read, write, id):
        async with ClientSession(
                read, write, read_timeout_seconds=timedelta(seconds=30),
                **more) as session:
            session.info = await session.initialize()
            session.id = id
            yield session


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.fixture(params=["/", "/tools/python"])
def mounted(request):
    return request.getfixturevalue(
        "server" if request.param == "/" else "sub_server")


def test_initialize_list_and_call(mounted):
    async def main():
        async with connect(mounted) as session:
            assert session.info.protocolVersion == "2025-11-25"
            assert session.id()
            await session.send_ping()
            tools = (await session.list_tools()).tools
            assert [tool.name for tool in tools] == [TOOL]
            return await session.call_tool(TOOL, {"python_code": "print(6*7)"})

    result = run(main())
    assert not result.isError
    assert result.structuredContent["stdout"] == "42\n"


def test_call_image(server):
    async def main():
        async with connect(server) as session:
            return await session.call_tool(TOOL, {"python_code": PLOT})

    images = [c for c in run(main()).content if c.type == "image"]
    assert len(images) == 1
    assert min(png_size(base64.b64decode(images[0].data))) > 100


def test_progress_reaches_the_callback(server):
    told = []

    async def progress(value, total, message):
        told.append(value)

    async def main():
        async with connect(server) as session:
            return await session.call_tool(
                TOOL, {"python_code": "import time; time.sleep(2.3)"},
                progress_callback=progress)

    assert not run(main()).isError
    assert len(told) >= 2 and told == sorted(set(told))


def test_calls_at_once(server):
    async def main():
        async with connect(server) as session:
            return await asyncio.gather(*[
                session.call_tool(TOOL, {"python_code": f"print({n})"})
                for n in range(6)])

    assert [one.structuredContent["stdout"] for one in run(main())] \
        == [f"{n}\n" for n in range(6)]


def test_errors_come_back_and_no_reconnect_follows(server):
    async def main():
        async with connect(server) as session:
            failed = await session.call_tool(
                TOOL, {"python_code": "raise ValueError(1)"})
            assert failed.isError
            with pytest.raises(McpError):
                await session.call_tool("nope", {})
            await session.send_ping()

    run(main())


# ---- under Apache --------------------------------------------------------

@pytest.fixture(scope="module")
def apache(sandbox):
    one = Server(sandbox.url, front="apache", processes=2)
    yield one
    one.stop()


def test_apache_serves_both_eras(apache):
    client = Client(apache)
    assert client.call("print(1)").stdout == "1\n"
    with client.get() as stream:
        stream.wait_comment(2)
    assert client.do("DELETE").status == 204
    assert Stateless(apache).request("tools/list").status == 200


def test_apache_disconnect_is_not_cancel_before_2026(apache):
    client = Client(apache)
    stream = client.start("import time; time.sleep(1.5); print('done')")
    first = stream.next_event()
    stream.close()
    with client.get(first.id) as again:
        answer = messages(again.rest())[-1]
    assert "done" in answer["result"]["content"][0]["text"]


def test_apache_disconnect_cancels_in_2026(apache, sandbox):
    stream = Stateless(apache).start("import time; time.sleep(5)")
    poll(lambda: sandbox.runs() > 0, 5, "program runs")
    begin = time.monotonic()
    stream.close()
    poll(lambda: sandbox.runs() == 0, 3, "program is stopped")
    assert time.monotonic() - begin < 2
