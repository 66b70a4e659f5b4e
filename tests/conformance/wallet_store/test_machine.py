"""After any order of scans, blocks, retractions and members, a store equals its model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.wallet_store.machine import StoreMachine
from tests.examples import EXAMPLES, examples


class PostgresMachine(StoreMachine):
    """All examples share a database; each has its own schema."""

    url: ClassVar[str]
    options: ClassVar[str] = ""
    serials: ClassVar[Iterator[int]] = count()

    def __init__(self) -> None:
        super().__init__()
        self.schema = f"wallets_{next(self.serials)}"

    @property
    def target(self) -> str:
        return f"{self.url}?schema={self.schema}{self.options}"


class PartitionedMachine(PostgresMachine):
    options = "&partition=1000&fk=off"


@pytest.mark.timeout(600 + 5 * EXAMPLES)
def test_a_store_in_sqlite_equals_its_model() -> None:
    look(StoreMachine, 15)


@pytest.mark.timeout(600 + 5 * EXAMPLES)
@pytest.mark.parametrize(("machine", "usual"), [(PostgresMachine, 6), (PartitionedMachine, 2)])
def test_a_store_in_postgresql_equals_its_model(
    machine: type[PostgresMachine], usual: int, records_database: str
) -> None:
    machine.url = records_database
    look(machine, usual)


def look(machine: type[StoreMachine], usual: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(usual),
            stateful_step_count=30,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
