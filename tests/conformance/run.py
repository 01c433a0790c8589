"""Runs the official conformance suite against the server under lighttpd:
    run.py FOLDER REVISION…
The suite and the Node.js that it needs are installed into FOLDER by npm. What
may fail stands, with its reason, in expected-REVISION.yml."""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

from harness import Sandbox, Server  # noqa: E402

PACKAGES = ["node@22.23.3", "@modelcontextprotocol/conformance@0.2.0-alpha.12"]
SECONDS = 300


def install(folder):
    binary = os.path.join(folder, "node_modules", ".bin", "conformance")
    if not os.path.exists(binary):
        if shutil.which("npm") is None:
            sys.exit("conformance: npm is missing (Debian package npm)")
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["npm", "install", "--prefix", folder, "--no-audit",
                        "--no-fund", "--silent", *PACKAGES], check=True)
    return binary


def main(folder, revisions):
    folder = os.path.abspath(folder)
    binary = install(folder)
    path = os.path.join(folder, "node_modules", "node", "bin")
    env = {**os.environ, "PATH": path + ":" + os.environ["PATH"]}
    sandbox = Sandbox()
    server = Server(sandbox.url)
    failed = []
    try:
        for revision in revisions:
            done = subprocess.run(
                [binary, "server", "--url", "http://%s:%d/mcp"
                 % server.address, "--requirements", revision,
                 "--expected-failures",
                 os.path.join(HERE, f"expected-{revision}.yml")],
                env=env, cwd=folder, timeout=SECONDS, capture_output=True,
                text=True, check=False)
            shown = done.stdout[done.stdout.find("=== SUMMARY"):]
            print(f"== {revision}", shown, done.stderr[-2000:], sep="\n")
            if done.returncode != 0:
                failed.append(revision)
        server.check()
    finally:
        server.stop()
        sandbox.stop()
    print("conformance:", f"{len(revisions) - len(failed)} passed, "
          f"{len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
