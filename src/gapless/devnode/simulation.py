"""Simulated chains, by family.

A family's blocks and its nodes' dialect are a folder here, because `devnode` is above `chains` and
may use a family's encodings, while no family needs a simulation of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gapless.devnode.building import BlockBuilder, Parameters
from gapless.devnode.chain import Chain
from gapless.devnode.evm.blocks import EvmBuilder
from gapless.devnode.store import stored
from gapless.devnode.tron.blocks import TronBuilder

BUILDERS: Mapping[str, Callable[[Parameters], BlockBuilder]] = {
    "evm": EvmBuilder,
    "tron": TronBuilder,
}
"""The builders of blocks, by the name of their family."""
DEFAULT_FAMILY = RECORDED_FAMILY = "evm"
"""The family of a chain unless another one is chosen, and the only one of recorded chains."""


def simulated(
    parameters: Parameters | None = None, cache: Path | None = None, *, family: str = DEFAULT_FAMILY
) -> Chain:
    """The simulated chain of these parameters, from the cache if it is there."""
    builder = BUILDERS[family](parameters or Parameters())
    found = stored(builder, cache)
    genesis = builder.names(found.blocks[0]).hash
    return Chain(builder.chain_id(genesis), found.blocks, found.receipts, builder)
