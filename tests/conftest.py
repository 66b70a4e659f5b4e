"""Fixtures for all tests. They provide real services, never imitations of them."""

import gc
import os
from collections.abc import Generator, Iterator
from itertools import count, groupby, islice

import pytest
from coverage import Coverage

from tests.servers import PostgresServer, room_in_memory

_serials = count(1)
_SLOW = (
    *("test_chaos", "test_crash.py", "test_fetch_crash.py", "test_the_demo", "stateful/"),
    *("docs/tutorial/", "test_processes.py", "test_one_transaction.py", "test_machine.py"),
    *("test_anvil.py", "test_cli_scale.py", "test_servers.py", "test_chains.py"),
    *("acceptance/test_publish", "simulation/test_publishing"),
    *("test_leaving.py", "test_outages.py", "acceptance/test_follow", "conformance/follow/"),
)
# Tests that show what they cover. Measuring takes as long as running the test, so it is left out
# where tests take long and run hardly any line that no other test runs.
_MEASURED = ("tests/unit/", "tests/conformance/")
_NOT_MEASURED = (
    *("fetch/test_again.py", "fetch/test_chains.py", "sink/test_expire.py"),
    *("sink/test_real_blocks.py", "unit/devnode/", "unit/test_folding.py", "unit/verify/"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deals out the tests in one piece per test process, with slow tests in each.

    A slow test at the end would delay all processes, so each piece ends with quick ones.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [each for each in items if any(name in each.nodeid for name in _SLOW)]
    is_slow = set(slow)
    quick = iter([each for each in items if each not in is_slow])
    length = -(-len(items) // processes)
    dealt: list[pytest.Item] = []
    for at in range(processes):
        mine = slow[at::processes]
        files = [[*tests] for _, tests in groupby(mine, key=lambda each: each.path)]
        first = at * len(files) // processes  # so that not all processes wait for the same
        others = [*islice(quick, max(0, length - len(mine)))]
        dealt += _mixed([*files[first:], *files[:first]], others)
    items[:] = [*dealt, *quick]


def _mixed(slow: list[list[pytest.Item]], quick: list[pytest.Item]) -> list[pytest.Item]:
    """Slow tests mostly wait, quick ones mostly compute: when they are mixed, no core is idle.

    Tests of one file stay together, because they may share a server.
    """
    step = len(quick) * 3 // 4 // max(1, len(slow))
    mixed: list[pytest.Item] = []
    for nth, file in enumerate(slow):
        mixed += [*file, *quick[nth * step : (nth + 1) * step]]
    return [*mixed, *quick[len(slow) * step :]]


def is_measured(nodeid: str) -> bool:
    """Whether a test shows what it covers.

    Tests that run on SQLite and PostgreSQL do so on SQLite: other tests cover what differs.
    """
    if not nodeid.startswith(_MEASURED) or any(name in nodeid for name in _NOT_MEASURED):
        return False
    return "/sink/" in nodeid or "[postgres" not in nodeid


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Pauses the measurement of coverage, if there is one, during a test that is not measured."""
    coverage = Coverage.current()
    if coverage is None or is_measured(item.nodeid):
        return (yield)
    coverage.stop()
    try:
        return (yield)
    finally:
        coverage.start()


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
