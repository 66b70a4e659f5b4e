"""The progress of a fetch: blocks fetched and stored, rate, time left, and why it waits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.blocks.counts import Counts
from gapless.cli.display import RecentRate, Smoothed
from gapless.cli.progress import FetchLine, FetchSnapshot
from gapless.cli.waiting import Waiting
from gapless.core.ranges import RangeSet, Span
from gapless.providers import Served

AT = FetchSnapshot("custom", 10_000, 4_200, 4_900, 812.0, 1_624.0, 7.1)


FETCH: Any = SimpleNamespace(
    spec=SimpleNamespace(network="custom"), span=Span(0, 9), missing=RangeSet.of((0, 9))
)
BACKFILL: Any = SimpleNamespace(chunks=SimpleNamespace(failed=0))


def pipeline_with(counts: Counts) -> Any:
    pool = SimpleNamespace(in_flight=2)
    return SimpleNamespace(counts=counts, pool=pool, writing=RangeSet())


def run_with(pipeline: Any) -> Any:
    """A fetch that runs only in this process."""

    class Run:
        session = SimpleNamespace(**vars(FETCH), pool=pipeline.pool)

        @property
        def counts(self) -> Counts:
            found: Counts = pipeline.counts
            return found

    run: Any = Run()
    run.pipeline = pipeline
    return run


def test_blocks_fetched_and_stored_rate_and_time_left() -> None:
    assert AT.text(80) == (
        "custom  42.0%  4.2k/10.0k stored  4.9k fetched  812/s  eta 7.1s  1.6k calls/s"
    )
    assert "━━━━━━━━╸" in AT.text(120)


@pytest.mark.parametrize("width", [20, 40, 79, 80, 120])
def test_the_line_fits_the_terminal(width: int) -> None:
    troubled = replace(AT, retries=3, refused=4, waiting=Waiting("x" * 200, 90))
    assert len(AT.text(width)) <= width
    assert len(troubled.text(width)) <= width


def test_the_reason_for_waiting_replaces_the_rate() -> None:
    waiting = replace(AT, waiting=Waiting("disk full on chain.db", 12.3), chunks_waiting=4)
    assert waiting.text(120).endswith(
        "4.9k fetched  waiting 12s: disk full on chain.db  4 chunks waiting"
    )
    assert str(Waiting("paused")) == "waiting: paused"
    assert waiting.fields()["waiting"] == {"reason": "disk full on chain.db", "seconds": 12.3}


def test_an_endpoint_that_is_down_is_named() -> None:
    endpoints = {"a": Served(calls=9), "rpc2": Served(trouble="HTTP 401", down=True)}
    assert (
        FetchSnapshot("custom", 10, 5, 5, endpoints=endpoints)
        .text(120)
        .endswith("5/10 stored  rpc2: HTTP 401")
    )


def test_the_live_line_shows_what_is_known_about_the_endpoints() -> None:
    counts = Counts(blocks=5, endpoints={"a": Served(calls=9), "rpc2": Served(refused=3)})
    snapshot = FetchLine(run_with(pipeline_with(counts))).at(BACKFILL, 1.0, None)
    assert snapshot.text(120).endswith("5/10 stored  rpc2: 3 answers refused")


def test_the_rate_covers_the_last_ten_seconds() -> None:
    rate = RecentRate()
    slow = [rate.after(float(second), 10 * second) for second in range(101)]
    fast = [rate.after(100.0 + second, 1_000 + 500 * second) for second in range(1, 12)]
    assert (slow[-1], fast[-1]) == (10, 500)


def test_the_time_left_does_not_jump() -> None:
    smoothed, left = Smoothed(), []
    for step in range(300):
        bursts = 1_000.0 if step % 10 == 0 else 0.0
        rate = smoothed.after(step * 0.2, 100.0 if step < 120 else bursts)
        left.append(10_000 / rate)
    assert all(abs(after - before) < 0.15 * before for before, after in pairwise(left))


def test_blocks_that_a_failed_run_had_in_memory_do_not_count_as_fetched() -> None:
    pipeline = pipeline_with(Counts(fetched=8, at_hand=6, blocks=2))
    line = FetchLine(run_with(pipeline))
    line.at(BACKFILL, 100.0, None)
    pipeline.counts = Counts(fetched=9, at_hand=7, blocks=2)
    assert line.at(BACKFILL, 101.0, None).fetched == 9
    pipeline.counts = Counts(fetched=9, at_hand=0, blocks=2)  # the sink has failed
    failed = line.at(BACKFILL, 102.0, None)
    assert (failed.stored, failed.fetched) == (2, 2)
    assert failed.seconds_left is not None
    assert failed.seconds_left > 8


def test_silent_endpoints_are_the_reason_for_waiting() -> None:
    pipeline = pipeline_with(Counts(fetched=5))
    line = FetchLine(run_with(pipeline))
    assert [line.at(BACKFILL, now, None).waiting for now in (100.0, 104.9)] == [None, None]
    silent = line.at(BACKFILL, 112.0, None).waiting
    assert str(silent) == "waiting: no answer to 2 requests for 12s"
    pipeline.counts = Counts(fetched=6)
    assert line.at(BACKFILL, 113.0, None).waiting is None
    pipeline.writing = RangeSet.of((0, 5))  # the sink is what takes so long
    assert line.at(BACKFILL, 130.0, None).waiting is None


def test_an_interrupted_fetch_says_what_it_is_waiting_for() -> None:
    pipeline = pipeline_with(Counts())
    line = FetchLine(run_with(pipeline))
    assert line.finishing() == "finishing: 2 requests in flight"
    pipeline.writing = RangeSet.of((0, 99), (200, 299))
    assert line.finishing() == "finishing: writing blocks 0-99, 200-299, 2 requests in flight"
    pipeline.pool.in_flight, pipeline.writing = 0, RangeSet()
    assert line.finishing() == "finishing: recording what is stored"


def test_the_reason_is_given_once() -> None:
    endpoints = {"rpc": Served(trouble="HTTP 500", rest=9.0)}
    waiting = Waiting("rpc: HTTP 500", 9.0)
    text = FetchSnapshot("custom", 10, 5, 5, endpoints=endpoints, waiting=waiting).text(120)
    assert text.count("HTTP 500") == 1
