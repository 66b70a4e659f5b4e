"""Fixtures for all tests. They provide real services, never imitations of them."""

import gc
import os
from collections.abc import Iterator
from itertools import count, islice

import pytest

from tests.servers import PostgresServer, room_in_memory

_serials = count(1)
_SLOW = (
    *("test_chaos", "test_crash.py", "test_fetch_crash.py", "test_the_demo", "stateful/"),
    *("docs/tutorial/", "test_processes.py", "test_one_transaction.py", "test_machine.py"),
    *("test_anvil.py", "test_cli_scale.py", "test_servers.py", "test_chains.py"),
    *("acceptance/test_publish", "simulation/test_publishing"),
    *("test_leaving.py", "test_outages.py", "acceptance/test_follow", "conformance/follow/"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spreads the slow tests over the test processes, and runs them first.

    They are dealt out in pieces of equal length; a slow test at the end would delay all processes.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [each for each in items if any(name in each.nodeid for name in _SLOW)]
    is_slow = set(slow)
    quick = iter([each for each in items if each not in is_slow])
    length = -(-len(items) // processes)
    dealt: list[pytest.Item] = []
    for at in range(processes):
        mine = slow[at::processes]
        dealt += [*mine, *islice(quick, max(0, length - len(mine)))]
    items[:] = [*dealt, *quick]


def pytest_configure() -> None:
    """Puts the folders of tests in memory, where files are cheap, if there is room.

    A killed process leaves them as on a disk; no test depends on what a power failure leaves.
    """
    if (memory := room_in_memory()) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_collection_finish() -> None:
    """Excludes modules and tests, which are permanent, from garbage collection."""
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The PostgreSQL server of this test process.

    One per process, not one for all: a test may restart it without affecting tests that run in
    parallel.
    """
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a new, empty database."""
    name = f"test_{next(_serials)}"
    postgres.create_database(name)
    yield postgres.url(name)
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def records_database(postgres: PostgresServer) -> str:
    """A database for sinks, each in its own schema; all of it is removed with the server."""
    postgres.create_database("records")
    return postgres.url("records")


@pytest.fixture
def postgres_target(records_database: str) -> str:
    """Where a sink in PostgreSQL may be created."""
    return f"{records_database}?schema=sink_{next(_serials)}"
