"""Whatever happens, the ledger keeps its guarantees: one state machine, both databases."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.examples import EXAMPLES, examples
from tests.servers import PostgresServer
from tests.stateful.databases import SqliteMachine, postgres_machine

STEPS = 40
PATIENCE = 900 + 5 * EXAMPLES  # a failure is worth five minutes of shrinking


def profile(usual: int) -> settings:
    return settings(
        max_examples=examples(usual),
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,
        # A step is a transaction on a real database, and the machine reads all tables after each.
        suppress_health_check=[HealthCheck.too_slow],
    )


@pytest.mark.timeout(PATIENCE)
class TestSqlite:
    def test_keeps_the_laws(self) -> None:
        run_state_machine_as_test(SqliteMachine, settings=profile(60))


@pytest.mark.timeout(PATIENCE)
class TestPostgres:
    def test_keeps_the_laws(self, postgres: PostgresServer) -> None:
        with postgres_machine(postgres) as machine:
            run_state_machine_as_test(machine, settings=profile(15))
