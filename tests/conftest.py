"""Fixtures every test may ask for. They give real services, never imitations of them."""

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
    *("test_leaving.py", "test_outages.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets every test process begin with its share of the slow tests.

    They are dealt out in pieces of equal length; what is slow and last, all others wait for.
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
    """Has folders of tests in memory, where files cost little, if there is room.

    Whoever is killed leaves them as on a disk; what a power failure leaves, no test can tell.
    """
    if (memory := room_in_memory()) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_collection_finish() -> None:
    """Spares the collector of garbage the modules and tests, which are there to stay."""
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The PostgreSQL server of this test process.

    One per process rather than one for all: a test may restart it without harm to the tests
    that run beside it.
    """
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a fresh, empty database."""
    name = f"test_{next(_serials)}"
    postgres.create_database(name)
    yield postgres.url(name)
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def records_database(postgres: PostgresServer) -> str:
    """A database for sinks, each in a schema of its own; all of it goes with the server."""
    postgres.create_database("records")
    return postgres.url("records")


@pytest.fixture
def postgres_target(records_database: str) -> str:
    """Where a sink in PostgreSQL may be made."""
    return f"{records_database}?schema=sink_{next(_serials)}"
