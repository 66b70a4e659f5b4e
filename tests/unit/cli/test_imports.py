"""A command imports what it needs: the start of a small fetch is mostly imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("aiohttp", "asyncpg", "duckdb", "email", "pandas", "pyarrow.compute", "pyarrow.parquet")


@pytest.mark.parametrize("name", HEAVY)
def test_a_fetch_starts_without_heavy_modules(imported_by_fetch: set[str], name: str) -> None:
    assert name not in imported_by_fetch


@pytest.fixture(scope="module")
def imported_by_fetch() -> set[str]:
    code = "import gapless.cli.fetch, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {*ran.stdout.split()}
