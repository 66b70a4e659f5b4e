"""`--metrics-port`: the numbers of a command in the foreground, for as long as it runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import click

from gapless.cli.options import note
from gapless.config import load
from gapless.runtime.engine import Engine
from gapless.runtime.gauges import forget_gauges, read_gauges

metrics_option = click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve /metrics and /healthz on this port; 0 picks a free one.",
)


LATELY = 30.0  # seconds: three heartbeats


class MetricsPage:
    """What is read anew for each request."""

    def __init__(self) -> None:
        self._engine: Engine | None = None

    @contextmanager
    def of(self, engine: Engine) -> Iterator[None]:
        """Shows the gauges of an engine while it is at work."""
        self._engine = engine
        try:
            yield
        finally:
            self._engine = None
            forget_gauges()

    async def refresh(self) -> None:
        if self._engine is not None:
            await read_gauges(self._engine)

    def trouble(self) -> str | None:
        """Why no chunk can be run here; None if the ledger was reached lately."""
        if self._engine is None:
            return "the worker is starting or has stopped"
        silence = time.monotonic() - self._engine.ledger.reached_at
        return f"the ledger was last reached {silence:.0f} s ago" if silence > LATELY else None


@asynccontextmanager
async def metrics_page(port: int | None, *, works: bool = True) -> AsyncIterator[MetricsPage]:
    """The page at this port, or at that of the configuration; without one, none is served.

    Nor is it for a command that does no work: the port may be that of a worker on this host.
    """
    config, page = load(), MetricsPage()
    if port is None:
        port = config.metrics_port
    if port is None or not works:
        yield page
        return
    from gapless.telemetry.exposition import served

    async with served(config.metrics_host, port, page.refresh, page.trouble) as taken:
        note(f"metrics: http://{config.metrics_host}:{taken}/metrics")
        yield page
