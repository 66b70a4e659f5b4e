"""Fixtures every test may ask for. They give real services, never imitations of them."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.servers import PostgresServer

_serials = count(1)


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
