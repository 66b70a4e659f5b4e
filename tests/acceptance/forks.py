"""Commands in processes of their own, without starting Python anew for each of them.

One process has imported all of Gapless and forks for every command. What runs is a real process
with its own exit code, folder, environment and files; only the half second of imports is spared,
which a suite of hundreds of commands would spend most of its time on.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_REQUEST = 1 << 20


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """`gapless` with these arguments, run to its end."""
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile("w+") as stdout,
        tempfile.TemporaryFile("w+") as stderr,
    ):
        request = {"arguments": [*map(str, arguments)], "cwd": str(cwd), "env": dict(env)}
        streams = [nothing.fileno(), stdout.fileno(), stderr.fileno()]
        code = _server().ask(json.dumps(request).encode(), streams, timeout)
        for stream in (stdout, stderr):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())


class _Server:
    """The process that forks, as seen from a test."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self._end)

    def ask(self, request: bytes, streams: list[int], timeout: float) -> int:
        assert len(request) < _REQUEST
        self._socket.settimeout(timeout)
        socket.send_fds(self._socket, [request], streams)
        try:
            return int(self._socket.recv(64))
        except TimeoutError:
            self._end()
            _server.cache_clear()
            raise

    def _end(self) -> None:
        """Ends it, and what it runs."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


@cache
def _server() -> _Server:
    return _Server()


def _serve(requests: socket.socket) -> None:
    while True:
        request, streams, _, _ = socket.recv_fds(requests, _REQUEST, 3)
        if not request:
            return
        child = os.fork()
        if not child:
            requests.close()
            _become(json.loads(request), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        requests.send(b"%d" % os.waitstatus_to_exitcode(status))


def _become(command: dict[str, Any], streams: list[int]) -> None:
    """Makes of this process the one of a command."""
    from gapless.cli import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    sys.argv = ["gapless", *command["arguments"]]
    sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX")
    code = 1
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as Python itself would end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)  # as it is for the command itself
    import gapless

    for module in pkgutil.walk_packages(gapless.__path__, "gapless."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    _serve(socket.socket(fileno=int(sys.argv[1])))
