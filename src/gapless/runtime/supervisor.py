"""What a worker reports to its service manager, in systemd's protocol of notifications.

The manager names a socket in `NOTIFY_SOCKET` and gets datagrams with a `NAME=value` on each line:
the worker is ready, it is stopping, what it does. If it also sets `WATCHDOG_USEC`, it expects a
sign of life at least that often. The signs come from the event loop: a worker whose loop hangs
sends none, and one that waits for its ledger does, since a restart would not help it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from gapless.runtime.engine import Engine

STATUS_EVERY = 10.0  # seconds


class Supervisor:
    """The service manager of this process, if it has one."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name  # an abstract one
        self._watchdog = _watchdog_seconds(environment)
        self._stopping = False

    @property
    def is_there(self) -> bool:
        return bool(self._address)

    def tell(self, *lines: str) -> None:
        """Sends a datagram; a manager that does not listen must not end a worker."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto("\n".join(lines).encode(), self._address)

    def stopping(self) -> None:
        """Tells that the worker takes nothing new."""
        self._stopping = True
        self.tell("STOPPING=1", "STATUS=Finishing in-flight work")

    async def keep_informed(self, engine: Engine) -> None:
        """Sends what the worker does, and signs of life, again and again."""
        pause = STATUS_EVERY if self._watchdog is None else min(STATUS_EVERY, self._watchdog / 2)
        while True:
            lines = [] if self._stopping else [f"STATUS={status(engine)}"]
            if self._watchdog is not None:
                lines.append("WATCHDOG=1")
            if lines:
                self.tell(*lines)
            await asyncio.sleep(pause)


@asynccontextmanager
async def supervised(engine: Engine) -> AsyncIterator[Supervisor]:
    """Tells the service manager that the engine is at work, and for how long."""
    supervisor = Supervisor()
    if not supervisor.is_there:
        yield supervisor
        return
    supervisor.tell("READY=1")
    informing = asyncio.create_task(supervisor.keep_informed(engine))
    try:
        yield supervisor
    finally:
        informing.cancel()


def status(engine: Engine) -> str:
    """What a worker does, in one line."""
    assert engine.worker is not None
    busy, slots = engine.worker.running.total(), sum(engine.worker.slots.values())
    completed = engine.worker.ended["completed"]
    return f"{busy:,} of {slots:,} slots busy, {completed:,} chunks completed"


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """How often a sign of life is expected of this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # it is expected of another one
    microseconds = environment.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdecimal() and int(microseconds) else None
