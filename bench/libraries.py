"""What is written by hand although a library does it, against that library.

Each is also kept for something that the library does not do; its module says what.
"""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import asyncpg
import pyarrow as pa
from prometheus_client import Counter
from prometheus_client import Histogram as PrometheusHistogram
from pyarrow import csv

from bench import places
from bench.rendered import SMALL
from bench.report import Bound, Row, at_least, median, median_ratio, per_second
from bench.writing import batches_of
from gapless.chains.evm.tables import TRANSACTIONS
from gapless.export.writers import CsvWriter
from gapless.postgres.connections import Connections
from gapless.schema.layout import Layout, native_fields
from gapless.telemetry.metrics import Histogram, MetricKind, Series

ROUNDS = 5
UPDATES = 100_000
TRANSACTIONS_A_ROUND = 500
BATCH = 1_000

LABELS = ("archive", "eth_getBlockByNumber", "answered")
NAMES = ("endpoint", "method", "outcome")
LIMITS = (0.005, 0.05, 0.5, 5.0)
QUERY = "SELECT relname FROM pg_class WHERE oid = $1"

FASTER = at_least(1.2)


async def measure() -> AsyncIterator[Row]:
    for row in (*_metrics(), _imports(), _csv()):
        yield row
    async for row in _pools():
        yield row


def _metrics() -> Iterator[Row]:
    series = Series("ours_total", MetricKind.COUNTER, "Ours.", NAMES)
    counter = Counter("theirs", "Theirs.", NAMES, registry=None)
    histogram = Histogram("ours_seconds", "Ours.", LIMITS, NAMES)
    other = PrometheusHistogram("their_seconds", "Theirs.", NAMES, registry=None, buckets=LIMITS)
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "counter": (lambda: series.add(1, *LABELS), lambda: counter.labels(*LABELS).inc()),
        "histogram": (
            lambda: histogram.observe(0.1, *LABELS),
            lambda: other.labels(*LABELS).observe(0.1),
        ),
    }
    for name, (ours, theirs) in pairs.items():
        rates = _rates(UPDATES, partial(_repeat, ours), partial(_repeat, theirs))
        yield _compared(f"updates of a {name}, of prometheus-client's", *rates, FASTER)


def _repeat(update: Callable[[], object]) -> None:
    for _ in range(UPDATES):
        update()


def _imports() -> Row:
    ours = "import gapless.telemetry.metrics"
    seconds = {
        code: median(_started(code) for _ in range(ROUNDS))
        for code in (ours, f"{ours}, prometheus_client")
    }
    alone, both = seconds.values()
    name = "imports of prometheus-client, milliseconds"
    return Row(name, f"{1000 * (both - alone):.0f} after {1000 * alone:.0f}")


def _started(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def _csv() -> Row:
    layout = Layout(TRANSACTIONS, native_fields(TRANSACTIONS.columns), {})
    stored = [batch.tables[TRANSACTIONS.name] for batch in batches_of(SMALL, BATCH)]
    rows = layout.rows(pa.concat_tables(stored), {})
    rates = _rates(
        len(rows),
        lambda: CsvWriter(layout, io.BytesIO()).write(rows),
        lambda: csv.write_csv(rows, io.BytesIO()),
    )
    return _compared("rows of CSV, of pyarrow's writer", *rates)


async def _pools() -> AsyncIterator[Row]:
    with places.postgres() as place:
        url = place.server.url("postgres")
        ours = Connections(url, 4)

        async def ask_ours() -> None:
            async with ours.lend() as connection, connection.transaction("BEGIN"):
                await connection.fetch(QUERY, [1], prepared=True)

        for name, size in (("", 100), (", no statement cache", 0)):
            theirs = await asyncpg.create_pool(
                url, min_size=1, max_size=4, statement_cache_size=size
            )

            async def ask_theirs(pool: asyncpg.Pool = theirs) -> None:
                async with pool.acquire() as connection, connection.transaction():
                    await connection.fetch(QUERY, 1)

            rates: tuple[list[float], list[float]] = ([], [])
            for turn in range(ROUNDS):
                ways = [(rates[0], ask_ours), (rates[1], ask_theirs)]
                for found, ask in ways[:: -1 if turn % 2 else 1]:
                    found.append(await _asked(ask))
            await theirs.close()
            yield _compared(f"transactions, of asyncpg's pool{name}", *rates, FASTER)
        await ours.close()


async def _asked(ask: Callable[[], Awaitable[None]]) -> float:
    """Transactions per second."""
    await ask()
    began = time.perf_counter()
    for _ in range(TRANSACTIONS_A_ROUND):
        await ask()
    return TRANSACTIONS_A_ROUND / (time.perf_counter() - began)


def _rates(
    amount: int, ours: Callable[[], None], theirs: Callable[[], None]
) -> tuple[list[float], list[float]]:
    """The rates of each round, per second."""
    rates: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        ways = [(rates[0], ours), (rates[1], theirs)]
        for found, run in ways[:: -1 if turn % 2 else 1]:
            began = time.perf_counter()
            run()
            found.append(amount / (time.perf_counter() - began))
    return rates


def _compared(name: str, ours: list[float], theirs: list[float], bound: Bound | None = None) -> Row:
    figure = f"{per_second(median(ours))} of {per_second(median(theirs))}"
    return Row(name, figure, median_ratio(ours, theirs), bound)
