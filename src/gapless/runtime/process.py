"""Who a process is, so that a worker can tell the dead ones of its own host from the living.

A pid is reused sooner or later, a container has pids of its own, and a reboot starts over; so the
host's name includes the boot and the pid namespace, and a process is known by its start time too.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from gapless.ledger.workers import Process


def this_process() -> Process:
    pid = os.getpid()
    return Process(_host(), pid, _started(pid))


def is_alive(process: Process) -> bool:
    """Whether a process of this host still runs; in doubt it does."""
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _started(process.pid) == process.started


def _host() -> str:
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


def _started(pid: int) -> str:
    """The kernel's start time of a process, or nothing where there is no /proc."""
    with contextlib.suppress(OSError):
        # The command name may hold spaces and brackets: fields count from the last bracket.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
