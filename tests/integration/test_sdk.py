"""The official SDK's SSE client drives the server."""

import asyncio
import base64
import time
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from mcp import ClientSession, types
from mcp.client.sse import sse_client

from client import png_size

TOOL = "execute_python_code"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"


@asynccontextmanager
async def connect(server):
    url = "http://%s:%d%s/sse" % (*server.address, server.prefix)
    async with sse_client(url, timeout=10) as (read, write):
        async with ClientSession(
                read, write,
                read_timeout_seconds=timedelta(seconds=30)) as session:
            session.info = await session.initialize()
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
            assert session.info.capabilities.tools is not None
            assert session.info.serverInfo.name
            tools = (await session.list_tools()).tools
            assert [tool.name for tool in tools] == [TOOL]
            return await session.call_tool(TOOL, {"python_code": "print(6*7)"})

    result = run(main())
    assert not result.isError
    assert result.structuredContent["stdout"] == "42\n"


def test_figure_comes_back_as_image(server):
    async def main():
        async with connect(server) as session:
            return await session.call_tool(TOOL, {"python_code": PLOT})

    result = run(main())
    images = [b for b in result.content if isinstance(b, types.ImageContent)]
    assert len(images) == 1
    assert images[0].mimeType == "image/png"
    assert png_size(base64.b64decode(images[0].data))
    assert result.structuredContent["output_type"] == "plot"


def test_program_error_is_a_result(server):
    async def main():
        async with connect(server) as session:
            return await session.call_tool(
                TOOL, {"python_code": "raise ValueError('no good')"})

    result = run(main())
    assert result.isError
    assert "ValueError: no good" in result.content[0].text


def test_progress_reaches_the_callback_and_rises(server):
    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    async def main():
        async with connect(server) as session:
            return await session.call_tool(
                TOOL, {"python_code": "import time; time.sleep(2.5)"},
                progress_callback=note)

    assert not run(main()).isError
    values = [value for value, _, _ in seen]
    assert len(values) >= 2
    assert values == sorted(set(values))


def test_ping_is_answered_while_a_program_runs(server):
    async def main():
        async with connect(server) as session:
            call = asyncio.create_task(session.call_tool(
                TOOL, {"python_code": "import time; time.sleep(3)"}))
            await asyncio.sleep(0)
            for _ in range(5):
                begin = time.monotonic()
                await session.send_ping()
                assert time.monotonic() - begin < 1
            assert not call.done()
            return await call

    assert not run(main()).isError


def test_two_clients_in_parallel_get_their_own_answers(server):
    async def one(name):
        async with connect(server) as session:
            got = []
            for i in range(5):
                result = await session.call_tool(
                    TOOL, {"python_code": f"print('{name}', {i})"})
                got.append(result.structuredContent["stdout"])
            return got

    async def main():
        return await asyncio.gather(one("left"), one("right"))

    left, right = run(main())
    assert left == [f"left {i}\n" for i in range(5)]
    assert right == [f"right {i}\n" for i in range(5)]


def test_cancelled_call_leaves_the_session_usable(server):
    async def main():
        async with connect(server) as session:
            started = asyncio.Event()

            async def note(*_):
                started.set()

            call = asyncio.create_task(session.call_tool(
                TOOL, {"python_code": "while True: pass"},
                progress_callback=note))
            await asyncio.wait_for(started.wait(), 10)
            id = session._request_id - 1
            await session.send_notification(types.ClientNotification(
                types.CancelledNotification(
                    params=types.CancelledNotificationParams(
                        requestId=id, reason="enough"))))
            call.cancel()
            return await session.call_tool(TOOL, {"python_code": "print(1)"})

    result = run(main())
    assert result.structuredContent["stdout"] == "1\n"


def test_new_session_after_a_dropped_one(server):
    async def main():
        for _ in range(10):
            async with connect(server) as session:
                await session.send_ping()

    run(main())
