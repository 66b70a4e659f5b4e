"""The comparison with other tools counts what it says it counts, and its page tells it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

from bench.peers.bounds import bounds
from bench.peers.counting import Count, compared, counted, truth
from bench.peers.measuring import task_of
from bench.peers.page import page
from bench.peers.results import FAULTS, Cell, Part, Results, Speed
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


def test_the_truth_is_in_the_chain() -> None:
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
def test_rows_are_lost_or_too_many(rows: list[tuple[int]], count: Count) -> None:
    assert compared(rows, KEYS["blocks"]) == count


def test_all_files_of_a_table_count_whatever_their_format(tmp_path: Path) -> None:
    pq.write_table(pa.table({"block_number": [1], "other": ["x"]}), tmp_path / "blocks-1.parquet")
    pq.write_table(pa.table({"block_number": [1], "other": ["y"]}), tmp_path / "blocks-2.parquet")
    rows = pa.table({"text": ['a,"b"', "c"], "block": [1, 2], "at": [0, 0]})
    csv.write_csv(rows, tmp_path / "transactions.csv")
    (tmp_path / "logs.csv").touch()  # by a tool that failed before its first row
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


async def test_gapless_is_complete_in_the_harness_in_spite_of_faults() -> None:
    ran = await run(GAPLESS, task_of(SMALL, 20), faults="null=0.05,wrong-block=0.1")
    assert ran.complete
    assert ran.injected > 0
    assert ran.requests > 2


async def test_a_tool_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    commands = [("touch", str(mark)), ("sleep", "60"), ("rm", str(mark))]
    assert await finished(commands, {}, tmp_path, 0.5) is None
    assert mark.exists()


async def test_the_first_command_that_fails_is_the_last(tmp_path: Path) -> None:
    commands = [("sh", "-c", "exit $WANTED"), ("touch", str(tmp_path / "mark"))]
    assert await finished(commands, {"WANTED": "3"}, tmp_path, 30) == 3
    assert not (tmp_path / "mark").exists()
    assert await finished(commands, {"WANTED": "0"}, tmp_path, 30) == 0


def ran(seconds: float, count: Count = RIGHT, code: int | None = 0, injected: int = 7) -> Ran:
    return Ran(seconds, code, count, injected, 100, cpu_seconds=1.5, node_seconds=0.1)


def part(cells: Mapping[str, Mapping[str, Cell]], seconds: Mapping[str, float]) -> Part:
    speeds = {name: Speed([ran(took)], [ran(1.0)]) for name, took in seconds.items()}
    return Part(Task(LARGE, 500, KEYS), 1000.0, speeds, cells)


def results(**wrong: Ran) -> Results:
    """Gapless takes 3 s, cryo 5 s, ethereum-etl 13 s; the named cells of cryo went wrong."""
    right = {fault: Cell([ran(4.0)]) for fault in FAULTS}
    cells = {
        GAPLESS.name: right,
        CRYO.name: right | {f"{name}=0.01": Cell([it]) for name, it in wrong.items()},
        ETHEREUM_ETL.name: right,
    }
    seconds = {GAPLESS.name: 3.0, CRYO.name: 5.0, ETHEREUM_ETL.name: 13.0}
    missing = {"squid": "there is no npm"}
    return Results([part(cells, seconds)], missing, True, date(2024, 2, 29), "2 cores")


def test_the_page_tells_losses_silence_limits_and_who_was_not_there() -> None:
    text = page(
        results(
            null=ran(6.0, Count(lost=1200), code=1),
            empty=ran(5.0, Count(lost=3, doubled=2)),
            truncated=ran(60.0, Count(lost=9), code=None),
            drop=ran(5.0, injected=0),
        )
    )
    for words in (
        "| **1,200 lost**, exit code 1; 7 faults, 6.0 s (1.2x) |",
        "| **3 lost and 2 doubled, in silence**; 7 faults, 5.0 s (1.0x) |",
        "| **ended after the limit**, 9 lost; 7 faults, 60.0 s (12.0x) |",
        "| not met; 0 faults, 5.0 s (1.0x) |",
        "| complete; 7 faults, 4.0 s (1.3x) |",
        "| cryo 0.3.2 | 5.00 | 1.00 | 4.00 | 125 | 1.50 | 1.67 | 2.00 | 2% |",
        "- **squid 1.27.3** was not run: there is no npm.",
        "with `--quick`: a tenth of the blocks",
        "on 2 cores, on 2024-02-29",
    ):
        assert words in text


def test_bounds_are_of_gapless_alone_and_can_be_missed() -> None:
    fine = results(null=ran(6.0, Count(lost=1200), code=1))
    assert [row.name for row in bounds(fine) if not row.ok] == []
    cells = {**fine.parts[0].cells, GAPLESS.name: {"null=0.01": Cell([ran(6.1, Count(lost=1))])}}
    seconds = {GAPLESS.name: 3.0, CRYO.name: 4.0, ETHEREUM_ETL.name: 10.0}
    poor = Results([part(cells, seconds)], {}, False, date(2024, 2, 29), "2 cores")
    missed = [row.name.removeprefix("large: ") for row in bounds(poor) if not row.ok]
    assert missed == [
        "rows that Gapless lost or doubled",
        "runs of Gapless that were not complete",
        "its slowest fault by its clean run",
        "times as fast as cryo",
        "times as fast as ethereum-etl",
    ]
