"""Answers become rows: parse, check and decode, each block by itself.

Answers are parsed without the keys that no column is made for. Whether there are any is seen in the
samples, which are parsed in full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from gapless.chains.evm.checks.check import check_anchor, check_block, check_range_logs
from gapless.chains.evm.checks.completion import complete
from gapless.chains.evm.checks.levels import needs_receipts
from gapless.chains.evm.decode.logs import decode_range_logs
from gapless.chains.evm.decode.lossless import (
    has_extra,
    keep_block,
    keep_light_block,
    keep_receipts,
)
from gapless.chains.evm.decode.structs import (
    Block,
    LightBlock,
    RangeLog,
    Receipt,
    parse_block,
    parse_light_block,
    parse_logs,
    parse_receipts,
)
from gapless.chains.evm.decode.tables import decode_blocks, decode_headers
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.source import RawBlock
from gapless.chains.family import ReadBlock, Reading, Wanted
from gapless.core.errors import BadAnswer
from gapless.core.proof import Proof
from gapless.schema.arrow import Tables


@dataclass(frozen=True)
class _Read:
    """A block that was parsed, and passed its checks."""

    height: int
    block: Block | LightBlock
    receipts: list[Receipt] | None
    logs: list[RangeLog]  # from a node that has no receipts to give
    proof: Proof


def read(
    raws: Sequence[RawBlock], wanted: Wanted, samples: Collection[int], *, whole: bool
) -> Reading:
    """What the answers hold; see `Family.read`."""
    good: list[_Read] = []
    refused: dict[int, BadAnswer] = {}
    extra = False
    for raw in raws:
        full = whole or raw.height in samples
        try:
            good.append(found := _read(raw, wanted, full=full))
        except BadAnswer as error:
            refused[raw.height] = error
        else:
            extra |= full and has_extra(found.block, found.receipts or ())
    tables = _decode(good, wanted)
    if not isinstance(tables, Tables):
        refused |= tables
        good = [each for each in good if each.height not in tables]
        decoded = _decode(good, wanted)
        assert isinstance(decoded, Tables), "each block by itself can be decoded"
        tables = decoded
    return Reading(
        {it.height: _read_block(it) for it in good},
        tables,
        refused,
        extra,
    )


def _read_block(it: _Read) -> ReadBlock:
    """Its hashes were decoded with its rows, so they are well formed."""
    own, parent = (bytes.fromhex(each[2:]) for each in (it.block.hash, it.block.parent_hash))
    return ReadBlock(own, parent, it.proof)


def _read(raw: RawBlock, wanted: Wanted, *, full: bool) -> _Read:
    network = wanted.network
    assert isinstance(network, EvmNetwork)
    block: Block | LightBlock
    receipts = None
    if not needs_receipts(wanted.datasets):
        block = keep_light_block(raw.block) if full else parse_light_block(raw.block)
    else:
        block = keep_block(raw.block) if full else parse_block(raw.block)
        if raw.receipts is not None:
            receipts = keep_receipts(raw.receipts, block) if full else parse_receipts(raw.receipts)
    if block.number.lower() != hex(raw.height):
        raise BadAnswer(f"block {block.number} was answered for {raw.height}")
    check_anchor(block, network, wanted.anchors.get(raw.height))
    complete(block, receipts, network, raw.height)
    how = (network, wanted.checks, raw.height)
    proof = check_block(block, receipts, *how)
    if raw.logs is None or not isinstance(block, Block):
        return _Read(raw.height, block, receipts, [], proof)
    logs = parse_logs(raw.logs)
    others = None if raw.other_logs is None else parse_logs(raw.other_logs)
    proof |= check_range_logs(block, logs, others, *how)
    return _Read(raw.height, block, receipts, logs, proof)


def _decode(blocks: Sequence[_Read], wanted: Wanted) -> Tables | Mapping[int, BadAnswer]:
    """The wanted tables of the blocks, or which of them cannot be decoded."""
    if not blocks:
        return Tables({})
    try:
        groups = groupby(blocks, key=lambda each: each.receipts is not None)
        parts = [_decoded(list(group), wanted.chain_id) for _, group in groups]
    except BadAnswer:
        return dict(_undecodable(blocks, wanted.chain_id))
    names = [name for name in parts[0] if name in wanted.datasets]
    return Tables({name: pa.concat_tables([part[name] for part in parts]) for name in names})


def _undecodable(blocks: Sequence[_Read], chain_id: int) -> Iterator[tuple[int, BadAnswer]]:
    for each in blocks:
        try:
            _decoded([each], chain_id)
        except BadAnswer as error:
            yield each.height, error


def _decoded(blocks: Sequence[_Read], chain_id: int) -> Tables:
    """The tables of blocks that all have receipts, or all have none."""
    light = [each.block for each in blocks if isinstance(each.block, LightBlock)]
    if light:
        return decode_headers(light, chain_id)
    full = [each.block for each in blocks if isinstance(each.block, Block)]
    receipts = [each.receipts for each in blocks if each.receipts is not None]
    if receipts:
        return decode_blocks(full, receipts, chain_id)
    logs = [log for each in blocks for log in each.logs]
    tables = decode_blocks(full, None, chain_id)
    return Tables({**tables, "logs": decode_range_logs(full, logs, chain_id)})
