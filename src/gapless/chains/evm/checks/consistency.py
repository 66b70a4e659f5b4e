"""Whether a block is consistent: cheap checks that need no trie, and prove little on their own.

Each takes a block and returns whether the check was possible; a check that fails raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.block_under_check import BlockUnderCheck
from gapless.chains.evm.codec.bloom import log_bits
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.rlp import EMPTY_LIST
from gapless.chains.evm.codec.trie import EMPTY_ROOT
from gapless.chains.evm.decode.structs import Block, Header, RangeLog, Receipt, Transaction

_EMPTY_ROOT = f"0x{EMPTY_ROOT.hex()}"
_NO_UNCLES = f"0x{keccak(EMPTY_LIST).hex()}"
_NO_BLOOM = f"0x{0:0512x}"
_POSITIONS = tuple(map(hex, range(4096)))


def height(it: BlockUnderCheck) -> bool:
    if _number(it.block.number) != it.height:
        it.refuse(Check.HEIGHT, f"its number is {it.block.number}")
    return True


def counts(it: BlockUnderCheck) -> bool:
    if it.receipts is None:
        return False
    if len(it.receipts) != len(it.hashes):
        finding = f"it has {len(it.hashes)} transactions, but {len(it.receipts)} receipts"
        it.refuse(Check.COUNTS, finding)
    return True


def places(it: BlockUnderCheck) -> bool:
    """Transactions and receipts name this block, and where in it they are."""
    if isinstance(it.block, Block):
        transactions = it.block.transactions
        if not _name(it.block, transactions):
            it.refuse(Check.PLACES, "a transaction names another block")
        if not _are_numbered([each.transaction_index for each in transactions]):
            it.refuse(Check.PLACES, "its transactions are not numbered from 0 without a gap")
    if it.receipts is None:
        return True
    if not _name(it.block, it.receipts):
        it.refuse(Check.PLACES, "a receipt names another block")
    hashes = [each.transaction_hash for each in it.receipts]
    positions = [each.transaction_index for each in it.receipts]
    if (hashes != it.hashes or not _are_numbered(positions)) and not _fit(it, hashes, positions):
        it.refuse(Check.PLACES, "its receipts are not those of its transactions, in their order")
    return True


def empty(it: BlockUnderCheck) -> bool:
    """A root is that of the empty list if and only if the list is empty."""
    block = it.block
    if (block.transactions_root == _EMPTY_ROOT) is not (not it.rooted_count):
        it.refuse(Check.EMPTY, f"{it.rooted_count} transactions under such a root")
    if (block.sha3_uncles == _NO_UNCLES) is not (not block.uncles):
        it.refuse(Check.EMPTY, f"{len(block.uncles)} uncles under such a hash")
    if Check.WITHDRAWALS_ROOT in it.supported and block.withdrawals_root is not None:
        withdrawals = block.withdrawals or ()
        if (block.withdrawals_root == _EMPTY_ROOT) is not (not withdrawals):
            it.refuse(Check.EMPTY, f"{len(withdrawals)} withdrawals under such a root")
    if it.rooted_receipts is None:
        return True
    if (block.receipts_root == _EMPTY_ROOT) is not (not it.rooted_receipts):
        it.refuse(Check.EMPTY, f"{len(it.rooted_receipts)} receipts under such a root")
    return True


def gas(it: BlockUnderCheck) -> bool:
    if it.rooted_receipts is None:
        return False
    last = _number(it.rooted_receipts[-1].cumulative_gas_used) if it.rooted_receipts else 0
    if last != _number(it.block.gas_used):
        it.refuse(Check.GAS, f"its receipts used {last:,} gas, not {int(it.block.gas_used, 16):,}")
    return True


def receipt_blooms(it: BlockUnderCheck) -> bool:
    if it.receipts is None:
        return False
    return all(_receipt_bloom_holds(it, each) for each in it.receipts)


def bloom(it: BlockUnderCheck) -> bool:
    """The header's bloom is the union of the receipts', each being checked by itself."""
    if it.rooted_receipts is None or it.block.logs_bloom is None:
        return False
    bits = reduce(or_, [_claimed_bits(each) for each in it.rooted_receipts if each.logs], 0)
    if bits != _number(it.block.logs_bloom):
        it.refuse(Check.BLOOM, "its logs do not have the bloom in its header")
    return True


def places_of_range(it: BlockUnderCheck, logs: Sequence[RangeLog]) -> bool:
    """Logs which came without receipts name this block, and transactions that are in it."""
    known = {*enumerate(it.hashes)}
    if any(log.block_hash != it.block.hash or log.removed for log in logs):
        it.refuse(Check.PLACES, "a log is of another branch")
    if not {(_number(log.transaction_index), log.transaction_hash) for log in logs} <= known:
        it.refuse(Check.PLACES, "a log names a transaction that is not in the block")
    return True


def bloom_of_range(it: BlockUnderCheck, logs: Sequence[RangeLog]) -> bool:
    """The header's bloom is that of the logs which came without receipts."""
    if it.block.logs_bloom is None:
        return False
    if not _have_bloom(it, logs):
        it.refuse(Check.BLOOM, "its logs do not have the bloom in its header")
    return True


