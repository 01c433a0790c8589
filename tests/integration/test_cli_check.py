"""python-sandbox check: the operator's doctor."""

import json
import os
import shutil
import subprocess

import pytest

from cli import cli_environment, remove_folder
from harness import (BUILD, SANDBOXD, make_folder, run_as)


@pytest.fixture
def check():
    folder = make_folder()
    for program in (os.path.join(BUILD, "python-sandbox"), SANDBOXD):
        shutil.copy(program, folder)

    def run(*argv, **env):
        return subprocess.run(
            [os.path.join(folder, "python-sandbox"), "check", *argv],
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
            cwd=folder, env=cli_environment(folder, env), timeout=60,
            **run_as()[0])

    run.folder = folder
    yield run
    remove_folder(folder)


def states(done):
    told = json.loads(done.stdout)
    assert told["ok"] == (done.returncode == 0)
    for one in told["checks"]:
        assert (one["state"] == "ok") == (one["cure"] == "")
    return {one["name"]: one for one in told["checks"]}


def test_all_is_well_with_a_sandbox_of_its_own(check):
    done = check("--json")
    found = states(done)
    assert done.returncode == 0, done.stdout
    for name in ("settings", "sandbox", "python", "numpy", "matplotlib",
                 "pandas", "bubblewrap", "user namespaces", "limits",
                 "web server"):
        assert found[name]["state"] == "ok", found[name]
    assert found["python"]["found"].startswith("3.")
    assert "cgroups" in found and "fonts" in found


def test_a_given_sandbox_is_asked(check, sandbox):
    done = check("--json", SNEKBOX_URL=sandbox.url)
    assert done.returncode == 0
    assert sandbox.url in states(done)["sandbox"]["found"]


def test_a_sandbox_that_is_not_there(check):
    done = check(SNEKBOX_URL="http://127.0.0.1:1/eval")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("fault"))
    assert "sandbox" in lines[at] and "Connection refused" in lines[at]
    assert "cure: " in lines[at + 1] and "snekbox_url" in lines[at + 1]
    assert lines[-1] == "there are faults"


def test_a_wrong_setting(check):
    done = check("--json", PYTHON_SANDBOX_BODY_MAX="1")
    assert done.returncode == 1
    assert "body_max" in states(done)["settings"]["found"]


def test_no_bubblewrap_and_no_sandboxd(check):
    os.unlink(os.path.join(check.folder, "sandboxd"))
    done = check("--json", PATH="/nowhere")
    assert done.returncode == 1
    found = states(done)
    assert found["sandbox"]["state"] == "fault"
    assert found["bubblewrap"]["found"] == "/usr/bin/bwrap"
