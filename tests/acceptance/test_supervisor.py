"""A worker notifies its service manager with systemd's protocol; tested on a real socket."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gapless.runtime.supervisor import Supervisor
from tests.acceptance.commands import Commands
from tests.waiting import eventually


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager, with a name as systemd may choose it."""
    name = f"{tmp_path}/notify" if request.param == "path" else f"\0gapless-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name)
        listening.setblocking(False)
        yield listening


def name_of(manager: socket.socket) -> str:
    name = manager.getsockname()
    return "@" + name[1:].decode() if isinstance(name, bytes) else str(name)


def messages_to(manager: socket.socket) -> Callable[[], list[str]]:
    """All lines that the manager has received so far."""
    lines: list[str] = []

    def heard() -> list[str]:
        while True:
            try:
                lines.extend(manager.recv(4096).decode().splitlines())
            except BlockingIOError:
                return lines

    return heard


async def test_a_worker_reports_ready_alive_and_stopping(
    sqlite_gapless: Commands, manager: socket.socket
) -> None:
    gapless, messages = sqlite_gapless, messages_to(manager)
    gapless.start("held", "--id", "h", "--range", "0:9")
    environment = {"NOTIFY_SOCKET": name_of(manager), "WATCHDOG_USEC": "100000"}
    with gapless.running("worker", "--poll", "50ms", env=environment) as worker:
        await eventually(lambda: "READY=1" in messages())
        await eventually(lambda: "STATUS=1 of 4 slots busy, 0 chunks completed" in messages())
        await eventually(lambda: messages().count("WATCHDOG=1") > 3)
        assert "STOPPING=1" not in messages()
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=20)
    assert messages().count("READY=1") == messages().count("STOPPING=1") == 1
    assert worker.returncode == 0


async def test_no_watchdog_messages_unless_expected_of_this_process(
    sqlite_gapless: Commands, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{tmp_path}/notify")
        manager.setblocking(False)
        environment = {"NOTIFY_SOCKET": name_of(manager), "WATCHDOG_USEC": "1000"}
        sqlite_gapless("worker", "--until-idle", env={**environment, "WATCHDOG_PID": "1"})
        assert messages_to(manager)() == [
            "READY=1",
            "STATUS=0 of 4 slots busy, 0 chunks completed",
            "STOPPING=1",
            "STATUS=Finishing in-flight work",
        ]


def test_a_manager_that_does_not_listen_is_harmless(sqlite_gapless: Commands) -> None:
    sqlite_gapless("worker", "--until-idle", env={"NOTIFY_SOCKET": "/nowhere/at/all"})
    Supervisor({}).tell("READY=1")
