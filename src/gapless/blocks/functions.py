"""The package's functions to fetch and verify blocks, async and blocking.

result = await gapless.fetch("ethereum", "18M:+5000", rpc="https://…", to="eth.db")
report = await gapless.verify("eth.db")
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, Unpack

from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.result import FetchResult
from gapless.blocks.running import FetchRun, SilentObserver, run_fetch
from gapless.blocks.session import open_fetch
from gapless.blocks.stores import opened_store
from gapless.config import load
from gapless.core.errors import UsageError
from gapless.core.heights import text_of
from gapless.core.similar import known_names
from gapless.providers import Providers
from gapless.runtime.engine import Engine
from gapless.runtime.process import DEFAULT_LEDGER
from gapless.telemetry import log
from gapless.verification import Report

P = ParamSpec("P")
T = TypeVar("T")

_PROGRESS_EVERY = 0.5  # seconds


@dataclass(frozen=True)
class FetchProgress:
    """The progress of a fetch."""

    fetched: int  # blocks that this run has written
    stored: int  # stored blocks of the range, including those from earlier runs
    total: int  # blocks of the range
    seconds: float  # since fetching started

    @property
    def blocks_per_second(self) -> float:
        return self.fetched / self.seconds if self.seconds else 0.0


async def fetch(
    network: str,
    heights: str | range | tuple[int, int],
    *,
    rpc: str | Sequence[str] = (),
    to: str | Path | None = None,
    ledger: str | None = None,
    progress: Callable[[FetchProgress], object] | None = None,
    providers: Providers | None = None,
    **options: Unpack[FetchOptions],
) -> FetchResult:
    """Fetches blocks into a sink and waits for the end; stored blocks are not fetched again.

    Concurrent fetches share each provider's budget if they are given the same open `providers`.
    """
    if unknown := sorted(options.keys() - FetchOptions.__annotations__.keys()):
        raise UsageError(
            f"`fetch` has no option `{unknown[0]}`",
            hint=known_names(unknown[0], FetchOptions.__annotations__),
        )
    config = load()
    url = ledger or config.ledger or DEFAULT_LEDGER
    endpoints = [rpc] if isinstance(rpc, str) else rpc
    target = None if to is None else target_of(to)
    request, targets = build_request(config, network, text_of(heights), endpoints, target, options)
    async with open_fetch(request, targets.config, url, shared=providers) as session:
        return await run_fetch(
            session, SilentObserver() if progress is None else _Reporting(progress)
        )


async def verify(
    sink: str | Path,
    *,
    network: str | None = None,
    heights: str | range | tuple[int, int] | None = None,
    deep: bool = False,
    anchors: Sequence[str] = (),
    ledger: str | None = None,
) -> Report:
    """Proves from the stored rows that they are complete, or reports what is missing or wrong."""
    config = load()
    url = ledger or config.ledger or DEFAULT_LEDGER
    blocks = None if heights is None else text_of(heights)
    async with opened_store(config, url, target_of(sink), network, blocks) as store:
        return await store.report(await store.known_hashes(anchors), deep=deep)


def target_of(place: str | Path) -> str:
    """A path without a suffix is a folder: `Path` drops the trailing slash that would say so."""
    if isinstance(place, str):
        return place
    return str(place) if place.suffix else f"{place}/"


class _Reporting(SilentObserver):
    """Calls a function regularly and at the end; its errors do not stop the fetch."""

    def __init__(self, progress: Callable[[FetchProgress], object]) -> None:
        self._progress = progress

    @asynccontextmanager
    async def running(self, engine: Engine, run: FetchRun) -> AsyncIterator[asyncio.Event]:
        session, clock = run.session, run.session.providers.system.clock
        total, before = session.span.size, session.span.size - len(session.missing)
        began = clock()

        def report() -> bool:
            counts = run.counts
            stored = min(total, before + counts.blocks + counts.reproven)
            try:
                self._progress(FetchProgress(counts.blocks, stored, total, clock() - began))
            except Exception as error:  # noqa: BLE001 - no error of the callback stops the fetch
                log(logging.WARNING, "progress_failed", error=f"{type(error).__name__}: {error}")
                return False
            return True

        async def report_regularly() -> None:
            while True:
                if not report():
                    return
                await asyncio.sleep(_PROGRESS_EVERY)

        async with super().running(engine, run) as interrupted:
            reporting = asyncio.create_task(report_regularly())
            try:
                yield interrupted
                if not reporting.done():
                    report()
            finally:
                reporting.cancel()


def _blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same function for code without an event loop."""

    @wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(function(*arguments, **named))
        raise UsageError(
            f"`{run.__name__}` would block the running event loop",
            hint=f"use `await gapless.{function.__name__}(…)`",
        )

    run.__name__ = run.__qualname__ = f"{function.__name__}_sync"
    return run


fetch_sync = _blocking(fetch)
verify_sync = _blocking(verify)
