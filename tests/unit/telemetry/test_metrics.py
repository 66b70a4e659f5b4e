"""Metrics: how they are counted, and the page that Prometheus reads."""

from __future__ import annotations

import platform
import re
import socket
from collections.abc import AsyncIterator
from importlib.metadata import version

import pytest
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from gapless.core.errors import UsageError
from gapless.telemetry import metrics
from gapless.telemetry.exposition import served
from gapless.telemetry.metrics import METRICS, Histogram, MetricKind, Series
from tests.scraping import scraped


async def nothing() -> None: ...


@pytest.fixture
async def page() -> AsyncIterator[str]:
    async with served("127.0.0.1", 0, nothing) as port:
        yield f"http://127.0.0.1:{port}/metrics"


def test_a_series_counts_by_label_and_starts_at_zero() -> None:
    plain, by_label = Series("a", MetricKind.GAUGE, ""), Series("b", MetricKind.COUNTER, "", ("x",))
    assert (plain.values, by_label.values) == ({(): 0}, {})
    by_label.add(2, "one")
    by_label.add(3, "one")
    with plain.raised(5):
        assert plain.values == {(): 5}
    assert (plain.values, by_label.values) == ({(): 0}, {("one",): 5})


def test_a_gauge_decreases_even_after_an_error() -> None:
    gauge, seconds = Series("a", MetricKind.GAUGE, ""), Histogram("b", "", (60.0,))
    with pytest.raises(KeyError), gauge.raised(1), seconds.timed():
        raise KeyError
    assert gauge.values == {(): 0}
    assert seconds.counts == {(): [1, 0]}


def test_a_histogram_counts_values_up_to_each_limit() -> None:
    histogram = Histogram("a", "", (1.0, 5.0))
    for value in (0.5, 1.0, 1.1, 5.0, 5.1):
        histogram.observe(value)
    assert histogram.buckets(()) == [("1", 2), ("5", 4), ("+Inf", 5)]
    assert histogram.sums[()] == pytest.approx(12.7)


def test_counts_of_another_process_are_added_once() -> None:
    """It repeatedly reports everything it has counted since it started."""
    endpoint = "another-process"
    metrics.REFUSALS.add(2, endpoint, "slow_down")
    metrics.REQUEST_SECONDS.observe(0.5, endpoint)
    first = metrics.snapshot()
    metrics.REFUSALS.add(1, endpoint, "slow_down")
    second = metrics.snapshot()
    gauges = [
        each for each in METRICS if isinstance(each, Series) and each.kind is MetricKind.GAUGE
    ]
    assert not set(second) & {each.name for each in gauges if not each.highest}

    metrics.absorb(first, {})
    metrics.absorb(second, first)

    assert metrics.REFUSALS.values[endpoint, "slow_down"] == 3 + 3
    assert metrics.REQUEST_SECONDS.buckets((endpoint,))[-1] == ("+Inf", 1 + 1)
    assert metrics.REQUEST_SECONDS.sums[endpoint,] == 1.0


def test_the_maximum_covers_all_processes() -> None:
    labels = ("1", "another-process")
    metrics.STORED_HEIGHT.raise_to(7, *labels)
    metrics.STORED_HEIGHT.raise_to(5, *labels)
    assert metrics.STORED_HEIGHT.values[labels] == 7
    metrics.absorb({"gapless_stored_height": [(labels, [9.0])]}, {})
    metrics.absorb({"gapless_stored_height": [(labels, [8.0])]}, {})
    assert metrics.STORED_HEIGHT.values[labels] == 9


def test_names_follow_the_rules() -> None:
    known = {"backfill_duration_seconds", "blocks_backfilled_total", "backfill_workers"}
    for metric in METRICS:
        assert re.fullmatch(r"gapless_[a-z_]+", metric.name) or metric.name in known
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
        if metric.kind is MetricKind.HISTOGRAM:
            assert metric.name.endswith("_seconds"), metric.name
        assert metric.help.endswith(".")
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    constants = [each for each in vars(metrics).values() if isinstance(each, Series | Histogram)]
    assert {*constants} == {*METRICS}


async def test_the_page_contains_every_metric_and_its_type(page: str) -> None:
    async with ClientSession() as session, session.get(page) as answer:
        text = await answer.text()
        assert answer.content_type == "text/plain"
    for metric in METRICS:
        assert f"# TYPE {metric.name} {metric.kind}\n" in text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["backfill_duration_seconds"].type == "histogram"
    assert families["blocks_backfilled"].type == "counter"
    assert families["backfill_workers"].type == "gauge"


async def test_labels_and_buckets_are_those_that_were_counted(page: str) -> None:
    before = await scraped(page)
    endpoint = 'a"b\\c'
    metrics.REFUSALS.add(2, endpoint, "slow_down")
    metrics.REQUEST_SECONDS.observe(0.02, endpoint)
    now = await scraped(page) - before
    assert now["gapless_refusals_total", endpoint, "slow_down"] == 2
    assert now["gapless_request_seconds_bucket", endpoint, "0.025"] == 1
    assert now["gapless_request_seconds_bucket", endpoint, "0.01"] == 0
    assert now["gapless_request_seconds_count", endpoint] == 1


async def test_open_metrics_is_supported(page: str) -> None:
    wanted = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with ClientSession() as session, session.get(page, headers=wanted) as answer:
        assert answer.content_type == "application/openmetrics-text"
        assert (await answer.text()).endswith("# EOF\n")


async def test_the_build_is_exported(page: str) -> None:
    here = (platform.python_version(), version("gapless"))  # labels are sorted by name
    assert (await scraped(page))["gapless_build_info", *here] == 1


async def test_health_is_served_next_to_it() -> None:
    trouble: list[str | None] = [None, "the ledger was last reached 45 s ago"]
    async with served("127.0.0.1", 0, nothing, lambda: trouble.pop(0)) as port:
        page = f"http://127.0.0.1:{port}/healthz"
        async with ClientSession() as session:
            async with session.get(page) as well:
                assert (well.status, await well.text()) == (200, "ok\n")
            async with session.get(page) as ill:
                words = "the ledger was last reached 45 s ago\n"
                assert (ill.status, await ill.text()) == (503, words)


async def test_other_paths_are_not_found(page: str) -> None:
    async with ClientSession() as session, session.get(page.removesuffix("/metrics")) as answer:
        assert answer.status == 404


async def test_closing_it_frees_the_port() -> None:
    async with served("127.0.0.1", 0, nothing) as port:
        await scraped(f"http://127.0.0.1:{port}/metrics")
    async with served("127.0.0.1", port, nothing) as again:
        assert again == port


async def test_an_unavailable_port_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} for metrics is in use") as refused:
            async with served("127.0.0.1", port, nothing):
                pass
    assert refused.value.hint == "use another port, or 0 for any free one"
    with pytest.raises(UsageError, match=r"cannot serve metrics at `203\.0\.113\.1:0`"):
        async with served("203.0.113.1", 0, nothing):
            pass
