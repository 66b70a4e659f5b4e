"""Text and figures of the command line: pure functions of values."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.cli import render
from gapless.cli.display import CLEAR, ProgressDisplay
from gapless.cli.output import to_json
from gapless.cli.suggestions import Commands
from gapless.core.backfill import Lifecycle, State, Stop
from gapless.core.chunk import Order
from gapless.core.ranges import RangeSet
from gapless.core.retry import RetryPolicy
from gapless.core.text import plain
from gapless.ledger.records import Backfill, ChunkCounts, DeadLetter
from gapless.runtime.explain import Explanation
from gapless.views.backfills import (
    BackfillView,
    backfill_details,
    backfill_view,
    explanation_view,
    retry_view,
)
from gapless.views.chunks import dead_letter_view
from gapless.views.figures import counted, cut, duration, moment, short

NOON = 1_700_000_000.0


def counts(**changed: int) -> ChunkCounts:
    usual = {
        "total": 10,
        "planned": 10,
        "pending": 0,
        "running": 0,
        "complete": 0,
        "failed": 0,
        "abandoned": 0,
        "cancelled": 0,
    }
    return ChunkCounts(**(usual | changed))


def backfill(
    state: State = State.RUNNING, stopping: Stop | None = None, **changed: Any
) -> Backfill:
    found = Backfill(
        id="bf_7k2",
        job="jobs:copy",
        job_version=1,
        spec={},
        selector={"kind": "range", "start": "0", "end": "9999"},
        selection="0" * 64,
        partitions=10_000,
        chunk_size=1000,
        max_concurrent_runs=4,
        queue="default",
        order=Order.OLDEST,
        retry=RetryPolicy(),
        lease_seconds=60.0,
        timeout=None,
        lifecycle=Lifecycle("bf_7k2", state, 1, stopping),
        parent_backfill_id=None,
        retry_request_id=None,
        group=None,
        drift=None,
        error=None,
        created_at=NOON,
        started_at=NOON + 1,
        ended_at=NOON + 185 if state.ended else None,
        chunks=counts(),
        now=NOON + 200,
    )
    return replace(found, **changed)


def shown(
    state: State = State.RUNNING, stopping: Stop | None = None, **changed: Any
) -> BackfillView:
    return backfill_view(backfill(state, stopping, **changed))


def page(found: Backfill, *waiting: Explanation, hidden: int = 0) -> str:
    return render.backfill_page(backfill_details(found, waiting), found.now, hidden=hidden)


class TestFigures:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (-1, "0.0s"), (0, "0.0s"), (0.44, "0.4s"), (9.94, "9.9s"), (9.96, "10s"), (59.4, "59s"),
            (59.6, "1m00s"), (185, "3m05s"), (3599.6, "1h00m"), (7800, "2h10m"), (172_800, "2d00h"),
            (360_000, "4d04h"), (float("inf"), "1000d+"),
        ],
    )  # fmt: skip
    def test_durations(self, seconds: float, text: str) -> None:
        assert duration(seconds) == text

    @pytest.mark.parametrize(
        ("number", "text"),
        [
            (0, "0"), (7, "7"), (0.4, "0.4"), (9.96, "10"), (950, "950"), (999.6, "1.0k"),
            (3100, "3.1k"), (99_960, "100k"), (14_300_000, "14.3M"), (2_000_000_000_000, "2000B"),
        ],
    )  # fmt: skip
    def test_short_numbers(self, number: float, text: str) -> None:
        assert short(number) == text

    def test_moments_are_in_utc(self) -> None:
        assert moment(NOON) == "2023-11-14T22:13:20Z"
        assert moment(1e300) == "9999-12-31T23:59:59Z"

    def test_counts(self) -> None:
        assert counted(1, "chunk") == "1 chunk"
        assert counted(2000, "chunk") == "2,000 chunks"
        assert counted(0, "retry", "retries") == "0 retries"

    @given(st.text())
    def test_plain_text_is_one_printable_line(self, text: str) -> None:
        assert plain(text).isprintable()
        assert plain(plain(text)) == plain(text)

    @given(st.text(), st.integers(0, 50))
    def test_cut_text_fits(self, text: str, width: int) -> None:
        assert len(cut(text, width)) <= max(width, 0)
        assert cut(text, len(text)) == text


class TestTable:
    def test_columns_are_aligned(self) -> None:
        assert render.table([("id", "state", ""), ("a", "RUNNING", "x"), ("long", "", "")]) == (
            "id    state\na     RUNNING  x\nlong"
        )

    @given(st.lists(st.tuples(st.text(), st.text()), min_size=1))
    def test_a_row_stays_one_line(self, rows: list[tuple[str, str]]) -> None:
        assert len(render.table(rows).split("\n")) == len(rows)

    def test_backfills(self) -> None:
        found = shown(chunks=counts(complete=7, failed=1, abandoned=2))
        row = render.backfill_table([found]).splitlines()[1]
        assert row.split() == [
            "bf_7k2", "RUNNING", "70.0%", "7/10", "3", "2023-11-14T22:13:20Z",
            "jobs:copy", "0:9999",
        ]  # fmt: skip

    def test_a_fetch_is_shown_by_network_range_and_sink(self) -> None:
        spec = {"network": "ethereum", "sink": "postgresql://reader:S3CRET@db.example/eth"}
        selector = {"kind": "range", "start": "18000000", "end": "18005000"}
        found = backfill(job="blocks", spec=spec, selector=selector)
        subject = "ethereum 18,000,000:18,005,000 → postgresql://db.example/…"
        assert render.backfill_table([backfill_view(found)]).endswith(subject)
        assert f"  fetch       {subject}\n" in page(found)

    def test_keys_that_are_not_heights_are_shown_as_they_are(self) -> None:
        days = {"kind": "range", "start": "2024-01-01", "end": "2024-02-01"}
        assert render.subject(shown(selector=days)) == "jobs:copy 2024-01-01:2024-02-01"

    def test_the_hook_of_a_sink(self) -> None:
        found = shown(job="finish", spec={"network": "custom", "sink": "chain.db"})
        assert render.subject(found) == "indexes of chain.db"

    def test_dead_letters(self) -> None:
        letter = DeadLetter(
            "b", "j", 3, RangeSet.of((1, 2)), ("1 to 2",), 5, 1, "Boom", "a\nb", NOON
        )
        row = render.dead_table([dead_letter_view(letter)]).splitlines()[1]
        assert row == "b:3    1 to 2      6      2023-11-14T22:13:20Z  Boom: a b"


class TestProgressLine:
    def test_everything_at_once(self) -> None:
        now = backfill(chunks=counts(complete=5, failed=1, abandoned=1, running=3))
        assert render.progress_line(now, 2.5) == (
            "bf_7k2  ━━━━━━━━━━━━╸───────────  50.0%  5/10 chunks  2.5k partitions/s  eta 1.6s"
            "  1 retrying  1 abandoned"
        )

    def test_nothing_known_yet(self) -> None:
        assert render.progress_line(backfill(State.PENDING), 0.0, "no worker") == (
            "bf_7k2  ╸───────────────────────  0.0%  0/10 chunks  PENDING  no worker"
        )

    def test_the_end(self) -> None:
        line = render.progress_line(backfill(chunks=counts(complete=10)), 2.0)
        assert line == f"bf_7k2  {'━' * 24}  100.0%  10/10 chunks  2.0k partitions/s"

    def test_a_standing_backfill_without_chunks(self) -> None:
        line = render.progress_line(backfill(chunks=counts(total=0, planned=0)), 0.0)
        assert line == f"bf_7k2  ╸{'─' * 23}  0.0%  0/0 chunks"

    def test_a_stop_is_shown(self) -> None:
        assert render.progress_line(backfill(stopping=Stop.CANCEL), 0.0).endswith("  cancelling")
        assert render.progress_line(backfill(stopping=Stop.HALT), 0.0).endswith("RUNNING, halting")

    @given(
        st.builds(
            counts,
            complete=st.integers(0, 10),
            failed=st.integers(0, 10),
            abandoned=st.integers(0, 10),
        ),
        st.floats(0, 1e9),
        st.text(max_size=200),
        st.integers(1, 200),
    )
    def test_it_always_fits(self, chunks: ChunkCounts, rate: float, why: str, width: int) -> None:
        line = render.progress_line(backfill(chunks=chunks), rate, why, width)
        assert len(line) <= width
        assert line.isprintable()

    def test_a_narrow_one_gives_up_the_bar_first(self) -> None:
        line = render.progress_line(backfill(chunks=counts(complete=5)), 0.0, width=35)
        assert line == "bf_7k2  50.0%  5/10 chunks"


class TestPage:
    def test_facts_that_are_there_and_no_others(self) -> None:
        text = page(backfill(chunks=counts(planned=4, pending=3, running=1)))
        names = [line.split()[0] for line in text.splitlines()[2:]]
        assert names == ["job", "selection", "chunks", "done", "retry", "created"]
        assert "done        0 complete, 1 running, 3 pending, 6 unplanned" in text

    def test_an_ended_one(self) -> None:
        ended = backfill(
            State.FAILED,
            chunks=counts(planned=4, complete=3, abandoned=1),
            parent_backfill_id="bf_1",
            group="wallets",
            drift="the filter selects nothing any more",
            error="Boom: it\nbroke",
            chunk_size=1,
        )
        text = page(ended)
        assert text.startswith("bf_7k2  FAILED  30.0%\n\n")
        assert "chunks      10 of 1 partition, oldest first, 4 at once, queue `default`" in text
        assert "done        3 complete, 1 abandoned, 6 never planned" in text
        assert "ended       2023-11-14T22:16:25Z after 3m04s" in text
        assert "group       wallets" in text
        assert "retry of    bf_1" in text
        assert "drift       the filter selects nothing any more" in text
        assert text.endswith("error       Boom: it broke")

    def test_why_chunks_wait(self) -> None:
        text = page(
            backfill(),
            Explanation(3, "FAILED", "backoff", "late", NOON + 260, "30 to 39"),
            Explanation(None, "6 UNPLANNED", "paused", "the backfill is paused"),
            hidden=1200,
        )
        assert text.splitlines()[-4:] == [
            "  chunk  partitions  status       why",
            "  3      30 to 39    FAILED       backoff  late until 2023-11-14T22:17:40Z (1m00s)",
            "                     6 UNPLANNED  paused   the backfill is paused",
            "  … and 1,200 more",
        ]

    @pytest.mark.parametrize(
        ("policy", "text"),
        [
            (
                RetryPolicy.backoff(retries=1),
                "backoff of 2m00s doubling to 1h00m, up to 25% more, abandoned after 1 retry",
            ),
            (
                RetryPolicy.unbounded(base=1, jitter=0),
                "unbounded of 1.0s doubling to 1h00m, up to 0% more, never abandoned",
            ),
            (RetryPolicy.schedule(5, 90), "schedule of 5.0s, 1m30s, then abandoned"),
            (RetryPolicy.halt(), "halt at the first failure"),
        ],
    )
    def test_policies(self, policy: RetryPolicy, text: str) -> None:
        assert render.retry_text(retry_view(policy)) == text

    @pytest.mark.parametrize(
        ("selector", "text"),
        [
            ({"kind": "range", "start": "0", "end": "+5"}, "0:+5"),
            ({"kind": "filter", "tags": {"layer": "2", "kind": "evm"}}, "layer=2 kind=evm"),
            ({"kind": "explicit", "keys": ["a", "b"], "more": 0}, "a, b"),
            ({"kind": "explicit", "keys": ["a"], "more": 1200}, "a, 1,200 more"),
        ],
    )
    def test_selectors(self, selector: dict[str, Any], text: str) -> None:
        assert render.selector_text(selector) == text


class TestOutcome:
    def test_plan(self) -> None:
        assert render.plan(shown()) == (
            "jobs:copy 0:9999: 10,000 partitions in 10 chunks, 4 at once, queue `default`"
        )

    def test_success(self) -> None:
        done = backfill(State.SUCCEEDED, chunks=counts(complete=10))
        assert render.outcome(done) == "bf_7k2 SUCCEEDED in 3m04s: 10 of 10 chunks complete"
        assert render.next_step(backfill_view(done), (), Commands()) is None

    def test_failure(self) -> None:
        failed = shown(
            State.FAILED, chunks=counts(complete=7, abandoned=3), error="Boom: x (chunk 1)"
        )
        assert render.failure(failed) == "3 chunks failed: Boom: x (chunk 1)"
        assert render.next_step(failed, (), Commands()) == (
            "`gapless dead ls bf_7k2` lists what failed,"
            " `gapless backfill retry-failed bf_7k2` retries it"
        )

    def test_a_halt_leaves_some_undone(self) -> None:
        halted = shown(State.FAILED, chunks=counts(planned=5, complete=4, abandoned=1))
        assert render.failure(halted) == "1 chunk failed, 5 never completed"

    def test_what_to_do_with_one_that_has_not_ended(self) -> None:
        assert render.next_step(shown(), (), Commands()) is None
        assert render.outcome(backfill()).startswith("bf_7k2 RUNNING after 3m19s: ")
        paused = render.next_step(shown(State.PAUSED), (), Commands())
        assert paused == "`gapless backfill resume bf_7k2` resumes it"
        cancelling = render.next_step(shown(State.PAUSED, Stop.CANCEL), (), Commands())
        assert cancelling is not None
        assert "`gapless backfill cancel --force bf_7k2` ends them now" in cancelling
        cancelled = shown(State.CANCELLED, Stop.CANCEL)
        assert render.next_step(cancelled, (), Commands()) == (
            "`gapless backfill retry-failed bf_7k2` runs what is left"
        )

    def test_a_worker_is_asked_for_where_none_is(self) -> None:
        lonely = [explanation_view(Explanation(None, "10 UNPLANNED", "no_worker", ""))]
        assert render.next_step(shown(), lonely, Commands()) == "`gapless worker` runs it"
        assert render.next_step(shown(queue="backlog"), lonely, Commands()) == (
            "`gapless worker --slots backlog=4` runs it"
        )


class Screen(io.StringIO):
    """A stream that says whether it is a terminal; it has no size, so 80 columns count."""

    def __init__(self, *, live: bool) -> None:
        super().__init__()
        self._live = live

    def isatty(self) -> bool:
        return self._live


class TestDisplay:
    def test_without_a_terminal_a_line_every_ten_seconds(self) -> None:
        screen, now = Screen(live=False), [0.0]
        with ProgressDisplay(stream=screen, clock=lambda: now[0]) as display:
            for second in range(36):
                now[0] = float(second)
                display.show(backfill(chunks=counts(complete=second // 5)))
        lines = screen.getvalue().splitlines()
        assert [line.split()[3] for line in lines] == ["2/10", "4/10", "6/10"]
        assert "\r" not in screen.getvalue()
        assert "\x1b" not in screen.getvalue()

    def test_on_a_terminal_the_line_is_rewritten_and_gone_at_the_end(self) -> None:
        screen = Screen(live=True)
        with ProgressDisplay(stream=screen, clock=lambda: 0.0) as display:
            display.show(backfill())
            display.say("something happened")
            display.show(backfill())
        first, second, third, end = screen.getvalue().split(CLEAR)[1:]
        assert first == third
        assert first.startswith("bf_7k2  ╸")
        assert len(first) < 80
        assert second == "something happened\n"
        assert end == ""

    def test_the_pace_of_chunks_is_that_of_the_last_half_minute(self) -> None:
        screen, now = Screen(live=True), [0.0]
        display = ProgressDisplay(stream=screen, clock=lambda: now[0])
        for second, complete in ((0, 5), (10, 6), (100, 6), (110, 7)):
            now[0] = second
            screen.truncate(screen.seek(0))
            display.show(backfill(chunks=counts(complete=complete)))
        assert "100 partitions/s  eta 30s" in screen.getvalue()


class TestJson:
    def test_a_backfill_in_full(self) -> None:
        text = to_json(shown(State.SUCCEEDED))
        assert '"id": "bf_7k2"' in text
        assert '"ended_at": "2023-11-14T22:16:25Z"' in text
        assert '"total": 10' in text

    def test_times_may_be_missing(self) -> None:
        assert '"started_at": null' in to_json(shown(started_at=None))
        waiting = explanation_view(Explanation(1, "PENDING", "paused", ""))
        assert '"until": null' in to_json(waiting)

    def test_failed_runs_are_there_only_for_one_chunk(self) -> None:
        assert '"attempts"' not in to_json(backfill_details(backfill(), []))
        assert '"attempts": []' in to_json(backfill_details(backfill(), [], []))

    def test_numbers_of_a_policy_are_there_even_if_they_are_the_defaults(self) -> None:
        assert '"lost_limit": 10' in to_json(retry_view(RetryPolicy()))
