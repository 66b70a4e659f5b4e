"""Bugs that the state machine found, step by step.

Each test is a minimal run of the machine: the laws check every step, and the end of the fixture
shows that nothing hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from gapless.core.backfill import State
from gapless.core.chunk import Status
from gapless.core.retry import RetryKind
from tests.servers import PostgresServer
from tests.stateful.databases import SqliteMachine, postgres_machine
from tests.stateful.machine import LedgerMachine
from tests.stateful.replies import Reply
from tests.stateful.wishes import LEASE, Wish


@pytest.fixture(params=["sqlite", "postgres"])
def machine(request: pytest.FixtureRequest) -> Iterator[LedgerMachine]:
    with ExitStack() as stack:
        kind: type[LedgerMachine] = SqliteMachine
        if request.param == "postgres":
            server: PostgresServer = request.getfixturevalue("postgres")
            kind = stack.enter_context(postgres_machine(server))
        machine = kind()
        stack.callback(machine.teardown)
        yield machine
        machine.the_ledger_agrees()


def test_a_late_heartbeat_loses_no_hole(machine: LedgerMachine) -> None:
    """It kept `last_processed` but took its own, older holes: SUCCEEDED without partition 0."""
    machine.begin([Wish(partitions=3, chunk_size=3)])
    machine.claim(worker=0)
    machine.heartbeat(which=0, steps=1, hole=True)
    machine.late_heartbeat(which=0, past=0)
    machine.crash(worker=0)
    machine.jump(LEASE + 1)
    machine.work(worker=1)
    machine.idle()
    assert machine.tables.backfills["b1"].state is State.FAILED
    assert machine.tables.chunks["b1", 0].missing == {0}


def test_a_resume_with_a_lost_reply_is_not_an_error_if_it_ended_the_backfill(
    machine: LedgerMachine,
) -> None:
    """Run again, it found a backfill that had SUCCEEDED by the first attempt, and raised."""
    machine.begin([Wish()])
    machine.claim(worker=0)
    machine.steer(which=0, commands=["pause"])
    machine.complete(which=0)
    machine.steer(which=0, commands=["resume"], reply=Reply.LOST)
    assert machine.tables.backfills["b1"].state is State.SUCCEEDED


def test_a_resume_with_a_lost_reply_is_not_an_error_if_the_backfill_halts_meanwhile(
    machine: LedgerMachine,
) -> None:
    machine.begin([Wish(partitions=2, retry=RetryKind.HALT)])
    machine.claim(worker=0)
    machine.jump(LEASE + 1)
    machine.claim(worker=1)
    machine.steer(which=0, commands=["pause"])
    machine.steer(which=0, commands=["resume"], reply=Reply.LATE)
    assert machine.tables.chunks["b1", 0].status is Status.ABANDONED


def test_a_repeated_completion_counts_once_even_after_compaction(
    machine: LedgerMachine,
) -> None:
    """SQLite counted by the events that were new to it, and compacting had removed the first."""
    machine.begin([Wish()])
    machine.claim(worker=0)
    machine.complete(which=0)
    machine.idle()
    machine.tidy(purge=False)
    machine.zombie(which=0, how="complete")


def test_a_backfill_that_lacks_nothing_has_no_child(machine: LedgerMachine) -> None:
    """Cancelled after its last completion, it got a child without partitions, PENDING forever."""
    machine.begin([Wish()])
    machine.claim(worker=0)
    machine.complete(which=0)
    machine.steer(which=0, commands=["cancel"])
    assert machine.tables.backfills["b1"].state is State.CANCELLED
    machine.retry_failed(which=0, request=None)


def test_a_dead_letter_that_lacks_nothing_has_no_child(machine: LedgerMachine) -> None:
    machine.begin([Wish()])
    machine.claim(worker=0)
    machine.fail(which=0, steps=1, permanent=True)
    machine.retry_dead(which=0, some=1)
