"""The compiled core, for tests that compare it with the reference decoder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module

import pytest

from gapless.chains.evm.native import find
from gapless.chains.evm.native_reading import read_native
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.reading import read
from gapless.chains.family import Reading, Wanted
from tests.unit.evm.mutations import compare

CORE = find({}, import_module)
with_core = pytest.mark.skipif(CORE.module is None, reason=f"{CORE.decoder.unused_core}")


def by_core(
    raws: Sequence[EvmRawBlock], wanted: Wanted, samples: Collection[int], *, whole: bool
) -> Reading:
    """Read with the core, which must support the answers."""
    assert CORE.module is not None
    found = read_native(CORE.module, raws, wanted, samples, whole=whole)
    assert found is not None, "the core does not support these answers"
    return found


def assert_agree(
    raws: Sequence[EvmRawBlock], wanted: Wanted, samples: Collection[int] = ()
) -> Reading:
    """Assert that both decoders agree, fast and in full; return what they read fast."""
    return compare(read, by_core, raws, wanted, samples)[0]
