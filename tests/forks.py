"""Commands in processes of their own, without starting Python anew for each of them.

One process has imported all of Gapless and forks for every command. What runs is a real process
with its own exit code, folder, environment and files; only the half second of imports is spared,
which a suite of hundreds of commands would spend most of its time on.

`run` runs a command to its end. `shim` puts a `gapless` into a folder, for scripts: it passes on
arguments, environment, files and signals. A command whose caller was killed is killed too.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
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
from typing import Any, NoReturn

_STREAMS = 3
_SHIM = """#!{python} -IS
import json, os, signal, socket, sys
caller = socket.socket(socket.AF_UNIX)
caller.connect({path!r})
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: caller.send(bytes([number])))
request = dict(arguments=sys.argv[1:], cwd=os.getcwd(), env=dict(os.environ))
socket.send_fds(caller, [json.dumps(request).encode() + b"\\n"], [0, 1, 2])
code = int(caller.makefile().read() or 1)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -signal.SIGKILL else None
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """`gapless` with these arguments, run to its end."""
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile("w+") as stdout,
        tempfile.TemporaryFile("w+") as stderr,
        socket.socket(socket.AF_UNIX) as caller,
    ):
        caller.settimeout(timeout)
        caller.connect(_server())
        request = {"arguments": [*map(str, arguments)], "cwd": str(cwd), "env": dict(env)}
        streams = [nothing.fileno(), stdout.fileno(), stderr.fileno()]
        socket.send_fds(caller, [json.dumps(request).encode() + b"\n"], streams)
        code = int(caller.makefile().read())
        for stream in (stdout, stderr):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())


def shim(folder: Path) -> None:
    """Puts a `gapless` into a folder."""
    file = folder / "gapless"
    file.write_text(_SHIM.format(python=sys.executable, path=_server()))
    file.chmod(0o755)


@cache
def _server() -> str:
    """Where the process that forks listens; it ends with this one."""
    folder = tempfile.TemporaryDirectory(prefix="gapless-forks-")
    path = f"{folder.name}/socket"
    process = subprocess.Popen(
        [sys.executable, __file__, path], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()

    def end() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        folder.cleanup()

    atexit.register(end)
    return path


def _serve(path: str) -> NoReturn:
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    print("ready", flush=True)
    gc.freeze()  # so that a child leaves the pages alone that it shares with us
    callers: dict[socket.socket, int] = {}
    ends: dict[int, socket.socket] = {}
    while True:
        watched: list[socket.socket | int] = [server, *callers, *ends]
        for ready in select.select(watched, [], [])[0]:
            if ready is server:
                caller, _ = server.accept()
                callers[caller] = child = _started(caller)
                ends[os.pidfd_open(child)] = caller
            elif isinstance(ready, int):
                caller = ends.pop(ready)
                _, status = os.waitpid(callers.pop(caller), 0)
                os.close(ready)
                with caller, suppress(BrokenPipeError):
                    caller.send(b"%d" % os.waitstatus_to_exitcode(status))
            elif ready in callers:
                for number in ready.recv(64) or [signal.SIGKILL]:
                    os.kill(callers[ready], number)


def _started(caller: socket.socket) -> int:
    """The process of a command, for whoever asks for it."""
    request, streams, _, _ = socket.recv_fds(caller, 1 << 16, _STREAMS)
    while not request.endswith(b"\n"):
        request += caller.recv(1 << 16)
    child = os.fork()
    if not child:
        _become(json.loads(request), streams)
    for stream in streams:
        os.close(stream)
    return child


def _become(command: dict[str, Any], streams: list[int]) -> NoReturn:
    """Makes of this process the one of a command."""
    from gapless.cli import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(_STREAMS, max(streams) + 1)  # those of other commands too
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    sys.argv = ["gapless", *command["arguments"]]
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX")
    code = 1
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - as Python itself would end
        traceback.print_exc()
    finally:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)  # as it is for the command itself
    import gapless

    for module in pkgutil.walk_packages(gapless.__path__, "gapless."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    _serve(sys.argv[1])
