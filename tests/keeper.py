"""Runs one test server, and ends it when the test run is gone, however that run ended.

`processes.py` starts this file as a process of its own for each server. Standard input is a pipe
whose other end only the test run holds: the kernel closes it at a normal exit and at a SIGKILL
alike, on every system. Then the server is shut down and its folders are removed. On Linux the
server ends even when the keeper itself is killed. The test run does not ask Linux for that: the
signal would come when the *thread* that started the server ends, and code between fork and exec is
unsafe where threads run.

The only argument is JSON: `command`, `log` (a file to append to), `user` and `group` (ids or null),
`folders` (removed when the test run is gone) and `pid_file` (null, or where a command that puts the
server into the background leaves its pid). The only output is the server's pid.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

PR_SET_PDEATHSIG = 1
SECONDS_TO_SHUT_DOWN = 5.0


def main() -> None:
    settings = json.loads(sys.argv[1])
    server = start(settings)
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    abandoned = threading.Event()
    threading.Thread(target=end_with_the_run, args=(server, abandoned), daemon=True).start()
    server.wait()
    if abandoned.is_set():
        for folder in settings["folders"]:
            shutil.rmtree(folder, ignore_errors=True)


def start(settings: dict[str, Any]) -> psutil.Process:
    options: dict[str, Any] = {"cwd": "/", "start_new_session": True}
    if sys.platform == "win32":
        options = {}
    if sys.platform == "linux":
        # Loaded here: after the change of user the import may find nothing it can read.
        libc = ctypes.CDLL(None)
        options["preexec_fn"] = lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    if settings["user"] is not None:
        options |= {"user": settings["user"], "group": settings["group"], "extra_groups": []}
    with Path(settings["log"]).open("ab") as log:
        process = subprocess.Popen(
            settings["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options
        )
    if settings["pid_file"] is None:
        return psutil.Process(process.pid)
    process.wait()
    return psutil.Process(int(Path(settings["pid_file"]).read_text().split()[0]))


def end_with_the_run(server: psutil.Process, abandoned: threading.Event) -> None:
    os.read(sys.stdin.fileno(), 1)  # not sys.stdin.read: its lock would be held at exit
    abandoned.set()
    with contextlib.suppress(psutil.Error):
        family = [server, *server.children(recursive=True)]
        if sys.platform != "win32":
            for process in family:
                process.resume()
            server.send_signal(signal.SIGINT)
            time.sleep(SECONDS_TO_SHUT_DOWN)  # the keeper is gone before that if the server obeys
        for process in family:
            with contextlib.suppress(psutil.Error):
                process.kill()


if __name__ == "__main__":
    main()
