"""A chain for tests, built once per test process."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.devnode import Chain, Parameters, simulated

PARAMETERS = Parameters(blocks=120, txs=6, fewest=0, seed=11)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def chain(cache: Path) -> Chain:
    return simulated(PARAMETERS, cache)


@pytest.fixture
def other(cache: Path) -> Chain:
    """The same chain on another node."""
    return simulated(PARAMETERS, cache)
