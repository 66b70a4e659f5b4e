"""Check fields that no hash covers, but that follow by arithmetic from proven ones.

Nodes compute these fields on request, and get them wrong more often than the chain data: indices
that restart, prices by the rules of another fork, gas of the wrong transaction.
"""

from __future__ import annotations

from itertools import chain, count

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.block_under_check import BlockUnderCheck
from gapless.chains.evm.codec.encoding import BLOB, DEPOSIT, PROTECTED, kind_of
from gapless.chains.evm.codec.hexrlp import address, listed, number, packed
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.decode.structs import Receipt, Transaction

_GAS_PER_BLOB = 1 << 17
_LAST_COMMON = 0x04  # types up to this one create contracts by Ethereum's rule on every chain


def derived(it: BlockUnderCheck) -> bool:
    if it.rooted_receipts is None or it.rooted_transactions is None:
        return False
    used = 0
    pairs = zip(it.rooted_transactions, it.rooted_receipts, strict=True)
    for position, (transaction, receipt) in enumerate(pairs):
        total = int(receipt.cumulative_gas_used, 16)
        finding = _receipt_finding(transaction, receipt, total - used) or _finding(transaction)
        if finding:
            it.refuse(Check.DERIVED, f"transaction {position}: {finding}")
        used = total
    return True


def prices(it: BlockUnderCheck) -> bool:
    if it.rooted_receipts is None or it.rooted_transactions is None:
        return False
    base_fee = int(it.block.base_fee_per_gas or "0x0", 16)
    pairs = zip(it.rooted_transactions, it.rooted_receipts, strict=True)
    for position, (transaction, receipt) in enumerate(pairs):
        given = receipt.effective_gas_price
        if given is not None and int(given, 16) != price(transaction, base_fee):
            finding = f"transaction {position} cannot have the gas price {int(given, 16):,}"
            it.refuse(Check.PRICES, finding)
    return True


def log_index(it: BlockUnderCheck) -> bool:
    if it.receipts is None:
        return False
    logs = chain.from_iterable(each.logs for each in it.receipts)
    for expected, log in zip(count(), logs, strict=False):
        if int(log.log_index, 16) != expected:
            it.refuse(Check.LOG_INDEX, f"log {expected} has the index {log.log_index}")
    return True


def price(transaction: Transaction, base_fee: int) -> int | None:
    """Return what a transaction paid per unit of gas."""
    limit, tip = transaction.max_fee_per_gas, transaction.max_priority_fee_per_gas
    if limit is not None and tip is not None:
        return min(int(limit, 16), base_fee + int(tip, 16))
    return None if transaction.gas_price is None else int(transaction.gas_price, 16)


def blob_gas(transaction: Transaction) -> str | None:
    """Return the gas that a transaction's blobs use; None if its type has no blobs."""
    if kind_of(transaction.type) != BLOB:
        return None
    return hex(len(transaction.blob_versioned_hashes or ()) * _GAS_PER_BLOB)


def created(transaction: Transaction, receipt: Receipt) -> str | None:
    """Return the address of the contract that a transaction creates; None if it is unknown."""
    kind = kind_of(transaction.type)
    if transaction.to is not None or (kind > _LAST_COMMON and kind != DEPOSIT):
        return None
    nonce = receipt.deposit_nonce if kind == DEPOSIT else transaction.nonce
    if nonce is None:
        return None
    creator = packed(listed(address(transaction.from_) + number(nonce)))
    return f"0x{keccak(creator)[12:].hex()}"


def _receipt_finding(transaction: Transaction, receipt: Receipt, gas: int) -> str | None:
    if receipt.gas_used is not None and int(receipt.gas_used, 16) != gas:
        return f"it used {gas:,} gas, not {int(receipt.gas_used, 16):,}"
    if True in {log.removed for log in receipt.logs}:
        return "a log is marked as removed"
    if receipt.blob_gas_used is not None:
        blobs = len(transaction.blob_versioned_hashes or ())
        if int(receipt.blob_gas_used, 16) != blobs * _GAS_PER_BLOB:
            return f"{blobs} blobs do not use {receipt.blob_gas_used} gas"
    if receipt.contract_address is not None and not _creates(transaction, receipt):
        return f"it did not create {receipt.contract_address}"
    return None


def _creates(transaction: Transaction, receipt: Receipt) -> bool:
    """Whether a transaction can have created the contract that its receipt names."""
    if transaction.to is not None or receipt.contract_address is None:
        return False
    actual = created(transaction, receipt)
    return actual is None or actual == receipt.contract_address.lower()


def _finding(transaction: Transaction) -> str | None:
    if transaction.v is None:
        return None
    v = int(transaction.v, 16)
    if transaction.y_parity is not None and transaction.type not in (None, "0x0"):
        return None if int(transaction.y_parity, 16) == v else "`v` and `yParity` differ"
    if transaction.chain_id is not None and transaction.type in (None, "0x0") and v >= PROTECTED:
        signed = (v - PROTECTED) // 2
        matches = int(transaction.chain_id, 16) == signed
        return None if matches else f"it is signed for chain {signed}"
    return None
