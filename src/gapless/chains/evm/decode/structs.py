"""The raw JSON-RPC objects that EVM nodes return, as typed structs.

A field is optional only if some real chain or era omits it: `type` before typed transactions,
`root` instead of `status` before Byzantium, `withdrawals` before Shanghai (where `[]` is not the
same as absent), `value` and `input` in batch-call transactions. Numbers and bytes remain the node's
hex strings, because whole columns of them are decoded at once (`columns.py`), and the checks hash
them as they are. Keys that are not declared here are skipped: they must be valid JSON, but are not
parsed; `lossless.py` is the decoder that keeps them.

Nested lists that most blocks leave empty stay `msgspec.Raw`, at no measurable cost: they are stored
as JSON text, and parsed only to compute a transaction's hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from gapless.chains.evm.decode.documents import check_document
from gapless.core.errors import BadAnswer

T = TypeVar("T")

# Errors from parsing arbitrary bytes: invalid JSON or types, invalid UTF-8, nesting too deep.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

# No node is expected to send this key; an answer that has it is refused.
EXTRA_KEY = "(extra)"

# msgspec does not support `Raw | None`, so an absent value is one without bytes.
ABSENT = Raw()
_NOTHING = (b"", b"null")


class Answer(Struct, gc=False, rename="camel", kw_only=True):
    """An object in an answer; `extra` holds the keys without a declared field, as JSON."""

    extra: Raw = field(default=ABSENT, name=EXTRA_KEY)


class Log(Answer, gc=False, rename="camel", kw_only=True):
    """A log in a receipt, which determines its block and transaction."""

    address: str
    topics: list[str]
    data: str
    log_index: str
    removed: bool = False


class RangeLog(Log, gc=False, rename="camel", kw_only=True):
    """A log of `eth_getLogs`, with its own reference to its block and transaction."""

    block_number: str
    block_hash: str
    transaction_hash: str
    transaction_index: str


class Receipt(Answer, gc=False, rename="camel", kw_only=True):
    """An item of `eth_getBlockReceipts`, or the result of `eth_getTransactionReceipt`."""

    block_hash: str
    block_number: str
    contract_address: str | None = None
    cumulative_gas_used: str
    effective_gas_price: str | None = None
    gas_used: str | None = None
    logs: list[Log]
    logs_bloom: str | None = None
    status: str | None = None
    transaction_hash: str
    transaction_index: str
    type: str | None = None
    root: str | None = None
    blob_gas_used: str | None = None
    blob_gas_price: str | None = None
    # Optimism and other OP Stack chains; old nodes write some of them as decimal text.
    l1_fee: str | None = None
    l1_gas_used: str | None = None
    l1_gas_price: str | None = None
    l1_fee_scalar: str | None = None
    l1_base_fee_scalar: str | None = None
    l1_blob_base_fee: str | None = None
    l1_blob_base_fee_scalar: str | None = None
    operator_fee_scalar: str | None = None
    operator_fee_constant: str | None = None
    da_footprint_gas_scalar: str | None = None
    deposit_nonce: str | None = None
    deposit_receipt_version: str | None = None
    # Arbitrum.
    gas_used_for_l1: str | None = None
    l1_block_number: str | None = None
    timeboosted: bool | None = None


class Transaction(Answer, gc=False, rename="camel", kw_only=True):
    """A transaction in a block that was requested in full."""

    block_hash: str
    block_number: str
    from_: str = field(name="from")
    gas: str
    gas_price: str | None = None
    max_fee_per_gas: str | None = None
    max_priority_fee_per_gas: str | None = None
    max_fee_per_blob_gas: str | None = None
    hash: str
    input: str | None = None
    nonce: str
    to: str | None = None
    transaction_index: str
    value: str | None = None
    type: str | None = None
    access_list: Raw = ABSENT
    chain_id: str | None = None
    blob_versioned_hashes: list[str] | None = None
    authorization_list: Raw = ABSENT
    v: str | None = None
    r: str | None = None
    s: str | None = None
    y_parity: str | None = None
    # Optimism deposits.
    source_hash: str | None = None
    mint: str | None = None
    is_system_tx: bool | None = None


class Withdrawal(Answer, gc=False, rename="camel", kw_only=True):
    """A validator's withdrawal; the amount is in gwei."""

    index: str
    validator_index: str
    address: str
    amount: str


