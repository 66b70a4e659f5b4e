"""Turn answers into rows: parse, check and decode, each block on its own.

By default, answers are parsed without the keys that have no column. The samples are parsed in full
to detect such keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from gapless.chains.evm.checks.check import check_anchor, check_block, check_range_logs
from gapless.chains.evm.checks.completion import complete
from gapless.chains.evm.checks.levels import needs_receipts
from gapless.chains.evm.decode.lossless import (
    has_extra,
    keep_block,
    keep_light_block,
    keep_receipts,
)
from gapless.chains.evm.decode.parsed import decode_parsed
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
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.family import ReadBlock, Reading, Wanted
from gapless.core.errors import BadAnswer
from gapless.core.proof import Proof
from gapless.schema.arrow import Tables


@dataclass(frozen=True)
class _Read:
    """A parsed block that passed its checks."""

    height: int
    block: Block | LightBlock
    receipts: list[Receipt] | None
    logs: list[RangeLog]  # from a node that does not offer receipts
    proof: Proof


def read(
    raws: Sequence[EvmRawBlock], wanted: Wanted, samples: Collection[int], *, whole: bool
) -> Reading:
    """Parse, check and decode the answers; see `Family.read`."""
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
        assert isinstance(decoded, Tables), "each remaining block can be decoded on its own"
        tables = decoded
    return Reading(
        {it.height: _read_block(it) for it in good},
        tables,
        refused,
        extra,
    )


def _read_block(it: _Read) -> ReadBlock:
    """Extract the hashes, which are well formed: they were decoded with the rows."""
    own, parent = (bytes.fromhex(each[2:]) for each in (it.block.hash, it.block.parent_hash))
    return ReadBlock(own, parent, it.proof)


def _read(raw: EvmRawBlock, wanted: Wanted, *, full: bool) -> _Read:
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
        raise BadAnswer(f"the node answered with block {block.number} instead of {raw.height}")
    check_anchor(block, network, wanted.anchors.get(raw.height))
    complete(block, receipts, network, raw.height)
    options = (network, wanted.checks, raw.height)
    proof = check_block(block, receipts, *options)
    if raw.logs is None or not isinstance(block, Block):
        return _Read(raw.height, block, receipts, [], proof)
    logs = parse_logs(raw.logs)
    others = None if raw.other_logs is None else parse_logs(raw.other_logs)
    proof |= check_range_logs(block, logs, others, *options)
    return _Read(raw.height, block, receipts, logs, proof)


def _decode(blocks: Sequence[_Read], wanted: Wanted) -> Tables | Mapping[int, BadAnswer]:
    """Return the wanted tables of the blocks, or the blocks that cannot be decoded."""
    if not blocks:
        return Tables({})
    try:
        groups = groupby(blocks, key=lambda each: each.receipts is not None)
        parts = [decode_parsed(list(group), wanted.chain_id) for _, group in groups]
    except BadAnswer:
        return dict(_undecodable(blocks, wanted.chain_id))
    names = [name for name in parts[0] if name in wanted.datasets]
    return Tables({name: pa.concat_tables([part[name] for part in parts]) for name in names})


def _undecodable(blocks: Sequence[_Read], chain_id: int) -> Iterator[tuple[int, BadAnswer]]:
    for each in blocks:
        try:
            decode_parsed([each], chain_id)
        except BadAnswer as error:
            yield each.height, error
