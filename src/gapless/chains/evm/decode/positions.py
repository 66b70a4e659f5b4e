"""Check that an answer agrees with the positions that its rows get.

Positions are counted, not parsed, so an answer that states other positions must be rejected: a list
without its first items, receipts in another order. Comparing the text costs little.

A receipt may be missing (Cronos answers none for a transaction that never ran). Its columns are
null then; the network's checks decide whether that is acceptable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gapless.chains.evm.decode.structs import Block, Receipt
from gapless.core.errors import BadAnswer

_POSITIONS = [*map(hex, range(4096))]


def check_positions(block: Block, height: int) -> None:
    """Every transaction says that it is at its position in the block."""
    said = [row.transaction_index for row in block.transactions]
    if said != _POSITIONS[: len(said)] and said != [*map(hex, range(len(said)))]:
        at = next(at for at, text in enumerate(said) if text != hex(at))
        what = f"the one at position {at} says {said[at]!r}"
        raise BadAnswer(f"`transactions.transaction_index` of block {height}: {what}")


def paired(block: Block, receipts: Sequence[Receipt], height: int) -> list[Receipt | None]:
    """For each transaction its receipt."""
    hashes = [row.hash for row in block.transactions]
    if hashes == [receipt.transaction_hash for receipt in receipts]:
        return list(receipts)
    found = list(_matched(hashes, receipts))
    if len(found) - found.count(None) != len(receipts):
        what = "one is of no transaction of the block, or out of order"
        raise BadAnswer(f"receipts of block {height}: {what}")
    return found


def _matched(hashes: Sequence[str], receipts: Sequence[Receipt]) -> Iterator[Receipt | None]:
    rest = iter(receipts)
    receipt = next(rest, None)
    for each in hashes:
        if receipt is not None and receipt.transaction_hash == each:
            yield receipt
            receipt = next(rest, None)
        else:
            yield None
