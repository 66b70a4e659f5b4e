"""Decode blocks that were parsed from answers or restored from rows.

A block comes with receipts, with logs instead of receipts, or as a header only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gapless.chains.evm.decode.logs import check_owned, decode_range_logs
from gapless.chains.evm.decode.structs import Block, LightBlock, RangeLog, Receipt
from gapless.chains.evm.decode.tables import decode_blocks, decode_headers
from gapless.chains.evm.tables import LOGS
from gapless.schema.arrow import Tables


class ParsedBlock(Protocol):
    """A block, with its receipts or logs if they were fetched."""

    @property
    def block(self) -> Block | LightBlock: ...
    @property
    def receipts(self) -> list[Receipt] | None: ...
    @property
    def logs(self) -> list[RangeLog] | None:
        """Logs that were fetched without receipts."""


def decode_parsed(blocks: Sequence[ParsedBlock], chain_id: int) -> Tables:
    """Decode the tables of blocks that all have the same form, for example all with receipts."""
    light = [each.block for each in blocks if isinstance(each.block, LightBlock)]
    if light:
        return decode_headers(light, chain_id)
    full = [each.block for each in blocks if isinstance(each.block, Block)]
    receipts = [each.receipts for each in blocks if each.receipts is not None]
    if receipts:
        return decode_blocks(full, receipts, chain_id)
    for each in blocks:
        check_owned(each.block, each.logs or ())
    logs = [log for each in blocks for log in each.logs or ()]
    tables = decode_blocks(full, None, chain_id)
    return Tables({**tables, LOGS.name: decode_range_logs(full, logs, chain_id)})
