"""Commands that use a node on the test's own event loop, which can fail on request."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from gapless.devnode import Chain, DevNode
from gapless.devnode.wire import Ending, HttpRequest, Reply
from tests import forks
from tests.acceptance.commands import GAPLESS, Answer, Commands

PATIENCE = 60.0


class Patient(DevNode):
    """A node that answers a number of calls about blocks, and then hangs, fails or recovers."""

    def __init__(self, chain: Chain, *, well_for: int | None = None, **options: Any) -> None:
        super().__init__(chain, **options)
        self.well_for = well_for
        self.hangs = False
        self.about = b""  # only requests that contain this are affected
        self.asked = 0  # calls, answered or not
        self.ill = asyncio.Event()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def respond(self, request: HttpRequest) -> Reply:
        read = msgspec.json.decode(request.body)
        self.asked += len(read) if isinstance(read, list) else 1
        if self._is_ill(request.body):
            self.ill.set()
            if self.hangs:
                return Reply(b"", ending=Ending.HANGING)
            return Reply(b"out of order", status=500)
        return super().respond(request)

    def _is_ill(self, body: bytes) -> bool:
        if self.well_for is None or self.about not in body:
            return False
        return self.calls["eth_getBlockReceipts"] >= self.well_for


@dataclass
class Running:
    """A running command."""

    process: asyncio.subprocess.Process

    def signal(self, number: signal.Signals = signal.SIGINT) -> None:
        self.process.send_signal(number)

    async def ended(self, code: int) -> Answer:
        """Its output, once it has ended with this code."""
        async with asyncio.timeout(PATIENCE):
            stdout, stderr = await self.process.communicate()
        assert self.process.returncode == code, stderr.decode()
        assert b"Traceback" not in stderr, stderr.decode()
        return Answer(code, stdout.decode(), stderr.decode())

    async def says(self, text: str) -> str:
        """The first line on stderr that contains the text."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while text not in (line := (await self.process.stderr.readline()).decode()):
                assert line, f"it never said `{text}`"
        return line


@asynccontextmanager
async def running(
    gapless: Commands, *arguments: str, files: int | None = None
) -> AsyncIterator[Running]:
    """A command in the background, which may write no file of more than this many KiB."""
    command, environment = [str(gapless.folder / "gapless")], gapless.environment()
    if files is None:
        forks.shim(gapless.folder)
    else:  # which must not truncate compiled modules
        command = ["bash", "-c", f'ulimit -f {files} && exec "$@"', "-", str(GAPLESS)]
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": ""}
    process = await asyncio.create_subprocess_exec(
        *[*command, *arguments],
        cwd=gapless.folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def run(gapless: Commands, *arguments: str, code: int = 0) -> Answer:
    """Runs a command to its end."""
    return await asyncio.to_thread(gapless, *arguments, code=code)


async def run_json(gapless: Commands, *arguments: str, code: int = 0) -> Any:
    """What it prints with `--json`; everything else that it prints is JSON as well."""
    answer = await run(gapless, *arguments, "--json", code=code)
    for line in answer.stderr.splitlines():
        json.loads(line)
    return answer.json
