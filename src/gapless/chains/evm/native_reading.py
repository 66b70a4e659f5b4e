"""Read answers with the compiled core; see `reading` for the reference, which it must equal.

The core knows checks as bits and blocks as tuples. This module translates both, and gives refusals
the same errors as the reference. While the core computes, other threads run Python.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.block_under_check import refusal
from gapless.chains.evm.checks.levels import needs_receipts
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.reading import wanted_tables
from gapless.chains.evm.tables import BLOCKS, LOGS, TABLES, TRANSFERS
from gapless.chains.family import ReadBlock, Reading, Wanted
from gapless.core.errors import BadAnswer
from gapless.core.proof import Proof
from gapless.schema.arrow import Tables

_CHECKS = tuple(Check)
_BITS: Mapping[str, int] = {check: 1 << at for at, check in enumerate(_CHECKS)}

Good: TypeAlias = tuple[int, bytes, bytes, int, int]
"""A height, the hash of the block and of its parent, and the checks: proven and unproven."""
Refused: TypeAlias = tuple[int, str, int | None, str]
"""A height, the code of the error, the place of the check that failed, and what was found."""


class NativeCore(Protocol):
    """What `gapless_native` provides."""

    def read(
        self,
        blocks: Sequence[tuple[Any, ...]],
        light: bool,
        network: tuple[str, int, int],
        asked: int,
        chain_id: int,
        wanted: Sequence[str],
        /,
    ) -> tuple[Mapping[str, Any], Sequence[Good], Sequence[Refused], bool]: ...


def read_native(
    core: NativeCore,
    raws: Sequence[EvmRawBlock],
    wanted: Wanted,
    samples: Collection[int],
    *,
    whole: bool,
) -> Reading | None:
    """Parse, check and decode the answers; None if they are beyond what the core supports."""
    network = wanted.network
    assert isinstance(network, EvmNetwork)
    if not wanted.checks <= _BITS.keys():
        return None
    blocks = [
        (
            *(raw.height, raw.block, raw.receipts, raw.logs, raw.other_logs),
            whole or raw.height in samples,
            _mask(network.checks_at(raw.height)),
            wanted.anchors.get(raw.height),
        )
        for raw in raws
    ]
    rules = (network.header.value, network.byzantium, network.sprint)
    light = not needs_receipts(wanted.datasets)
    names = _needed(wanted.datasets)
    try:
        found = core.read(blocks, light, rules, _mask(wanted.checks), wanted.chain_id, names)
    except OverflowError:  # a number or an answer too large for the core
        return None
    batches, good, refused, has_extra = found
    tables = {name: pa.table(batch) for name, batch in batches.items()}
    return Reading(
        {it[0]: ReadBlock(it[1], it[2], _proof(it[3], it[4])) for it in good},
        wanted_tables(tables, wanted) if good else Tables({}),
        {it[0]: _error(network, *it) for it in refused},
        has_extra,
    )


@cache
def _needed(datasets: frozenset[str]) -> tuple[str, ...]:
    """Return the tables to decode: the wanted ones, and those that others are derived from."""
    sources = {BLOCKS.name, LOGS.name} if TRANSFERS.name in datasets else frozenset[str]()
    return tuple(table.name for table in TABLES if table.name in datasets | sources)


@cache
def _mask(checks: frozenset[str]) -> int:
    return sum(_BITS[check] for check in checks)


@cache
def _proof(proven: int, unproven: int) -> Proof:
    one, other = (
        frozenset(check for check in _CHECKS if mask & _BITS[check]) for mask in (proven, unproven)
    )
    return Proof(one, other)


def _error(
    network: EvmNetwork, height: int, code: str, check: int | None, finding: str
) -> BadAnswer:
    if check is None:
        assert code == BadAnswer.code
        return BadAnswer(f"block {height:,} of `{network.name}`: {finding}")
    return refusal(network, height, _CHECKS[check], finding)
