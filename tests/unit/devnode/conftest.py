"""Chains for tests, built once per test process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gapless.devnode import Chain, Parameters, simulated

PARAMETERS = Parameters(blocks=120, txs=8, fewest=0, seed=7)
ECONOMY = replace(PARAMETERS, economy=True)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def chain(cache: Path) -> Chain:
    """A fresh view of the same chain: a test may extend or reorganise its own."""
    return simulated(PARAMETERS, cache)


@pytest.fixture
def economy(cache: Path) -> Chain:
    """A fresh view of a chain whose accounts have balances."""
    return simulated(ECONOMY, cache)
