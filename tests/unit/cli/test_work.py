"""What the processes of a command did, as text and as JSON."""

from __future__ import annotations

import msgspec

from gapless.cli.work import by_process, summary
from gapless.runtime.work import Work
from gapless.telemetry.metrics import Snapshot
from gapless.views.worker import worker_view

NUMBERS: Snapshot = {
    "gapless_partitions_completed_total": [((), [1200.0])],
    "blocks_backfilled_total": [((), [1300.0])],
    "gapless_batches_written_total": [((), [13.0])],
}
WORK = Work(12, 1200, 1300, 13)


def test_work_is_counted_from_outcomes_and_metrics() -> None:
    assert Work.of({"completed": 12, "failure": 1}, NUMBERS) == WORK
    assert Work.of({}, {}) == Work()
    assert Work.total([WORK, WORK]) == Work(24, 2400, 2600, 26)
    assert Work.total([WORK, WORK]).without(WORK) == WORK


def test_a_summary_names_chunks_partitions_blocks_batches_and_rate() -> None:
    ended = {"completed": 12, "failure": 1, "givenback": 2}
    assert summary(worker_view(ended, 1200, 1300, 13, 10.0)) == (
        "chunks: 12 completed, 1 failed, 2 given back in 10s; 1,200 partitions, 120 partitions/s;"
        " 1,300 blocks written in 13 batches"
    )
    assert summary(worker_view({}, 0, 0, 0, 0.0)) == "chunks: none run in 0.0s"


def test_each_process_has_a_line_if_there_are_several() -> None:
    assert by_process([WORK], 10.0) == []
    assert by_process([WORK, Work()], 10.0) == [
        "process 1: 12 chunks, 1,300 blocks written in 13 batches, 130 blocks/s",
        "process 2: 0 chunks, 0 blocks written in 0 batches, 0 blocks/s",
    ]
    assert by_process([Work(1, 10), Work(2, 15)], 10.0) == [
        "process 1: 1 chunk, 10 partitions",
        "process 2: 2 chunks, 15 partitions",
    ]


def test_the_json_contains_every_kind_of_outcome() -> None:
    shown = worker_view({"completed": 12, "givenback": 1}, 1200, 1300, 13, 10.0)
    assert msgspec.to_builtins(shown) == {
        "completed": 12,
        "failed": 0,
        "given_back": 1,
        "lease_lost": 0,
        "partitions": 1200,
        "blocks": 1300,
        "batches": 13,
        "seconds": 10.0,
        "partitions_per_second": 120.0,
    }
