"""A fetch and a verification as functions of the package, async and blocking.

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

from gapless.blocks.block_pipeline import Plane, keep_profiles
from gapless.blocks.request import FetchOptions, wish_for
from gapless.blocks.session import Fetching, FetchResult, open_fetch, start
from gapless.blocks.stores import opened_store
from gapless.config import load
from gapless.core.errors import UsageError
from gapless.core.heights import text_of
from gapless.core.similar import known_names
from gapless.providers import Providers
from gapless.runtime.process import DEFAULT_LEDGER
from gapless.telemetry import log
from gapless.verification import Report

P = ParamSpec("P")
T = TypeVar("T")

_PROGRESS_EVERY = 0.5  # seconds


@dataclass(frozen=True)
class FetchProgress:
    """How far a fetch is."""

    fetched: int  # blocks that this run has written
    stored: int  # blocks of the range that are stored, with those from earlier runs
    total: int  # blocks of the range
    seconds: float  # since it began to fetch

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
    """Fetches blocks into a sink, to the end; what is stored already is not asked for again.

    Fetches that run at the same time share each provider's budget if they are given the same
    `providers`, which must be open.
    """
    if unknown := sorted(options.keys() - FetchOptions.__annotations__.keys()):
        raise UsageError(
            f"`fetch` has no option `{unknown[0]}`",
            hint=known_names(unknown[0], FetchOptions.__annotations__),
        )
    config = load()
    url = ledger or config.ledger or DEFAULT_LEDGER
    endpoints = [rpc] if isinstance(rpc, str) else rpc
    target = None if to is None else _target(to)
    wish, places = wish_for(config, network, text_of(heights), endpoints, target, options)
    async with open_fetch(wish, places.config, url, shared=providers) as fetching:
        if not fetching.missing:
            return await fetching.result()
        clock = fetching.providers.system.clock
        began = clock()
        with fetching.plane() as plane:
            engine, wanted = await fetching.engine()
            async with engine, _reporting(progress, fetching, plane, began):
                ended = await (await start(engine, plane, wanted)).wait()
                await keep_profiles(engine.ledger, wish.network.name, fetching.pool)
            return await fetching.result(plane.counts, ended, clock() - began)


async def verify(
    sink: str | Path,
    *,
    network: str | None = None,
    heights: str | range | tuple[int, int] | None = None,
    deep: bool = False,
    anchors: Sequence[str] = (),
    ledger: str | None = None,
) -> Report:
    """Proves from the stored rows that they are whole, or tells what is missing or wrong."""
    url = ledger or load().ledger or DEFAULT_LEDGER
    blocks = None if heights is None else text_of(heights)
    async with opened_store(url, _target(sink), network, blocks) as store:
        return await store.report(await store.known_hashes(anchors), deep=deep)


def _target(place: str | Path) -> str:
    """A path that ends in nothing is a folder: `Path` does not keep the slash that says so."""
    if isinstance(place, str):
        return place
    return str(place) if place.suffix else f"{place}/"


@asynccontextmanager
async def _reporting(
    progress: Callable[[FetchProgress], object] | None,
    fetching: Fetching,
    plane: Plane,
    began: float,
) -> AsyncIterator[None]:
    """Calls back now and then, and once at the end; an error there does not end the fetch."""
    if progress is None:
        yield
        return
    clock = fetching.providers.system.clock
    total, before = fetching.span.size, fetching.span.size - len(fetching.missing)

    def report() -> bool:
        counts = plane.counts
        stored = min(total, before + counts.blocks + counts.reproven)
        try:
            progress(FetchProgress(counts.blocks, stored, total, clock() - began))
        except Exception as error:  # noqa: BLE001 - whatever it is, blocks are still coming in
            log(logging.WARNING, "progress_failed", error=f"{type(error).__name__}: {error}")
            return False
        return True

    async def report_regularly() -> None:
        while True:
            if not report():
                return
            await asyncio.sleep(_PROGRESS_EVERY)

    reporting = asyncio.create_task(report_regularly())
    try:
        yield
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
            f"`{run.__name__}` would block the event loop that is running here",
            hint=f"write `await gapless.{function.__name__}(…)`",
        )

    run.__name__ = run.__qualname__ = f"{function.__name__}_sync"
    return run


fetch_sync = _blocking(fetch)
verify_sync = _blocking(verify)
