"""The publishers of a process, one for each that it is told to run.

A worker runs them beside its chunks, and so does `gapless follow`. Many processes may run the same
publisher: the stream lets one lead, and the others stand by. A server that does not answer is tried
again and again; once it does, the feeder finds what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from gapless.config import Config
from gapless.core.errors import GaplessError, PublisherError
from gapless.publishers.feeder import Feeder
from gapless.publishers.publication import Publication, publication
from gapless.publishers.publisher import Publisher
from gapless.publishers.rows import StoredBlocks
from gapless.system import SYSTEM, System
from gapless.telemetry import log, metrics

_POLL = 0.1  # seconds between two looks at the sink
_AGAIN = 2.5  # seconds between two looks at a stream that lacks nothing, which renews the lease
_STANDBY = 2.5  # seconds between two tries to lead
_RETRY = 1.0  # seconds after an error
_TIDY_EVERY = 5.0  # seconds
_RESIGNING, _ENDING = 1.0, 2.0  # seconds to give up the lease, and to end
SPOOL_BLOCKS = 10_000
"""How many published blocks a spool keeps, in case the server loses the newest entries."""


@dataclass
class PublisherStatus:
    """What a publisher shows about itself."""

    leads: bool = False
    complete_to: int | None = None
    missing: int = 0
    trouble: str | None = None


class PublisherLoop:
    """Runs one publisher until it is cancelled."""

    def __init__(
        self, name: str, resolve: Callable[[], Publication], owner: str, system: System = SYSTEM
    ) -> None:
        """`resolve` looks up names, and may raise: variables differ between hosts."""
        self.name, self.status = name, PublisherStatus()
        self._resolve, self._owner, self._system = resolve, owner, system
        self._tidied_at = system.clock()

    async def run(self) -> None:
        while True:
            try:
                await self._session()
            except GaplessError as error:
                self._note(error)
            except Exception as error:  # noqa: BLE001 - one publisher must not end the others
                log(logging.ERROR, "publisher_failed", publisher=self.name, error=error)
            self._show_leading(leads=False)
            await asyncio.sleep(_RETRY)

    async def _session(self) -> None:
        """Publishes from one connection until an error; nothing outlives it."""
        wanted = self._resolve()
        async with AsyncExitStack() as stack:
            blocks = await stack.enter_async_context(wanted.opened_sink(system=self._system))
            stream = await stack.enter_async_context(wanted.connected(self._owner))
            stack.push_async_callback(_resign, stream)
            feeder = wanted.feeder(blocks, stream)
            while True:
                published = await feeder.turn()
                self._show(feeder, published)
                if published is None:
                    await asyncio.sleep(_STANDBY)
                    continue
                await self._tidy(wanted, blocks, stream, feeder)
                await asyncio.sleep(0)
                if not published:
                    await self._idle(feeder)

    async def _idle(self, feeder: Feeder) -> None:
        """Waits for a change of the sink, without asking the server."""
        until = self._system.clock() + _AGAIN
        while self._system.clock() < until:
            await asyncio.sleep(_POLL)
            if await feeder.has_changes():
                return

    def _show(self, feeder: Feeder, published: int | None) -> None:
        self._note(None)
        self._show_leading(leads=published is not None)
        if published is None:
            return
        self.status.complete_to = feeder.record.complete_to
        self.status.missing = len(feeder.missing)
        metrics.UNPUBLISHED.set(self.status.missing, self.name)
        if self.status.complete_to is not None:
            metrics.PUBLISHED_HEIGHT.set(self.status.complete_to, self.name)

    def _show_leading(self, *, leads: bool) -> None:
        self.status.leads = leads
        metrics.PUBLISHES.set(int(leads), self.name)

    async def _tidy(
        self, wanted: Publication, blocks: StoredBlocks, stream: Publisher, feeder: Feeder
    ) -> None:
        """Trims the stream and the spool from time to time, where that is wanted."""
        if self._system.clock() - self._tidied_at < _TIDY_EVERY:
            return
        self._tidied_at = self._system.clock()
        if wanted.trim is not None:
            await stream.trim(wanted.trim)
        done = feeder.record.complete_to
        if wanted.expires and done is not None and done >= SPOOL_BLOCKS:
            await blocks.sink.expire(blocks.chain_id, done + 1 - SPOOL_BLOCKS)

    def _note(self, error: GaplessError | None) -> None:
        """Says once that something is wrong, and once that it is over."""
        trouble = None if error is None else str(error)
        if trouble and not self.status.trouble:
            log(logging.WARNING, "publisher_troubled", publisher=self.name, error=error)
        elif self.status.trouble and not trouble:
            log(logging.INFO, "publisher_recovered", publisher=self.name)
        self.status.trouble = trouble


def _itself(wanted: Publication) -> Publication:
    return wanted


async def _resign(stream: Publisher) -> None:
    with suppress(PublisherError, TimeoutError):  # the lease ends by itself
        async with asyncio.timeout(_RESIGNING):
            await stream.resign()


class RunningPublishers:
    """The publishers of a process."""

    def __init__(self, loops: Iterable[PublisherLoop]) -> None:
        self.loops = tuple(loops)
        self._tasks = [
            asyncio.create_task(each.run(), name=f"publish-{each.name}") for each in self.loops
        ]

    def stop(self) -> None:
        """Lets all publishers end, without waiting for them."""
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        """Waits until all publishers have ended, once they were told to.

        The client uses `asyncio.wait_for`, which may lose a cancellation before Python 3.12. So a
        publisher that has not ended in time is told again.
        """
        while pending := [task for task in self._tasks if not task.done()]:
            if (await asyncio.wait(pending, timeout=_ENDING))[1]:
                self.stop()


@asynccontextmanager
async def publishing(
    config: Config, more: Iterable[Publication] = (), system: System = SYSTEM
) -> AsyncIterator[RunningPublishers]:
    """Runs the publishers of the configuration and some more."""
    process = system.process()
    owner = f"{process.host.split('/')[0]}:{process.pid}:{system.token(3)}"
    resolvers = {name: partial(publication, config, name) for name in config.publish}
    resolvers |= {each.name: partial(_itself, each) for each in more}
    running = RunningPublishers(
        PublisherLoop(name, resolve, owner, system) for name, resolve in resolvers.items()
    )
    try:
        yield running
    finally:
        running.stop()
        await running.ended()
