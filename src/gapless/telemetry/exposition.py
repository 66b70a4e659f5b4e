"""The metrics of this process in the Prometheus formats, and HTTP pages for metrics and health.

    async with served("127.0.0.1", 9464, refresh, trouble) as port: ...

An application with its own registry can register `Numbers()` there instead.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from aiohttp import web
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gapless.core.errors import UsageError
from gapless.telemetry.metrics import BUILD, METRICS, Histogram, MetricKind, Series

_PATIENCE = 1.0  # seconds for a scrape in progress when the server closes


class Numbers(Collector):
    """All metrics at the time of a scrape."""

    def collect(self) -> Iterator[Metric]:
        BUILD.set(1, version("gapless"), platform.python_version())
        for metric in METRICS:
            yield _histogram(metric) if isinstance(metric, Histogram) else _series(metric)


def _series(series: Series) -> Metric:
    kind = CounterMetricFamily if series.kind is MetricKind.COUNTER else GaugeMetricFamily
    family = kind(series.name, series.help, labels=series.labels)
    for labels, value in series.values.items():
        family.add_metric(labels, value)
    return family


def _histogram(histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(histogram.name, histogram.help, labels=histogram.labels)
    for labels, total in histogram.sums.items():
        family.add_metric(labels, histogram.buckets(labels), total)
    return family


@asynccontextmanager
async def served(
    host: str,
    port: int,
    refresh: Callable[[], Awaitable[None]],
    trouble: Callable[[], str | None] = lambda: None,
) -> AsyncIterator[int]:
    """Serves `/metrics` and `/healthz`; yields the port, which is any free one if 0 is given.

    `refresh` is awaited before each scrape. `trouble` returns why the process cannot work, or None
    if it can.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Numbers())

    async def metrics(request: web.Request) -> web.Response:
        await refresh()
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    async def health(_request: web.Request) -> web.Response:
        reason = trouble()
        return web.Response(text=f"{reason or 'ok'}\n", status=503 if reason else 200)

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/healthz", health)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_PATIENCE)
    await runner.setup()
    try:
        await _bind(web.TCPSite(runner, host, port), host, port)
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _bind(site: web.TCPSite, host: str, port: int) -> None:
    try:
        await site.start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} for metrics is in use", hint="use another port, or 0 for any free one"
            ) from None
        raise UsageError(
            f"cannot serve metrics at `{host}:{port}`: {error.strerror}",
            hint="use a port above 1023 and an address of this host",
        ) from None
