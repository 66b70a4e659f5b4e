"""The comparison with other tools counts what it claims to count, and its page reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from bench.conditions import Conditions
from bench.peers.bounds import bounds
from bench.peers.counting import Count, compared, counted, truth
from bench.peers.measuring import task_of
from bench.peers.page import page
from bench.peers.providers import FAULTY_CALLS, LATENCY, METERED, PROVIDERS, RATE_LIMIT, Provider
from bench.peers.results import FAULTS, Cell, Part, Results, Speed, Trial
from bench.peers.running import Ran, Task, finished, run
from bench.peers.tools import CRYO, ETHEREUM_ETL, GAPLESS, Output
from bench.rendered import LARGE, SMALL, Rendered

CHAIN = Rendered(
    [
        memoryview(b'{"transactions":[]}'),
        memoryview(b'{"transactions":[{"hash":"0xa"},{"hash":"0xb"}]}'),
        memoryview(b'{"transactions":[{"hash":"0xc"}]}'),
    ],
    [
        memoryview(b"[]"),
        memoryview(b'[{"logs":[{},{}]},{"logs":[{}]}]'),
        memoryview(b'[{"logs":[]}]'),
    ],
)
RIGHT = Count()
KEYS = {
    "blocks": frozenset({(1,), (2,)}),
    "transactions": frozenset({(1, 0), (1, 1), (2, 0)}),
    "logs": frozenset({(1, 0), (1, 1), (1, 2)}),
}


def test_expected_rows_come_from_the_chain() -> None:
    assert truth(CHAIN, range(1, 3)) == KEYS


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([(1,), (2,)], Count()),
        ([(2,), (1,)], Count()),
        ([(1,)], Count(lost=1)),
        ([(1,), (2,), (2,), (2,)], Count(doubled=2)),
        ([(1,), (1,)], Count(lost=1, doubled=1)),
        ([(1,), (2,), (3,)], Count(doubled=1)),
        ([], Count(lost=2)),
    ],
)
def test_lost_and_extra_rows_are_counted(rows: list[tuple[int]], count: Count) -> None:
    assert compared(rows, KEYS["blocks"]) == count


def test_all_files_of_a_table_are_counted_in_any_format(tmp_path: Path) -> None:
    pq.write_table(pa.table({"block_number": [1], "other": ["x"]}), tmp_path / "blocks-1.parquet")
    pq.write_table(pa.table({"block_number": [1], "other": ["y"]}), tmp_path / "blocks-2.parquet")
    rows = pa.table({"text": ['a,"b"', "c"], "block": [1, 2], "at": [0, 0]})
    csv.write_csv(rows, tmp_path / "transactions.csv")
    (tmp_path / "logs.csv").touch()  # from a tool that failed before its first row
    outputs = {
        "blocks": Output("blocks-*.parquet", ("block_number",)),
        "transactions": Output("transactions.csv", ("block", "at")),
        "logs": Output("logs.csv", ("block", "at")),
    }
    assert counted(tmp_path, outputs, KEYS) == {
        "blocks": Count(lost=1, doubled=1),
        "transactions": Count(lost=1),
        "logs": Count(lost=3),
    }


async def test_gapless_is_complete_in_the_harness_despite_faults() -> None:
    conditions = Conditions(faults="null=0.05,wrong-block=0.1")
    ran = await run(GAPLESS, task_of(SMALL, 20), conditions)
    assert ran.complete
    assert ran.injected > 0
    assert ran.requests > 2


async def test_a_tool_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    commands = [("touch", str(mark)), ("sleep", "60"), ("rm", str(mark))]
    assert await finished(commands, {}, tmp_path, 0.5) is None
    assert mark.exists()


async def test_no_command_runs_after_one_that_failed(tmp_path: Path) -> None:
    commands = [("sh", "-c", "exit $WANTED"), ("touch", str(tmp_path / "mark"))]
    assert await finished(commands, {"WANTED": "3"}, tmp_path, 30) == 3
    assert not (tmp_path / "mark").exists()
    assert await finished(commands, {"WANTED": "0"}, tmp_path, 30) == 0


async def test_a_run_reports_answered_calls_and_refused_requests() -> None:
    ran = await run(GAPLESS, task_of(SMALL, 20), Conditions(rps=20, metered=True))
    assert ran.complete
    assert ran.refused > 0
    assert ran.calls >= 2 * 20


def ran(
    seconds: float,
    count: Count = RIGHT,
    code: int | None = 0,
    injected: int = 7,
    *,
    calls: int = 1000,
    refused: int = 0,
) -> Ran:
    return Ran(
        seconds, code, count, injected, 100, calls, refused, cpu_seconds=1.5, node_seconds=0.1
    )


START = 0.5


def part(
    cells: Mapping[str, Mapping[str, Cell]], seconds: Mapping[str, float], start: float = START
) -> Part:
    speeds = {name: Speed([ran(took)], [ran(start)]) for name, took in seconds.items()}
    return Part(Task(LARGE, 500, KEYS), 1000.0, speeds, cells)


def trial(provider: Provider, **rans: Ran) -> Trial:
    speeds = {name: Speed([it], [ran(START)]) for name, it in rans.items()}
    return Trial(provider, Task(SMALL, provider.blocks, KEYS), speeds)


def results(*trials: Trial, start: float = START, **wrong: Ran) -> Results:
    """Gapless takes 2.5 s, cryo 4.5 s, ethereum-etl 40.5 s; the named cells of cryo failed."""
    right = {fault: Cell([ran(4.0)]) for fault in FAULTS}
    cells = {
        GAPLESS.name: right,
        CRYO.name: right | {f"{name}=0.01": Cell([it]) for name, it in wrong.items()},
        ETHEREUM_ETL.name: right,
    }
    seconds = {GAPLESS.name: 2.5, CRYO.name: 4.5, ETHEREUM_ETL.name: 40.5}
    missing = {"squid": "there is no npm"}
    parts = [part(cells, seconds, start)]
    return Results(parts, trials, missing, True, date(2024, 2, 29), "2 cores")


def test_the_page_reports_losses_silence_limits_and_missing_tools() -> None:
    text = page(
        results(
            null=ran(6.0, Count(lost=1200), code=1),
            empty=ran(4.5, Count(lost=3, doubled=2)),
            truncated=ran(60.0, Count(lost=9), code=None),
            drop=ran(4.5, injected=0),
        )
    )
    for words in (
        "| **1,200 lost**, exit code 1; 7 faults, 6.0 s (1.3x) |",
        "| **3 lost and 2 duplicated, silently**; 7 faults, 4.5 s (1.0x) |",
        "| **stopped at the time limit**, 9 lost; 7 faults, 60.0 s (13.3x) |",
        "| not met; 0 faults, 4.5 s (1.0x) |",
        "| complete; 7 faults, 4.0 s (1.6x) |",
        "| cryo 0.3.2 | 4.50 | 0.50 | 4.00 | 125 | 1.50 | 1.80 | 2.00 | 2% |",
        "- **squid 1.27.3** was not run: there is no npm.",
        "with `--quick` (a tenth of the blocks",
        "on 2 cores, on 2024-02-29",
    ):
        assert words in text


def test_a_run_that_is_mostly_startup_is_not_compared() -> None:
    """Without 1.2 s of startup, Gapless has 1.3 s, cryo 3.3 s and ethereum-etl 39.3 s."""
    short = results(start=1.2)
    text = page(short)
    speeds = [line for line in text.splitlines() if line.endswith(" 4% |") or "| 2% |" in line]
    assert speeds == [
        "| Gapless 0.1.0 | 2.50 | 1.20 | too short to compare | - | 1.50 |  |  | 4% |",
        "| cryo 0.3.2 | 4.50 | 1.20 | 3.30 | 152 | 1.50 | - | too short to compare | 2% |",
    ]
    assert "| complete; 7 faults, 4.0 s |" in text
    assert "| complete; 7 faults, 4.0 s (0.9x) |" in text
    measured = {row.name: row for row in bounds(short)}
    for name in ("slowest fault relative to the clean run", "share of the node's maximum rate"):
        assert measured[f"large: {name}"].figure == "too short to compare"
    assert measured["large: times as fast as cryo"].figure == "too short to compare"
    assert all(row.ok for row in measured.values())
    assert "| large: times as fast as cryo |  | too short to compare |  |" in text


def test_one_process_decides_the_comparison() -> None:
    few = part({GAPLESS.name: {}}, {GAPLESS.name: 2.5, "Gapless, all cores": 1.5, CRYO.name: 4.0})
    small = replace(few, task=replace(few.task, workload=SMALL))
    both = Results([small, few], [], {}, False, date(2024, 2, 29), "2 cores")
    measured = {row.name: row.ratio for row in bounds(both) if "cryo" in row.name}
    assert measured == {
        "small: times as fast as cryo": 1.75,
        "small: times as fast as cryo, whole command": 1.6,
        "large: times as fast as cryo": 1.75,
        "large: times as fast as cryo, whole command": 1.6,
    }
    assert [row.name for row in bounds(both) if not row.ok] == ["large: times as fast as cryo"]


def test_the_page_says_whether_the_compiled_core_was_used() -> None:
    compiled = results()
    assert "was not used here" not in page(compiled)
    assert "was not used here" in page(replace(compiled, is_compiled=False))
    assert "adr/0041" in page(compiled)


def test_the_page_shows_each_provider() -> None:
    text = page(
        results(
            trial(LATENCY, Gapless=ran(5.5, injected=0), cryo=ran(10.5, injected=0)),
            trial(
                METERED,
                Gapless=ran(9.5, injected=0, calls=900, refused=60),
                cryo=ran(0.2, Count(lost=5009), code=1, injected=0, calls=100, refused=1302),
            ),
        )
    )
    for words in (
        "### Latency of 80 ms\n\nThe provider takes 80 ms for every request. The job is 5,000",
        "| Gapless 0.1.0 | complete | 5.50 | 5.00 | 1,000 | 1,000 | 0 |  |\n",
        "| cryo 0.3.2 | complete | 10.50 | 10.00 | 500 | 1,000 | 0 | 2.00 |\n",
        "| Gapless 0.1.0 | complete | 9.50 | 9.00 | 56 | 900 | 60 | 90% |  |\n",
        "| cryo 0.3.2 | **5,009 lost**, exit code 1 | 0.20 | - | - | 100 | 1,302 | - | - |\n",
    ):
        assert words in text


def test_a_provider_that_barely_limited_anyone_is_not_compared() -> None:
    """A tenth of the job is done before the budget of the first second is used up."""
    short = results(trial(RATE_LIMIT, Gapless=ran(0.9, injected=0), cryo=ran(9.0, injected=0)))
    text = page(short)
    short_row = "| Gapless 0.1.0 | complete | 0.90 | too short to compare | - | 1,000 | 0 | - |  |"
    assert short_row in text
    assert "| 0 | 35% | too short to compare |" in text
    names = [row.name for row in bounds(short)]
    assert f"{RATE_LIMIT.name}: share of the budget used" in names
    assert all(row.ok for row in bounds(short))


def test_every_provider_has_conditions() -> None:
    """Far away, limited, metered, and faulty: each is difficult in one way of its own."""
    assert [provider.conditions for provider in PROVIDERS] == [
        Conditions(latency_ms=80),
        Conditions(rps=300),
        Conditions(rps=100, metered=True),
        Conditions(faults="500=0.03,drop=0.01,malformed=0.01", per_call=True),
    ]
    assert len({provider.name for provider in PROVIDERS}) == len(PROVIDERS)
    assert all(provider.blocks <= SMALL.blocks for provider in PROVIDERS)


def test_bounds_apply_to_gapless_alone_and_can_be_missed() -> None:
    wrong = ran(6.0, Count(lost=1200), code=1)
    fine = results(trial(METERED, Gapless=ran(9.5, calls=900), cryo=wrong), null=wrong)
    assert [row.name for row in bounds(fine) if not row.ok] == []
    cells = {**fine.parts[0].cells, GAPLESS.name: {"null=0.01": Cell([ran(6.1, Count(lost=1))])}}
    seconds = {GAPLESS.name: 2.5, CRYO.name: 3.5, ETHEREUM_ETL.name: 40.4}
    trials = [
        trial(LATENCY, Gapless=ran(10.5), cryo=ran(9.5)),
        trial(METERED, Gapless=ran(10.5, calls=900), cryo=ran(99.5)),
        trial(FAULTY_CALLS, Gapless=ran(60.0, Count(lost=5), code=None), cryo=ran(9.5)),
    ]
    poor = Results([part(cells, seconds)], trials, {}, False, date(2024, 2, 29), "2 cores")
    missed = [row.name for row in bounds(poor) if not row.ok]
    assert missed == [
        "large: rows that Gapless lost or duplicated",
        "large: runs of Gapless that were not complete",
        "large: slowest fault relative to the clean run",
        "large: times as fast as cryo",
        "large: times as fast as cryo, whole command",
        "large: times as fast as ethereum-etl",
        "Latency of 80 ms: times as fast as cryo",
        "Metered, 100 calls per second: share of the budget used",
        "Faulty calls: runs of Gapless that were not complete",
    ]
