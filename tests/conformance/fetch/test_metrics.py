"""The metrics of a fetch match its summary, to the last call, even if nodes make trouble."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

import gapless
from gapless.devnode import Chain, DevNode, Limits
from gapless.telemetry.exposition import served
from tests.conformance.fetch.stage import HEAD
from tests.scraping import Scrape, scraped

SPAN = HEAD - 64 + 1
CHUNK = 50


async def nothing() -> None: ...


async def measured(folder: Path, *nodes: DevNode) -> tuple[gapless.FetchResult, Scrape]:
    """A fetch, and what it added to the metrics page."""
    async with served("127.0.0.1", 0, nothing) as port:
        page = f"http://127.0.0.1:{port}/metrics"
        before = await scraped(page)
        result = await gapless.fetch(
            "custom",
            f"0:{SPAN - 1}",
            rpc=[node.url for node in nodes],
            to=f"{folder}/chain.db",
            ledger=f"sqlite:///{folder}/ledger.db",
            chunk_size=CHUNK,
            batch_size=20,
        )
        return result, await scraped(page) - before


def calls(page: Scrape, *outcomes: str) -> Counter[str]:
    """Calls by method, with these outcomes or all."""
    found: Counter[str] = Counter()
    for (name, *labels), count in page.items():
        if name == "gapless_calls_total" and count:
            _, method, outcome = labels
            if not outcomes or outcome in outcomes:
                found[method] += int(count)
    return found


def summed(page: Scrape, wanted: str) -> float:
    return sum(value for (name, *_), value in page.items() if name == wanted)


async def test_a_fetch_without_trouble(tmp_path: Path, node: DevNode) -> None:
    result, page = await measured(tmp_path, node)
    assert (result.fetched, result.gaps.spans) == (SPAN, ())
    assert page["blocks_backfilled_total",] == result.fetched
    assert page["gapless_batches_written_total",] == result.batches
    assert page["gapless_sink_write_seconds_count",] == result.batches
    assert calls(page, "answered") == calls(page) == result.calls
    assert summed(page, "gapless_request_seconds_count") == result.requests
    assert summed(page, "gapless_refusals_total") == result.retries == 0
    chain = str(result.spec.chain_id)
    rows = {
        labels[1]: count
        for (name, *labels), count in page.items()
        if count and (name, labels[:1]) == ("gapless_rows_written_total", [chain])
    }
    assert rows == result.rows
    chunks = -(-SPAN // CHUNK)
    assert page["gapless_actions_total", "chunk_completed"] == chunks
    assert page["backfill_duration_seconds_count",] == 1
    assert 0 < page["backfill_duration_seconds_sum",] <= result.seconds
    assert page["backfill_workers",] == summed(page, "gapless_requests_in_flight") == 0


async def test_trouble_is_counted_by_endpoint_and_kind(
    tmp_path: Path, chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gapless")
    faults = "malformed=0.2,truncated@113*2"
    async with DevNode(chain, faults=faults, limits=Limits(max_batch=10)) as node:
        result, page = await measured(tmp_path, node)
        name = node.url.removeprefix("http://")
    assert (result.fetched, result.gaps.spans) == (SPAN, ())
    assert page["gapless_actions_total", "answer_refused"] == result.refused > 0
    assert result.retries > 0
    assert summed(page, "gapless_calls_repeated_total") == result.retries
    assert calls(page) == result.calls
    assert calls(page, "unanswered").total() >= result.retries
    assert page["gapless_refusals_total", name, "smaller_batch"] > 0
    assert page["gapless_refusals_total", name, "again"] > 0
    endpoints = {key[1] for key in page if key[0] == "gapless_calls_total" and page[key]}
    assert endpoints == {name}
    logged = [vars(each)["fields"] for each in caplog.records if "action" in vars(each)]
    (started,) = (each["worker"] for each in logged if "slots" in each)
    refused = [each for each in logged if "height" in each]
    assert {each["worker"] for each in refused} == {started}
    assert {(each["chunk"], each["height"]) for each in refused} == {(f"{result.id}:2", 113)}
