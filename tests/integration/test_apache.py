"""Behind Apache's mod_proxy_fcgi, from apache.conf.example."""

import time

import pytest

from client import Session, Stream, png_size

FIGURE = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"


@pytest.fixture(scope="module", params=["/", "/tools/python"])
def apache(request, sandbox):
    from harness import Server
    one = Server(sandbox.url, front="apache", mount=request.param,
                 processes=2)
    yield one
    one.stop()


def test_program_runs_through_apache(apache):
    with Session(apache) as session:
        assert session.path.startswith(apache.prefix + "/messages/?session")
        result = session.call("print('by way of Apache')")
        assert result.stdout == "by way of Apache\n"


def test_figure_comes_back_through_apache(apache):
    with Session(apache) as session:
        result = session.call(FIGURE)
        assert png_size(result.images[0])


def test_T15_events_come_when_sent(apache):
    begin = time.monotonic()
    with Stream(apache.address, apache.prefix + "/sse",
                {"Accept-Encoding": "gzip"}) as stream:
        assert stream.next_event(1).name == "endpoint"
        assert time.monotonic() - begin < 1
        stream.wait_comment(2)
        assert stream.headers["x-accel-buffering"] == "no"


def test_answers_of_refusals_pass_untouched(apache):
    answer = apache.request("POST", "/messages/?session_id=" + "0" * 48,
                            '{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert answer.status == 404 and answer.json()["error"]
    answer = apache.request("GET", "/messages/")
    assert answer.status == 405 and "POST" in answer.headers["allow"]
    answer = apache.request("GET", "/sse",
                            headers={"Origin": "http://evil.example"})
    assert answer.status == 403


def test_body_without_a_length_passes_apache(apache):
    from client import Connection, Deadline, build_head
    body = b'{"jsonrpc":"2.0","id":"chunked","method":"ping"}'
    with Session(apache) as session:
        with Connection(apache.address) as conn:
            conn.send(build_head(apache.address, "POST", session.path, {
                "Content-Type": "application/json", "Connection": "close",
                "Transfer-Encoding": "chunked"}))
            for i in range(0, len(body), 7):
                part = body[i:i + 7]
                conn.send(b"%x\r\n%s\r\n" % (len(part), part))
            conn.send(b"0\r\n\r\n")
            assert conn.head(Deadline(10))[0] == 202
        assert session.wait("chunked")["result"] == {}


def test_posts_land_in_any_process(apache):
    with Session(apache) as session:
        for _ in range(20):
            assert session.request("ping")["result"] == {}
