"""The command line on a ledger of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.commands import Commands
from tests.support import PostgresHome, SqliteHome


@pytest.fixture
def sqlite_gapless(tmp_path: Path) -> Commands:
    return Commands(tmp_path, SqliteHome(tmp_path / "ledger.db"))


@pytest.fixture
def postgres_gapless(tmp_path: Path, postgres_url: str) -> Commands:
    return Commands(tmp_path, PostgresHome(postgres_url))


@pytest.fixture(params=["sqlite", "postgres"])
def gapless(request: pytest.FixtureRequest) -> Commands:
    """The command line on SQLite, then on PostgreSQL."""
    commands: Commands = request.getfixturevalue(f"{request.param}_gapless")
    return commands