def agreed(
    it: BlockUnderCheck, logs: Sequence[RangeLog], others: Sequence[RangeLog] | None
) -> bool:
    """Another endpoint returns the same logs, unless it was not asked or is known to be wrong."""
    if others is None or (Check.BLOOM in it.supported and not _have_bloom(it, others)):
        return False
    if [*map(_content, logs)] != [*map(_content, others)]:
        it.refuse(Check.AGREED, "two endpoints name different logs")
    return True


def _have_bloom(it: BlockUnderCheck, logs: Sequence[RangeLog]) -> bool:
    outside = it.hashes[-1] if it.has_outsider else None
    bits = log_bits(log for log in logs if log.transaction_hash != outside)
    return it.block.logs_bloom is None or bits == _number(it.block.logs_bloom)


def _content(log: RangeLog) -> tuple[object, ...]:
    """What must be the same at every endpoint, however it is written.

    Not the log's index: honest nodes count differently, and its place in the list says as much.
    """
    texts = (log.block_hash, log.transaction_hash, log.address, *log.topics, log.data)
    return (_number(log.transaction_index), *map(str.lower, texts))


def _claimed_bits(receipt: Receipt) -> int:
    return log_bits(receipt.logs) if receipt.logs_bloom is None else _number(receipt.logs_bloom)


def _receipt_bloom_holds(it: BlockUnderCheck, receipt: Receipt) -> bool:
    claimed = receipt.logs_bloom
    if claimed is None:
        return False
    holds = log_bits(receipt.logs) == _number(claimed) if receipt.logs else claimed == _NO_BLOOM
    if not holds:
        finding = f"receipt {receipt.transaction_index} has logs that are not those of its bloom"
        it.refuse(Check.RECEIPT_BLOOMS, finding)
    return True


def _name(block: Header, members: Sequence[Transaction] | Sequence[Receipt]) -> bool:
    """Whether all of them say that they belong to the block."""
    hashes = {each.block_hash for each in members}
    numbers = {each.block_number for each in members}
    return hashes <= {block.hash} and numbers <= {block.number}


def _fit(it: BlockUnderCheck, hashes: Sequence[str], positions: Sequence[str]) -> bool:
    """Whether receipts, perhaps fewer than transactions, are at the places that they name."""
    numbers = list(map(_number, positions))
    known = dict(enumerate(it.hashes))
    return numbers == sorted(set(numbers)) and [known.get(at) for at in numbers] == list(hashes)


def _are_numbered(positions: Sequence[str]) -> bool:
    """Whether hex positions count up from 0; written in the usual way this is one comparison."""
    count = len(positions)
    return tuple(positions) == _POSITIONS[:count] or list(map(_number, positions)) == list(
        range(count)
    )


def _number(field: str) -> int:
    return int(field, 16)
