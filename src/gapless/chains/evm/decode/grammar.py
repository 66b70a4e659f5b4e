"""The form of every field of an answer, and one notation for all of them.

`docs/reference/answers.md` is the grammar in words. Usually, nothing here runs per value: columns
are validated as a whole when they are decoded, and `is_plain` shows that the fields without a
column are written as usual. Only what is not plain, or fails, is examined value by value.

Code that reads parsed answers compares texts, so equal values must have equal texts: hex digits in
lower case, quantities without leading zeros. `normalize` establishes that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from gapless.chains.evm.decode import columns
from gapless.chains.evm.decode.columns import BadValue
from gapless.chains.evm.decode.form import (
    ADDRESS,
    BLOOM,
    DATA,
    HASH,
    KIND,
    L1_U64,
    L1_U256,
    NONCE,
    TEXT,
    U64,
    U256,
    ValueForm,
)
from gapless.chains.evm.decode.lists import list_text
from gapless.chains.evm.decode.structs import (
    UNREADABLE,
    Answer,
    Block,
    LightBlock,
    Log,
    RangeLog,
    Receipt,
    Transaction,
    Withdrawal,
    was_sent,
)
from gapless.core.errors import BadAnswer

_LISTS = ("access_list", "authorization_list")
_MOST_TOPICS = 4
_KINDS: frozenset[str | None] = frozenset({None, *map(hex, range(256))})
_PARITIES = frozenset({None, "0x0", "0x1"})
_POSITIONS = [*map(hex, range(4096))]
_BLOOM_WIDTH = 256
_LONGEST_NAME = 18  # characters of a block's number, if it is well formed
_variant = attrgetter("type", "y_parity", "chain_id")


def _named(**forms: str) -> dict[str, ValueForm]:
    return {name: _BY_NAME[form] for form, names in forms.items() for name in names.split()}


_BY_NAME = {
    "u64": U64,
    "u256": U256,
    "kind": KIND,
    "l1_u64": L1_U64,
    "l1_u256": L1_U256,
    "nonce": NONCE,
    "address": ADDRESS,
    "hash": HASH,
    "bloom": BLOOM,
    "data": DATA,
    "text": TEXT,
}
_HEADER = _named(
    u64="number timestamp gas_limit gas_used size blob_gas_used excess_blob_gas slot_number "
    "l1_block_number send_count",
    u256="base_fee_per_gas difficulty total_difficulty",
    hash="hash parent_hash sha3_uncles state_root transactions_root receipts_root mix_hash "
    "withdrawals_root parent_beacon_block_root requests_hash block_access_list_hash send_root "
    "uncles",
    address="miner",
    nonce="nonce",
    data="extra_data",
    bloom="logs_bloom",
)
_LOG = _named(address="address", hash="topics", data="data", u64="log_index")
FORMS: Mapping[type[Answer], Mapping[str, ValueForm]] = {
    Block: _HEADER,
    LightBlock: _HEADER | _named(hash="transactions"),
    Transaction: _named(
        hash="hash block_hash source_hash blob_versioned_hashes",
        u64="block_number transaction_index nonce gas v y_parity",
        u256="value gas_price max_fee_per_gas max_priority_fee_per_gas max_fee_per_blob_gas mint "
        "r s chain_id",
        address="from_ to",
        kind="type",
        data="input",
    ),
    Receipt: _named(
        hash="block_hash transaction_hash root",
        u64="block_number transaction_index cumulative_gas_used gas_used status blob_gas_used "
        "deposit_nonce deposit_receipt_version gas_used_for_l1 l1_block_number",
        u256="effective_gas_price blob_gas_price",
        l1_u64="l1_gas_used",
        l1_u256="l1_fee l1_gas_price",
        address="contract_address",
        bloom="logs_bloom",
        kind="type",
        text="l1_fee_scalar l1_base_fee_scalar l1_blob_base_fee l1_blob_base_fee_scalar "
        "operator_fee_scalar operator_fee_constant da_footprint_gas_scalar",
    ),
    Log: _LOG,
    RangeLog: _LOG
    | _named(hash="block_hash transaction_hash", u64="block_number transaction_index"),
    Withdrawal: _named(u64="index validator_index amount", address="address"),
}
"""By struct and field; of a list, the form of its members."""


def make_plain(block: Block | LightBlock, receipts: Sequence[Receipt] | None) -> None:
    """Normalize a block that is not plain, or raise `BadAnswer`."""
    if not is_plain(block, receipts):
        rows = [*rows_of(block, receipts)]
        check_forms(rows, block.number[:_LONGEST_NAME])
        normalize(rows)


def is_plain(block: Block | LightBlock, receipts: Sequence[Receipt] | None) -> bool:
    """Whether all fields that are compared as text have their usual notation.

    For a plain block, the columns and the receipts' blooms decide whether a field is malformed.
    """
    roots = (block.transactions_root, block.receipts_root, block.sha3_uncles)
    header = "".join((block.hash, *roots, block.withdrawals_root or ""))
    if not (_is_plain_quantity(block.number) and _is_lower(header) and _are_plain(block.uncles)):
        return False
    if not isinstance(block, Block):
        return _are_plain(block.transactions)
    rows = block.transactions
    hashes = [row.hash for row in rows]
    blobs = [
        each for row in rows if row.blob_versioned_hashes for each in row.blob_versioned_hashes
    ]
    return (
        _name(block, rows)
        and _are_positions([row.transaction_index for row in rows])
        and all(map(_are_usual, {*map(_variant, rows)}))
        and _is_lower("".join(hashes))
        and _are_plain(blobs)
        and (
            receipts is None
            or (
                _name(block, receipts)
                and hashes == [it.transaction_hash for it in receipts]
                and _are_positions([it.transaction_index for it in receipts])
                and {it.type for it in receipts} <= _KINDS
            )
        )
    )


def check_blooms(receipts: Sequence[Receipt], height: int | str) -> None:
    """Refuse receipts with a malformed bloom, where the receipts root has not proven them."""
    try:
        columns.fixed([it.logs_bloom for it in receipts if it.logs_bloom is not None], _BLOOM_WIDTH)
    except BadValue as error:
        raise BadAnswer(f"`logsBloom` in a receipt of block {height}: {error}") from error


def check_forms(rows: Iterable[Answer], height: int | str) -> None:
    """Raise `BadAnswer`, which names the height, unless every field of the rows has its form."""
    for row in rows:
        for name, value in _values(row):
            try:
                FORMS[type(row)][name].check(value)
            except BadValue as error:
                raise _refusal(row, name, height, error) from error
        if isinstance(row, Log) and len(row.topics) > _MOST_TOPICS:
            raise _refusal(row, "topics", height, f"there are more than {_MOST_TOPICS}")
        if was_sent(row.extra):
            raise _refusal(row, "extra", height, "the key `(extra)` is reserved")
        if isinstance(row, Transaction):
            _check_lists(row, height)


def normalize(rows: Iterable[Answer]) -> None:
    """Write every field of the rows in its usual notation; they have passed `check_forms`."""
    for row in rows:
        for name, form in FORMS[type(row)].items():
            value = getattr(row, name)
            if isinstance(value, str):
                if form is not TEXT:
                    setattr(row, name, form.normal(value))
            elif value is not None:
                setattr(row, name, [form.normal(each) for each in value])


def rows_of(block: Block | LightBlock, receipts: Sequence[Receipt] | None) -> Iterator[Answer]:
    """Return everything in the answers that has fields, as it is nested."""
    transactions = block.transactions if isinstance(block, Block) else ()
    logs = chain.from_iterable(it.logs for it in receipts or ())
    return chain((block,), transactions, block.withdrawals or (), receipts or (), logs)


def _values(row: Answer) -> Iterator[tuple[str, str]]:
    for name in FORMS[type(row)]:
        value: Any = getattr(row, name)
        if isinstance(value, str):
            yield name, value
        elif value is not None:
            yield from ((name, each) for each in value)


def _check_lists(row: Transaction, height: int | str) -> None:
    for name in _LISTS:
        try:
            list_text(getattr(row, name), name)
        except (ValueError, *UNREADABLE) as error:
            raise _refusal(row, name, height, error) from error


def _refusal(row: Answer, name: str, height: int | str, why: object) -> BadAnswer:
    kind = type(row)
    key = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))[name]
    return BadAnswer(f"`{key}` in a {kind.__name__.lower()} of block {height}: {why}")


def _name(block: Block, rows: Sequence[Transaction] | Sequence[Receipt]) -> bool:
    """Whether all rows name the block; this is faster than to collect the different names."""
    count = len(rows)
    return [row.block_hash for row in rows].count(block.hash) == count and [
        row.block_number for row in rows
    ].count(block.number) == count


def _are_positions(indices: list[str]) -> bool:
    count = len(indices)
    return indices == _POSITIONS[:count] or indices == [*map(hex, range(count))]


def _are_usual(variant: tuple[str | None, str | None, str | None]) -> bool:
    kind, parity, chain_id = variant
    return kind in _KINDS and parity in _PARITIES and _is_plain_quantity(chain_id)


def _is_plain_quantity(value: str | None) -> bool:
    if value is None:
        return True
    return U256.pattern.fullmatch(value) is not None and U256.normal(value) == value


def _are_plain(hashes: Sequence[str]) -> bool:
    return all(HASH.pattern.fullmatch(each) and _is_lower(each) for each in hashes)


def _is_lower(text: str) -> bool:
    return text == text.lower()  # `islower` examines one character at a time
