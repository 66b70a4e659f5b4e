"""Fill in fields that an honest node may omit and that follow from other fields.

Old nodes omit `effectiveGasPrice` and `blobGasUsed`, and some return null for the contract that a
failed transaction would have created. These fields follow by arithmetic, so they are computed here,
before the checks prove the fields that they are computed from. A field that the node returns is not
changed; the checks decide whether it contradicts the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks import derived
from gapless.chains.evm.checks.block_under_check import BlockUnderCheck, block_under_check
from gapless.chains.evm.codec.bloom import bloom_of_logs
from gapless.chains.evm.codec.trie import EMPTY_ROOT
from gapless.chains.evm.decode.structs import (
    Block,
    LightBlock,
    Receipt,
    Transaction,
    is_given,
    transaction_type,
)
from gapless.chains.evm.networks import EvmNetwork

_EMPTY_ROOT = f"0x{EMPTY_ROOT.hex()}"
_WITH_ACCESS_LIST = ("0x1", "0x2", "0x3", "0x4")
_BLOB = "0x3"
_DEPOSIT = "0x7e"
_NO_ENTRIES = Raw(b"[]")
_DYNAMIC = 2  # the first transaction type with a maximum fee and a tip instead of a price


def complete(
    block: Block | LightBlock, receipts: Sequence[Receipt] | None, network: EvmNetwork, height: int
) -> None:
    """Fill in missing fields in place; the checks will reject unreadable ones."""
    supported = network.checks_at(height)
    if block.withdrawals_root == _EMPTY_ROOT:
        block.withdrawals = block.withdrawals or []
    if isinstance(block, Block):
        for transaction in block.transactions:
            _complete_transaction(transaction)
    subject = block_under_check(block, receipts, network, height)
    if subject.rooted_receipts is None:
        return
    try:
        if block.logs_bloom is None and Check.BLOOM in supported:
            logs = [log for receipt in subject.rooted_receipts for log in receipt.logs]
            block.logs_bloom = bloom_of_logs(logs)
        _complete_receipts(subject)
    except ValueError:
        return


def _complete_transaction(it: Transaction) -> None:
    """Fill in the type, and fields for which absent, empty and zero mean the same."""
    if it.type is None:
        it.type = hex(transaction_type(it))
    if it.type in _WITH_ACCESS_LIST and not is_given(it.access_list):
        it.access_list = _NO_ENTRIES
    if it.type == _DEPOSIT:
        it.mint = "0x0" if it.mint is None else it.mint
        it.gas_price = "0x0" if it.gas_price is None else it.gas_price
        it.is_system_tx = bool(it.is_system_tx)


def _complete_receipts(it: BlockUnderCheck) -> None:
    transactions, receipts = it.rooted_transactions, it.rooted_receipts
    if transactions is None or receipts is None or len(transactions) != len(receipts):
        return
    with_prices, with_derived = Check.PRICES in it.supported, Check.DERIVED in it.supported
    used = 0
    base_fee = int(it.block.base_fee_per_gas or "0x0", 16)
    for transaction, receipt in zip(transactions, receipts, strict=True):
        if receipt.type is None:
            receipt.type = transaction.type
        total = int(receipt.cumulative_gas_used, 16)
        if receipt.gas_used is None:
            receipt.gas_used = None if total < used else hex(total - used)
        used = total
        if with_prices:
            _complete_prices(transaction, receipt, base_fee)
        if with_derived:
            if receipt.blob_gas_used is None and transaction.type == _BLOB:
                receipt.blob_gas_used = derived.blob_gas(transaction)
            if receipt.contract_address is None and transaction.to is None:
                receipt.contract_address = derived.created(transaction, receipt)


def _complete_prices(transaction: Transaction, receipt: Receipt, base_fee: int) -> None:
    if receipt.effective_gas_price is not None and transaction.gas_price is not None:
        return
    price = derived.price(transaction, base_fee)
    if price is None:
        return
    if receipt.effective_gas_price is None:
        receipt.effective_gas_price = hex(price)
    if transaction.gas_price is None and int(transaction.type or "0x0", 16) >= _DYNAMIC:
        transaction.gas_price = hex(price)
