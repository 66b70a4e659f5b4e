"""Turn answers into rows: parse, check and decode, each block on its own.

`docs/reference/answers.md` defines which answers are accepted, and the error of each violation.

By default, answers are parsed without the keys that have no column. The samples are parsed in full
to detect such keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from msgspec import Raw

from gapless.chains.derived_rows import counted
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.check import check_anchor, check_block, check_range_logs
from gapless.chains.evm.checks.completion import complete
from gapless.chains.evm.checks.levels import needs_receipts
from gapless.chains.evm.decode.grammar import (
    check_blooms,
    check_forms,
    make_plain,
    normalize,
    rows_of,
)
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
from gapless.chains.evm.tables import BLOCKS, DERIVED_TABLES, TABLES, TRANSFERS
from gapless.chains.evm.transfer_rows import derived_tables
from gapless.chains.family import ReadBlock, Reading, Wanted
from gapless.core.errors import BadAnswer
from gapless.core.proof import Proof
from gapless.schema.arrow import Tables


@dataclass(frozen=True)
class _Parsed:
    """A block whose answers are valid JSON of the right types, in plain notation, and completed."""

    height: int
    block: Block | LightBlock
    receipts: list[Receipt] | None
    logs: list[RangeLog]  # from a node that does not offer receipts
    others: list[RangeLog] | None  # the same from a second node
    ranged: bool  # whether logs were fetched without receipts
    full: bool  # whether undeclared keys were kept


def read(
    raws: Sequence[EvmRawBlock], wanted: Wanted, samples: Collection[int], *, whole: bool
) -> Reading:
    """Parse, check and decode the answers; see `Family.read`.

    A malformed answer is refused as such, even if it fails a check too. So the blocks are decoded
    first, which validates whole columns at once, and checked afterwards.
    """
    parsed: list[_Parsed] = []
    refused: dict[int, BadAnswer] = {}
    for raw in raws:
        try:
            parsed.append(_parse(raw, wanted, full=whole or raw.height in samples))
        except BadAnswer as error:
            refused[raw.height] = error
    tables = _decode(parsed, wanted)
    if tables is None:
        findings = {it.height: _malformed(it) for it in parsed}
        refused |= {height: finding for height, finding in findings.items() if finding}
        parsed = [it for it in parsed if not findings[it.height]]
    good: list[tuple[_Parsed, Proof]] = []
    for it in parsed:
        try:
            good.append((it, _check(it, wanted)))
        except BadAnswer as error:
            refused[it.height] = _malformed(it) or error
    if tables is None:
        misplaced = dict(_undecodable([it for it, _ in good], wanted))
        refused |= misplaced
        good = [(it, proof) for it, proof in good if it.height not in misplaced]
    if tables is None or len(good) < len(parsed):
        tables = _decode([it for it, _ in good], wanted)
        assert tables is not None, "each remaining block can be decoded on its own"
    extra = any(it.full and has_extra(it.block, it.receipts or ()) for it, _ in good)
    blocks = {it.height: _read_block(it, proof) for it, proof in good}
    return Reading(blocks, tables, refused, extra)


def _read_block(it: _Parsed, proof: Proof) -> ReadBlock:
    """Extract the hashes, which are well formed: they were decoded with the rows."""
    own, parent = (bytes.fromhex(each[2:]) for each in (it.block.hash, it.block.parent_hash))
    return ReadBlock(own, parent, proof)


def _parse(raw: EvmRawBlock, wanted: Wanted, *, full: bool) -> _Parsed:
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
    make_plain(block, receipts)
    if block.number != hex(raw.height):
        raise BadAnswer(f"the node answered with block {block.number} instead of {raw.height}")
    complete(block, receipts, network, raw.height)
    ranged = raw.logs is not None and isinstance(block, Block)
    logs = _range_logs(raw.logs, raw.height) if ranged else None
    others = _range_logs(raw.other_logs, raw.height) if ranged else None
    return _Parsed(raw.height, block, receipts, logs or [], others, ranged, full)


def _range_logs(raw: Raw | None, height: int) -> list[RangeLog] | None:
    if raw is None:
        return None
    logs = parse_logs(raw)
    check_forms(logs, height)
    normalize(logs)
    return logs


def _malformed(it: _Parsed) -> BadAnswer | None:
    """Return what is malformed in a block, examined value by value."""
    try:
        check_forms(rows_of(it.block, it.receipts), it.height)
    except BadAnswer as error:
        return error
    return None


def _check(it: _Parsed, wanted: Wanted) -> Proof:
    network = wanted.network
    assert isinstance(network, EvmNetwork)
    check_anchor(it.block, network, wanted.anchors.get(it.height))
    options = (network, wanted.checks, it.height)
    proof = check_block(it.block, it.receipts, *options)
    if it.receipts and (network.sprint or Check.RECEIPTS_ROOT not in proof.proven):
        check_blooms(it.receipts, it.height)
    if it.ranged and isinstance(it.block, Block):
        proof |= check_range_logs(it.block, it.logs, it.others, *options)
    return proof


def _decode(blocks: Sequence[_Parsed], wanted: Wanted) -> Tables | None:
    """Return the wanted tables of the blocks; None if one of them cannot be decoded."""
    if not blocks:
        return Tables({})
    try:
        groups = groupby(blocks, key=lambda each: each.receipts is not None)
        parts = [decode_parsed(list(group), wanted.chain_id) for _, group in groups]
    except BadAnswer:
        return None
    return wanted_tables(
        {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}, wanted
    )


def wanted_tables(tables: Mapping[str, pa.Table], wanted: Wanted) -> Tables:
    """Return the wanted ones of the tables, and those that are derived from them."""
    if TRANSFERS.name in wanted.datasets:
        derived = derived_tables(tables, wanted.chain_id)
        blocks = counted(tables[BLOCKS.name], TRANSFERS, derived[TRANSFERS.name])
        tables = {**tables, **derived, BLOCKS.name: blocks}
    names = [table.name for table in (*TABLES, *DERIVED_TABLES) if table.name in wanted.datasets]
    return Tables({name: tables[name] for name in names if name in tables})


def _undecodable(blocks: Sequence[_Parsed], wanted: Wanted) -> Iterator[tuple[int, BadAnswer]]:
    for each in blocks:
        try:
            decode_parsed([each], wanted.chain_id)
        except BadAnswer as error:
            yield each.height, error
