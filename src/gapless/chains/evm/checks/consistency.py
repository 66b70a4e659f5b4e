"""Check that a block is consistent. These checks are cheap, but prove little on their own.

Each takes a block and returns whether the check was possible. If the check fails, it raises.
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
    """Check that transactions and receipts name this block and their positions in it."""
    if isinstance(it.block, Block):
        transactions = it.block.transactions
        if not _name(it.block, transactions):
            it.refuse(Check.PLACES, "a transaction names another block")
        if not _are_numbered([each.transaction_index for each in transactions]):
            it.refuse(Check.PLACES, "its transactions are not numbered from 0 without gaps")
    if it.receipts is None:
        return True
    if not _name(it.block, it.receipts):
        it.refuse(Check.PLACES, "a receipt names another block")
    hashes = [each.transaction_hash for each in it.receipts]
    positions = [each.transaction_index for each in it.receipts]
    if (hashes != it.hashes or not _are_numbered(positions)) and not _fit(it, hashes, positions):
        it.refuse(Check.PLACES, "its receipts do not match its transactions in order")
    return True


def empty(it: BlockUnderCheck) -> bool:
    """Check that a root is that of the empty list if and only if the list is empty."""
    block = it.block
    if (block.transactions_root == _EMPTY_ROOT) is not (not it.rooted_count):
        it.refuse(Check.EMPTY, f"its transactions root does not fit {it.rooted_count} transactions")
    if (block.sha3_uncles == _NO_UNCLES) is not (not block.uncles):
        it.refuse(Check.EMPTY, f"its uncles hash does not fit {len(block.uncles)} uncles")
    if Check.WITHDRAWALS_ROOT in it.supported and block.withdrawals_root is not None:
        withdrawals = block.withdrawals or ()
        if (block.withdrawals_root == _EMPTY_ROOT) is not (not withdrawals):
            finding = f"its withdrawals root does not fit {len(withdrawals)} withdrawals"
            it.refuse(Check.EMPTY, finding)
    if it.rooted_receipts is None:
        return True
    if (block.receipts_root == _EMPTY_ROOT) is not (not it.rooted_receipts):
        finding = f"its receipts root does not fit {len(it.rooted_receipts)} receipts"
        it.refuse(Check.EMPTY, finding)
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
    """Check that the header's bloom is the union of the receipts' blooms.

    `receipt_blooms` checks each of those.
    """
    if it.rooted_receipts is None or it.block.logs_bloom is None:
        return False
    bits = reduce(or_, [_claimed_bits(each) for each in it.rooted_receipts if each.logs], 0)
    if bits != _number(it.block.logs_bloom):
        it.refuse(Check.BLOOM, "its logs do not match the bloom in its header")
    return True


def places_of_range(it: BlockUnderCheck, logs: Sequence[RangeLog]) -> bool:
    """Check that logs fetched without receipts name this block and transactions in it."""
    known = {*enumerate(it.hashes)}
    if any(log.block_hash != it.block.hash or log.removed for log in logs):
        it.refuse(Check.PLACES, "a log belongs to another branch")
    if not {(_number(log.transaction_index), log.transaction_hash) for log in logs} <= known:
        it.refuse(Check.PLACES, "a log names a transaction that is not in the block")
    return True


def bloom_of_range(it: BlockUnderCheck, logs: Sequence[RangeLog]) -> bool:
    """Check that the header's bloom is that of the logs fetched without receipts."""
    if it.block.logs_bloom is None:
        return False
    if not _have_bloom(it, logs):
        it.refuse(Check.BLOOM, "its logs do not match the bloom in its header")
    return True


def agreed(
    it: BlockUnderCheck, logs: Sequence[RangeLog], others: Sequence[RangeLog] | None
) -> bool:
    """Check that a second endpoint returns the same logs.

    This is not possible if there is no second endpoint, or if its logs do not match the bloom.
    """
    if others is None or (Check.BLOOM in it.supported and not _have_bloom(it, others)):
        return False
    if [*map(_content, logs)] != [*map(_content, others)]:
        it.refuse(Check.AGREED, "two endpoints return different logs")
    return True


def _have_bloom(it: BlockUnderCheck, logs: Sequence[RangeLog]) -> bool:
    unrooted = it.hashes[-1] if it.has_unrooted else None
    bits = log_bits(log for log in logs if log.transaction_hash != unrooted)
    return it.block.logs_bloom is None or bits == _number(it.block.logs_bloom)


def _content(log: RangeLog) -> tuple[object, ...]:
    """Return what every endpoint must agree on, in a normalized form.

    The log's index is left out: honest nodes count differently, and the order of the logs is
    compared anyway.
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
        finding = f"the logs of receipt {receipt.transaction_index} do not match its bloom"
        it.refuse(Check.RECEIPT_BLOOMS, finding)
    return True


def _name(block: Header, members: Sequence[Transaction] | Sequence[Receipt]) -> bool:
    """Whether all of them name the block as theirs."""
    hashes = {each.block_hash for each in members}
    numbers = {each.block_number for each in members}
    return hashes <= {block.hash} and numbers <= {block.number}


def _fit(it: BlockUnderCheck, hashes: Sequence[str], positions: Sequence[str]) -> bool:
    """Whether receipts, of which some may be missing, have the positions of their transactions."""
    numbers = list(map(_number, positions))
    known = dict(enumerate(it.hashes))
    return numbers == sorted(set(numbers)) and [known.get(at) for at in numbers] == list(hashes)


def _are_numbered(positions: Sequence[str]) -> bool:
    """Whether hex positions count up from 0; for the usual notation, this is one comparison."""
    count = len(positions)
    return tuple(positions) == _POSITIONS[:count] or list(map(_number, positions)) == list(
        range(count)
    )


def _number(field: str) -> int:
    return int(field, 16)
