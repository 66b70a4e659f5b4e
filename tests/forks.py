"""Commands in their own processes, without starting a new Python for each.

One process has imported all of Gapless and forks for every command. Each command is a real process
with its own exit code, folder, environment and files. Only the half second of imports is saved,
which would be most of the time of a suite with hundreds of commands.

`run` runs a command to its end. `shim` puts a `gapless` into a folder, for scripts: it passes on
arguments, environment, files and signals. A command whose caller was killed is killed too. `start`
returns a process that is a child of the caller, to be killed, stopped and waited for.
"""

from __future__ import annotations

import atexit
import ctypes
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TextIO

_STREAMS = 3
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
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
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    prelude: str = "",
) -> subprocess.CompletedProcess[str]:
    """`gapless` with these arguments, run to its end, after the Python code of `prelude`."""
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile("w+") as stdout,
        tempfile.TemporaryFile("w+") as stderr,
        socket.socket(socket.AF_UNIX) as caller,
    ):
        caller.settimeout(timeout)
        caller.connect(_server())
        _ask(caller, (nothing, stdout, stderr), arguments, cwd, env, prelude=prelude)
        code = int(caller.makefile().read())
        for stream in (stdout, stderr):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())


@dataclass
class Forked:
    """A running command, with the part of `subprocess.Popen` that tests use."""

    pid: int
    stdout: TextIO
    returncode: int | None = None

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        self._wait(0)
        assert self.returncode is not None
        return self.returncode

    def communicate(self) -> str:
        """Its output once it has ended; empty if it was already read."""
        said = ""
        if not self.stdout.closed:
            with self.stdout:
                said = self.stdout.read()
        self.wait()
        return said

    def _wait(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def start(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stderr: TextIO,
    group: int,
    prelude: str = "",
) -> Forked:
    """`gapless` with these arguments, in a process group of this session, after `prelude`."""
    path = _server()
    reading, writing = os.pipe()
    with (
        Path(os.devnull).open() as nothing,
        os.fdopen(writing, "w") as stdout,
        socket.socket(socket.AF_UNIX) as caller,
        _adopting_orphans(),
    ):
        caller.connect(path)
        streams = (nothing, stdout, stderr)
        _ask(caller, streams, arguments, cwd, env, group=group, prelude=prelude)
        return Forked(int(caller.makefile().read()), os.fdopen(reading))


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Meanwhile, a descendant whose parent ends becomes a child of this process."""
    libc = ctypes.CDLL(None)
    libc.prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_ADOPT_ORPHANS, 0, 0, 0, 0)


def _ask(
    caller: socket.socket,
    streams: Sequence[TextIO],
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    **more: int | str,
) -> None:
    request = {"arguments": [*map(str, arguments)], "cwd": str(cwd), "env": dict(env), **more}
    files = [each.fileno() for each in streams]
    socket.send_fds(caller, [json.dumps(request).encode() + b"\n"], files)


def shim(folder: Path) -> None:
    """Puts a `gapless` into a folder."""
    file = folder / "gapless"
    file.write_text(_SHIM.format(python=sys.executable, path=_server()))
    file.chmod(0o755)


@cache
def _server() -> str:
    """Where the forking process listens; it ends with this one."""
    folder = tempfile.TemporaryDirectory(prefix="gapless-forks-")
    path = f"{folder.name}/socket"
    process = subprocess.Popen(
        [sys.executable, __file__, path], stdout=subprocess.PIPE, process_group=0
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
    gc.freeze()  # so that a child does not touch the pages that it shares with us
    callers: dict[socket.socket, int] = {}
    ends: dict[int, socket.socket] = {}
    while True:
        watched: list[socket.socket | int] = [server, *callers, *ends]
        for ready in select.select(watched, [], [])[0]:
            if ready is server:
                caller, _ = server.accept()
                if child := _started(caller):
                    callers[caller] = child
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


def _started(caller: socket.socket) -> int | None:
    """The process of a command, for its caller; None if it is the caller's own child."""
    request, streams, _, _ = socket.recv_fds(caller, 1 << 16, _STREAMS)
    while not request.endswith(b"\n"):
        request += caller.recv(1 << 16)
    command = json.loads(request)
    child = None
    if "group" in command:
        with caller:
            caller.send(b"%d" % _orphaned(command, streams))
    elif not (child := os.fork()):
        _become(command, streams)
    for stream in streams:
        os.close(stream)
    return child


def _orphaned(command: dict[str, Any], streams: list[int]) -> int:
    """The process of a command, left by its parent to be adopted."""
    reading, writing = os.pipe()
    parent = os.fork()
    if not parent:
        child = os.fork()
        if child:
            os.write(writing, b"%d" % child)
            os._exit(0)
        os.close(reading)
        os.close(writing)
        os.setpgid(0, command["group"])
        _become(command, streams)
    os.waitpid(parent, 0)
    child = int(os.read(reading, 32))
    os.close(reading)
    os.close(writing)
    return child


def _become(command: dict[str, Any], streams: list[int]) -> NoReturn:
    """Turns this process into that of a command."""
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
        exec(command.get("prelude", ""), {})
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
