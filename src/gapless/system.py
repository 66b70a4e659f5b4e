"""What a process gets from its operating system: time, randomness, threads and its identity.

The runtime and the data path never ask the operating system for these directly. The code that opens
an engine, a ledger, a sink or providers passes a `System` in, and a simulation passes its own: so
the same code runs on a virtual clock, and one seed reproduces every random decision.

Pids are reused, containers have their own pids, and a reboot starts over. So the host's name
includes the boot and the pid namespace, and a process is also identified by its start time.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import msgspec

from gapless.threads import LaneExecutor, SerialThread


class Process(msgspec.Struct, frozen=True):
    """A process of a host; `started` distinguishes it from a later one with the same pid."""

    host: str
    pid: int
    started: str


def this_process() -> Process:
    pid = os.getpid()
    return Process(_host(), pid, _stat(pid)[1])


def is_alive(process: Process) -> bool:
    """Whether a process of this host still runs; true if in doubt.

    A killed process stays in the process table until its parent reaps it, which may be never.
    """
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    state, started = _stat(process.pid)
    return started == process.started and state not in ("Z", "X")


def _host() -> str:
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


def _stat(pid: int) -> tuple[str, str]:
    """The kernel's state and start time of a process; empty if there is no /proc."""
    with contextlib.suppress(OSError):
        # The command name may contain spaces and brackets, so fields start at the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    return "", ""


def usable_cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def sync_folder(path: Path) -> None:
    """Makes the entries of a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class System:
    """The clocks, randomness, threads and identity of a process.

    `clock` is monotonic and agrees with the event loop's `time`; it measures intervals and leases.
    `wall_clock` is the time of day, which may jump. `database_clock`, if given, replaces the
    database's own clock in the ledger's statements.
    """

    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    database_clock: Callable[[], float] | None = None
    chance: Callable[[], float] = random.random
    random_bytes: Callable[[int], bytes] = secrets.token_bytes
    serial_thread: Callable[[str], SerialThread] = SerialThread
    executor: Callable[[int, str], Executor] = LaneExecutor
    cores: Callable[[], int] = usable_cores
    process: Callable[[], Process] = this_process
    is_alive: Callable[[Process], bool] = is_alive

    def token(self, length: int) -> str:
        """This many random bytes, in hexadecimal."""
        return self.random_bytes(length).hex()

    def uuid(self) -> str:
        """A random, universally unique id."""
        return str(UUID(bytes=self.random_bytes(16), version=4))


SYSTEM = System()
"""The real system."""