class Header(Answer, gc=False, rename="camel", kw_only=True):
    """The fields of a block itself."""

    base_fee_per_gas: str | None = None
    blob_gas_used: str | None = None
    block_access_list_hash: str | None = None
    difficulty: str | None = None
    excess_blob_gas: str | None = None
    extra_data: str
    gas_limit: str
    gas_used: str
    hash: str
    logs_bloom: str | None = None
    miner: str
    mix_hash: str | None = None
    nonce: str | None = None
    number: str
    parent_beacon_block_root: str | None = None
    parent_hash: str
    receipts_root: str
    requests_hash: str | None = None
    sha3_uncles: str
    size: str | None = None
    slot_number: str | None = None
    state_root: str
    timestamp: str
    total_difficulty: str | None = None
    transactions_root: str
    uncles: list[str]
    withdrawals_root: str | None = None
    # Arbitrum.
    l1_block_number: str | None = None
    send_count: str | None = None
    send_root: str | None = None


class LightBlock(Header, gc=False, rename="camel", kw_only=True):
    """`eth_getBlockByNumber(n, false)`: transactions are given by their hashes."""

    transactions: Sequence[str]
    withdrawals: list[Withdrawal] | None = None


class Block(Header, gc=False, rename="camel", kw_only=True):
    """`eth_getBlockByNumber(n, true)`."""

    transactions: list[Transaction]
    withdrawals: list[Withdrawal] | None = None


def transaction_type(transaction: Transaction) -> int:
    """Return the type, derived from the fields if an old node omits it."""
    if transaction.type is not None:
        return int(transaction.type, 16)
    if is_given(transaction.authorization_list):
        return 4
    if transaction.blob_versioned_hashes is not None:
        return 3
    if transaction.max_fee_per_gas is not None:
        return 2
    return 1 if is_given(transaction.access_list) else 0


def keep(extra: bytes) -> Raw:
    """Return undeclared keys, as the JSON of an object, for the field `extra`."""
    return Raw(b" " + extra)


def was_sent(extra: Raw) -> bool:
    """Whether a node sent this `extra`: it begins without a space, unlike what `keep` returns."""
    return bytes(memoryview(extra)[:1]) not in (b"", b" ")


def is_given(raw: Raw) -> bool:
    """Whether a raw value is present and not null."""
    return bytes(raw) not in _NOTHING


_blocks = msgspec.json.Decoder(Block)
_light_blocks = msgspec.json.Decoder(LightBlock)
_receipts = msgspec.json.Decoder(list[Receipt])
_range_logs = msgspec.json.Decoder(list[RangeLog])


def parse_block(raw: bytes | Raw) -> Block:
    block = _answer(_blocks, raw, "block")
    lists = b"".join([row.access_list for row in block.transactions])
    inside = lists.count(b"[") + lists.count(b"{")
    _check(raw, "block", _known(block) + len(block.transactions) + inside)
    return block


def parse_light_block(raw: bytes | Raw) -> LightBlock:
    block = _answer(_light_blocks, raw, "block")
    _check(raw, "block", _known(block))
    return block


def parse_receipts(raw: bytes | Raw) -> list[Receipt]:
    receipts = _answer(_receipts, raw, "receipts")
    logs = sum([len(receipt.logs) for receipt in receipts])
    _check(raw, "receipts", 1 + 2 * len(receipts) + 2 * logs)
    return receipts


def parse_logs(raw: bytes | Raw) -> list[RangeLog]:
    logs = _answer(_range_logs, raw, "logs")
    _check(raw, "logs", 1 + 2 * len(logs))
    return logs


def _answer(decoder: msgspec.json.Decoder[T], raw: bytes | Raw, what: str) -> T:
    try:
        return decoder.decode(raw)
    except UNREADABLE as error:
        raise BadAnswer(f"the returned {what} cannot be read: {error}") from error


def _known(block: Block | LightBlock) -> int:
    """Return the number of lists and objects in a block, without its transactions."""
    withdrawals = 0 if block.withdrawals is None else 1 + len(block.withdrawals)
    return 3 + withdrawals  # the block, its transactions, its uncles


def _check(raw: bytes | Raw, what: str, expected: int) -> None:
    """Refuse an answer that is not UTF-8 or too deep.

    A list that is not counted among the expected ones, such as the hashes of a blob transaction,
    makes the check slower, but not wrong. What is inside an access list has its own check.
    """
    try:
        check_document(raw, expected)
    except ValueError as error:
        raise BadAnswer(f"the returned {what} cannot be read: {error}") from error
