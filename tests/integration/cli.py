"""The command line under test: its environment, and what it leaves."""

import os
import shutil

from harness import check_sanitizers, clean_environment


def cli_environment(folder, more=None):
    """A table of the folder's own, where the sandbox is somebody else's."""
    return clean_environment(folder, {
        "PYTHON_SANDBOX_STATE_NAME": os.path.basename(folder),
        **(more or {})})


def remove_folder(folder):
    check_sanitizers(folder)
    shutil.rmtree(folder, ignore_errors=True)
    for name in os.listdir("/dev/shm"):
        if "." + os.path.basename(folder) + "." in name:
            os.unlink(os.path.join("/dev/shm", name))
