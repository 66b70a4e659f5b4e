"""Turn answers into rows: parse, check and decode, each block on its own.

Every key of an answer is kept, so there is no second, slower way to read the same answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.chains.derived_rows import counted
from gapless.chains.family import ReadBlock, Reading, Wanted
from gapless.chains.tron.block_rows import BlockRows, arrow_table, rows_of
from gapless.chains.tron.checks import check_agreement, check_anchor, check_block, under_check
from gapless.chains.tron.parsed import parsed, parsed_other
from gapless.chains.tron.raw_block import RawTronBlock
from gapless.chains.tron.tables import TRON_BLOCKS, TRON_TABLES, TRON_TRANSFERS
from gapless.chains.tron.transfer_rows import derived_tables
from gapless.core.errors import BadAnswer
from gapless.schema.arrow import Tables


def read(raws: Sequence[RawTronBlock], wanted: Wanted) -> Reading:
    """Parse, check and decode the answers; see `Family.read`."""
    good: dict[int, ReadBlock] = {}
    refused: dict[int, BadAnswer] = {}
    rows: list[BlockRows] = []
    for raw in raws:
        try:
            block, of_block = _read(raw, wanted)
        except BadAnswer as error:
            refused[raw.height] = error
        else:
            good[raw.height] = block
            rows.append(of_block)
    tables = {
        table.name: arrow_table(table, [row for each in rows for row in each[table.name]])
        for table in TRON_TABLES
        if {table.name, TRON_TRANSFERS.name} & wanted.datasets
    }
    if TRON_TRANSFERS.name in wanted.datasets:
        tables |= derived_tables(tables)
        blocks, found = tables[TRON_BLOCKS.name], tables[TRON_TRANSFERS.name]
        tables[TRON_BLOCKS.name] = counted(blocks, TRON_TRANSFERS, found)
    wanted_tables = {name: each for name, each in tables.items() if name in wanted.datasets}
    return Reading(good, Tables(wanted_tables), refused, has_extra=False)


def _read(raw: RawTronBlock, wanted: Wanted) -> tuple[ReadBlock, BlockRows]:
    block = parsed(raw)
    if block.header.number != raw.height:
        found = f"block {block.header.number} instead of {raw.height}"
        raise BadAnswer(f"the node answered with {found}")
    subject = under_check(block, wanted.network, raw.height)
    check_anchor(subject, wanted.anchors.get(raw.height))
    proof = check_block(subject, wanted.checks)
    proof |= check_agreement(subject, parsed_other(raw), wanted.checks)
    rows = rows_of(block, wanted.chain_id)
    return ReadBlock(block.id, block.header.parent_hash, proof), rows
