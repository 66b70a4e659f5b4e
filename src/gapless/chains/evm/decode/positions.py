"""Check that the positions in an answer are those that its rows get.

Positions are counted, not parsed, so an answer with other positions must be rejected, such as a
list without its first items or receipts in a different order. Comparing the text costs little.

A receipt may be missing: Cronos returns none for a transaction that never ran. Its columns are then
null, and the network's checks decide whether that is acceptable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gapless.chains.evm.decode.structs import Block, Receipt
from gapless.core.errors import BadAnswer

_POSITIONS = [*map(hex, range(4096))]


def check_positions(block: Block, height: int) -> None:
    """Raise `BadAnswer` unless every transaction has its position in the block as its index."""
    indices = [row.transaction_index for row in block.transactions]
    if indices != _POSITIONS[: len(indices)] and indices != [*map(hex, range(len(indices)))]:
        at = next(at for at, text in enumerate(indices) if text != hex(at))
        problem = f"the transaction at position {at} has {indices[at]!r}"
        raise BadAnswer(f"`transactions.transaction_index` of block {height}: {problem}")


def paired(block: Block, receipts: Sequence[Receipt], height: int) -> list[Receipt | None]:
    """Return the receipt of each transaction; None for a transaction without one."""
    hashes = [row.hash for row in block.transactions]
    if hashes == [receipt.transaction_hash for receipt in receipts]:
        return list(receipts)
    found = list(_matched(hashes, receipts))
    if len(found) - found.count(None) != len(receipts):
        problem = "one belongs to no transaction of the block, or is out of order"
        raise BadAnswer(f"receipts of block {height}: {problem}")
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
