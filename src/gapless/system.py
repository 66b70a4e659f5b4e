"""What a process takes from the system it runs on: time, chance, threads, and who it is.

Nothing in the runtime or the data path asks the operating system for these directly. Whoever opens
an engine, a ledger, a sink or providers hands a `System` in, and a simulation hands in its own: so
the same code runs on a virtual clock, and one seed repeats every decision that was left to chance.

A pid is reused sooner or later, a container has pids of its own, and a reboot starts over. So the
host's name includes the boot and the pid namespace, and a process is known by its start time too.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import msgspec

from gapless.threads import SerialThread


class Process(msgspec.Struct, frozen=True):
    """A process as its host knows it: `started` tells it from a later one with the same pid."""

    host: str
    pid: int
    started: str


def this_process() -> Process:
    pid = os.getpid()
    return Process(_host(), pid, _stat(pid)[1])


def is_alive(process: Process) -> bool:
    """Whether a process of this host still runs; in doubt it does.

    A process that was killed stays in the process table until its parent has looked, which may be
    never.
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
    """The kernel's state and start time of a process, or nothing where there is no /proc."""
    with contextlib.suppress(OSError):
        # The command name may hold spaces and brackets: fields count from the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], fields[19]
    return "", ""


@dataclass(frozen=True)
class System:
    """Clocks, chance, threads and identity of a process.

    `clock` never goes back and agrees with the event loop's `time`: intervals are measured by it,
    and leases. `wall_clock` is the time of day, which may jump. `database_clock`, if given, is what
    the ledger's statements take for the time instead of their database's own clock.
    """

    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    database_clock: Callable[[], float] | None = None
    chance: Callable[[], float] = random.random
    random_bytes: Callable[[int], bytes] = secrets.token_bytes
    serial_thread: Callable[[str], SerialThread] = SerialThread
    executor: Callable[[int, str], Executor] = ThreadPoolExecutor
    process: Callable[[], Process] = this_process
    is_alive: Callable[[Process], bool] = is_alive

    def token(self, length: int) -> str:
        """A text of this many random bytes, in hexadecimal."""
        return self.random_bytes(length).hex()

    def uuid(self) -> str:
        """A random id that no other process draws."""
        return str(UUID(bytes=self.random_bytes(16), version=4))


SYSTEM = System()
"""The real one."""
