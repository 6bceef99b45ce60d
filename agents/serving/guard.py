"""Runs a command in its own process group and ends the group when standard input closes, that is, when whoever started
this has gone, however it went. Run by path, it imports nothing of the project: `python guard.py COMMAND ...`."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

GRACE = 20.0  # seconds between asking the group to end and ending it


def _end(group: int, child: subprocess.Popen) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)


def main(command: list[str]) -> int:
    # The group of the child alone: this process must outlive it to see to the rest.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    gone = threading.Event()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        gone.set()

    threading.Thread(target=watch, daemon=True).start()
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, lambda *_: gone.set())
    while child.poll() is None and not gone.is_set():
        time.sleep(0.05)
    _end(child.pid, child)  # also workers that a child which died by itself has left behind
    code = child.returncode
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
