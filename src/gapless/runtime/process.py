"""Who a process is and whose, so that a worker can tell its host's dead ones from the living.

A pid is reused sooner or later, a container has pids of its own, and a reboot starts over; so the
host's name includes the boot and the pid namespace, and a process is known by its start time too.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
from pathlib import Path

from gapless.ledger.workers import Process

DEFAULT_LEDGER = "sqlite:///.gapless/ledger.db"
"""Where a process finds its ledger if nobody says otherwise."""


def this_process() -> Process:
    pid = os.getpid()
    return Process(_host(), pid, _stat(pid)[1])


def is_alive(process: Process) -> bool:
    """Whether a process of this host still runs; in doubt it does.

    One that was killed stays in the process table until its parent has looked, which may be never.
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


def actor() -> str:
    """Whose name stands beside an event."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
