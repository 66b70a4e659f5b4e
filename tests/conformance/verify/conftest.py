"""Each kind of sink, to be forged."""

from __future__ import annotations

import pytest

from tests.conformance.sink.conftest import target_of
from tests.conformance.verify.places import PLACES, ParquetPlace, Place
from tests.conformance.verify.signed import CHAIN_ID


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    """Where a sink of each kind may be created."""
    return PLACES[request.param](target_of(request, request.param), CHAIN_ID)


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> ParquetPlace:
    """Where a sink of files may be created."""
    return ParquetPlace(target_of(request, "parquet"), CHAIN_ID)
