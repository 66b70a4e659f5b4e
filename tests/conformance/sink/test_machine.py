"""Any order of writes, retractions and restarts: each sink holds what its model holds.

`GAPLESS_EXAMPLES=1000 pytest tests/conformance/sink/test_machine.py` looks longer.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.sink.machine import SinkMachine

EXAMPLES = int(os.environ.get("GAPLESS_EXAMPLES", "0"))


class SqliteMachine(SinkMachine):
    name = "blocks.db"


class UnboundSqliteMachine(SinkMachine):
    name = "blocks.db?fk=off"


class ParquetMachine(SinkMachine):
    name = "blocks/"


@pytest.mark.timeout(600 + 5 * EXAMPLES)
@pytest.mark.parametrize(
    ("machine", "examples"),
    [(SqliteMachine, 12), (UnboundSqliteMachine, 4), (ParquetMachine, 6)],
)
def test_it_holds_what_the_model_holds(machine: type[SinkMachine], examples: int) -> None:
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
