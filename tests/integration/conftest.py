"""Fixtures, and what holds after each test of this folder."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from client import Session  # noqa: E402
from fakes import Gate  # noqa: E402
from harness import Sandbox, Server  # noqa: E402

MUST_WORK = os.environ.get("MUST_WORK") == "1"


def pytest_configure(config):
    for char in "sx":       # skipped and expected failures are listed
        if char not in config.option.reportchars:
            config.option.reportchars += char


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.skipped and MUST_WORK and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under MUST_WORK=1: {report.longrepr}"
    if report.failed and report.when == "call":
        for server in Server.every:
            report.sections.append((f"logs of {server.folder}",
                                    server.logs()[-6000:]))


@pytest.fixture(scope="session")
def sandbox():
    """sandboxd, or the sandbox that SNEKBOX_URL names."""
    box = Sandbox()
    yield box
    box.stop()


@pytest.fixture(scope="session")
def server(sandbox):
    """lighttpd with four responders, mounted at /."""
    one = Server(sandbox.url)
    yield one
    one.stop()


@pytest.fixture(scope="session")
def sub_server(sandbox):
    """The same mounted at /tools/python, with other settings' values."""
    one = Server(sandbox.url, mount="/tools/python", processes=2)
    yield one
    one.stop()


@pytest.fixture
def start_server(sandbox):
    """Starts servers of a test's own; they end with the test."""
    started = []

    def start(url=None, **kw):
        started.append(Server(sandbox.url if url is None else url, **kw))
        return started[-1]

    yield start
    for one in started:
        try:
            one.check()
        finally:
            one.stop()


@pytest.fixture
def session(server):
    with Session(server) as one:
        yield one


@pytest.fixture
def gate(sandbox):
    one = Gate(sandbox.url)
    yield one
    one.close()


@pytest.fixture(autouse=True)
def still_well():
    """After each test: the servers live, and their descriptors are back."""
    yield
    for one in [*Sandbox.every, *Server.every]:
        one.check()
