"""Any order of writes, retractions and restarts: each sink holds what its model holds.

`GAPLESS_EXAMPLES=1000 pytest tests/conformance/sink/test_machine.py` looks longer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.sink.machine import SinkMachine

EXAMPLES = int(os.environ.get("GAPLESS_EXAMPLES", "0"))


class SqliteMachine(SinkMachine):
    name = "blocks.db"


class UnboundSqliteMachine(SinkMachine):
    name = "blocks.db?fk=off"


class DuckdbMachine(SinkMachine):
    name = "blocks.duckdb"


class ParquetMachine(SinkMachine):
    name = "blocks/"
    folds = False


class PostgresMachine(SinkMachine):
    """All examples share a database; each has a schema of its own."""

    url: ClassVar[str]
    options: ClassVar[str] = ""
    serials: ClassVar[Iterator[int]] = count()

    def __init__(self) -> None:
        super().__init__()
        self.schema = f"machine_{next(self.serials)}"

    @property
    def target(self) -> str:
        return f"{self.url}?schema={self.schema}{self.options}"


class PartitionedMachine(PostgresMachine):
    options = "&partition=1000&fk=off"


@pytest.mark.timeout(600 + 5 * EXAMPLES)
@pytest.mark.parametrize(
    ("machine", "examples"),
    [(SqliteMachine, 12), (UnboundSqliteMachine, 4), (DuckdbMachine, 3), (ParquetMachine, 6)],
)
def test_it_holds_what_the_model_holds(machine: type[SinkMachine], examples: int) -> None:
    look(machine, examples)


@pytest.mark.timeout(600 + 5 * EXAMPLES)
@pytest.mark.parametrize(("machine", "examples"), [(PostgresMachine, 6), (PartitionedMachine, 2)])
def test_a_server_holds_what_the_model_holds(
    machine: type[PostgresMachine], examples: int, records_database: str
) -> None:
    machine.url = records_database
    look(machine, examples)


def look(machine: type[SinkMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or examples,
            stateful_step_count=15,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
