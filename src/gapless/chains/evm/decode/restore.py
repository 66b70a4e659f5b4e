"""Restore the answers that rows were decoded from.

This way, the checks for answers can also be run on stored rows. Decoding a restored answer gives
the same rows again, unless a row contradicts the others.

Fields that are not stored because they follow from others, such as a receipt's bloom or `yParity`,
are omitted, as in the answer of an old node.
"""

from __future__ import annotations

import sys
from binascii import hexlify
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw

from gapless.chains.evm.decode.structs import (
    ABSENT,
    Answer,
    Block,
    LightBlock,
    Log,
    RangeLog,
    Receipt,
    Transaction,
    Withdrawal,
    keep,
)
from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS, WITHDRAWALS
from gapless.schema import Column, Kind, Table
from gapless.schema.arrow import one_array

_TOPICS = ("topic0", "topic1", "topic2", "topic3")
_RENAMED = {"from_address": "from_", "to_address": "to", "withdrawal_index": "index"}
_LISTS = ("uncles", "blob_versioned_hashes")  # stored as JSON, and restored as lists

Row = dict[str, Any]

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_texts = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True)
class Restored:
    """The restored answers for one block."""

    height: int
    block: Block | LightBlock  # light: only the number of its transactions is stored
    receipts: list[Receipt] | None  # None: not stored, or not completely
    logs: list[RangeLog] | None  # if the block was fetched without receipts


def restore(tables: Mapping[str, pa.Table]) -> Iterator[Restored]:
    """Restore the blocks of some rows, ascending; a table that is absent was not stored."""
    headers = _Rows(BLOCKS, tables)
    transactions, logs, withdrawals = (
        _Rows(table, tables) if table.name in tables else None
        for table in (TRANSACTIONS, LOGS, WITHDRAWALS)
    )
    for height in headers.heights:
        row = next(headers.of(height))
        withdrawn: list[Withdrawal] | None = None
        if withdrawals is not None and row.get("withdrawal_count") is not None:
            withdrawn = [_withdrawal(each) for each in withdrawals.of(height)]
        header = _header(row, withdrawn)
        emitted = None if logs is None else [*logs.of(height)]
        if transactions is None:
            hashes = _unknown_hashes(int(row["transaction_count"], 16))
            yield Restored(height, LightBlock(**header, transactions=hashes), None, None)
            continue
        members = [*transactions.of(height)]
        block = Block(
            **header, transactions=[_transaction(each, header["hash"]) for each in members]
        )
        has_receipts = any(it.get("cumulative_gas_used") is not None for it in members)
        if emitted is None:
            yield Restored(height, block, None, None)
        elif row.get("log_count") is None and not has_receipts:
            yield Restored(height, block, None, [_range_log(it, block) for it in emitted])
        else:
            yield Restored(height, block, [*_receipts(members, emitted, block)], None)


class _Rows:
    """The rows of a table as text, stored by column, with the position of each block's rows.

    Columns that are null in all rows are omitted, which is about half of them.
    """

    def __init__(self, table: Table, tables: Mapping[str, pa.Table]) -> None:
        rows = tables[table.name]
        heights = one_array(rows["block_number"]).to_numpy()
        edges = [0, *(np.flatnonzero(heights[1:] != heights[:-1]) + 1).tolist(), len(heights)]
        self.heights: list[int] = heights[edges[:-1]].tolist() if len(heights) else []
        self._places = dict(zip(self.heights, pairwise(edges), strict=False))
        arrays = {column: one_array(rows[column.name]) for column in table.columns}
        filled = [it for it, array in arrays.items() if array.null_count < len(array)]
        self._names = [column.name for column in filled]
        self._columns = [_column(column, arrays[column]) for column in filled]

    def of(self, height: int) -> Iterator[Row]:
        start, end = self._places.get(height, (0, 0))
        values = zip(*[column[start:end] for column in self._columns], strict=True)
        return (dict(zip(self._names, each, strict=True)) for each in values)


def _column(column: Column, array: pa.Array) -> list[Any]:
    """Return the values of a column as a node would write them."""
    if column.kind is Kind.BOOL:
        flags: list[Any] = array.to_pylist()
        return flags
    if column.kind is Kind.JSON:
        return [None if text is None else _json(column, text) for text in array.to_pylist()]
    if column.kind is Kind.INT:
        return [None if number is None else hex(number) for number in array.to_pylist()]
    values = [None if value is None else hexlify(value).decode() for value in array.to_pylist()]
    return [None if value is None else f"0x{value}" for value in values]


def _json(column: Column, text: str) -> Any:
    return _texts(text) if column.name in _LISTS else Raw(text.encode())


def _unknown_hashes(count: int) -> Sequence[str]:
    """Return what has this length and no hash in it, without memory for each.

    The length of a sequence is limited. A larger number differs when the block is decoded again.
    """
    return cast("Sequence[str]", range(min(count, sys.maxsize)))


def _header(row: Row, withdrawals: list[Withdrawal] | None) -> Row:
    return _known(row, Block) | {
        "number": row["block_number"],
        "timestamp": row["block_timestamp"],
        "extra": _kept(row),
        "withdrawals": withdrawals,
    }


def _withdrawal(row: Row) -> Withdrawal:
    return Withdrawal(**_known(row, Withdrawal) | {"extra": _kept(row)})


def _transaction(row: Row, block_hash: str) -> Transaction:
    extra = _extra(row)
    extra.pop("receipt", None)
    chain_id = _text(extra.pop("chainId", None))
    if chain_id is None and row["type"] != "0x0":
        chain_id = row["chain_id"]
    fields = _known(row, Transaction)
    for name in ("access_list", "authorization_list"):
        fields[name] = fields.get(name) or ABSENT
    fields["block_hash"] = block_hash
    fields["chain_id"] = chain_id
    fields["y_parity"] = _text(extra.pop("yParity", None))
    fields["extra"] = _keep(extra)
    return Transaction(**fields)


def _receipts(members: Sequence[Row], logs: Sequence[Row], block: Block) -> Iterator[Receipt]:
    """Yield the receipts; on some chains, a transaction may have none."""
    by_index: dict[str, list[Log]] = {}
    for row in logs:
        by_index.setdefault(row["transaction_index"], []).append(_log(row))
    for row in members:
        if row.get("cumulative_gas_used") is None:
            continue
        fields = _known(row, Receipt)
        fields["block_hash"] = block.hash
        fields["transaction_hash"] = row["hash"]
        fields["logs"] = by_index.get(row["transaction_index"], [])
        receipt = _extra(row).get("receipt")
        fields["extra"] = ABSENT if receipt is None else keep(bytes(receipt))
        yield Receipt(**fields)


def _log(row: Row) -> Log:
    return Log(**_log_fields(row))


def _range_log(row: Row, block: Block) -> RangeLog:
    place = {name: row[name] for name in ("transaction_hash", "transaction_index")}
    return RangeLog(**_log_fields(row), **place, block_number=block.number, block_hash=block.hash)


def _log_fields(row: Row) -> Row:
    fields = _known(row, Log)
    fields["topics"] = [row[name] for name in _TOPICS if row.get(name) is not None]
    fields["extra"] = _kept(row)
    return fields


def _known(row: Row, kind: type[Answer]) -> Row:
    """Return the columns that are fields of a struct, by field."""
    fields = _FIELDS[kind]
    return {fields[name]: value for name, value in row.items() if name in fields}


def _fields_of(table: Table, kind: type[Answer]) -> dict[str, str]:
    """Return the field of a struct that each column holds, by column name."""
    names = {column.name: _RENAMED.get(column.name, column.name) for column in table.columns}
    fields = {*kind.__struct_fields__} - {"extra"}
    return {name: field for name, field in names.items() if field in fields}


_FIELDS = {
    Block: _fields_of(BLOCKS, Block),
    Withdrawal: _fields_of(WITHDRAWALS, Withdrawal),
    Transaction: _fields_of(TRANSACTIONS, Transaction),
    Receipt: _fields_of(TRANSACTIONS, Receipt),
    Log: _fields_of(LOGS, Log),
}
_OF_BOTH = {"block_number", "transaction_index", "type"}  # in a transaction and in its receipt
RECEIPT_COLUMNS = frozenset(
    column.name
    for name in (*_FIELDS[Receipt].keys() - _OF_BOTH, "log_count", "extra")
    for column in TRANSACTIONS[name].stored
)
"""The columns of `transactions` that come from the receipt, at least in part."""


def not_restored(name: str, tables: Collection[str], *, receipts: bool) -> frozenset[str]:
    """Return the columns of a table that depend on rows which are not stored."""
    if name == TRANSACTIONS.name:
        return frozenset() if receipts else RECEIPT_COLUMNS
    found = {"transfer_count"} if name == BLOCKS.name else set()
    if name == BLOCKS.name and not receipts:
        found.add("log_count")
    if name == BLOCKS.name and WITHDRAWALS.name not in tables:
        found.add("withdrawal_count")
    return frozenset(found)


def _extra(row: Row) -> dict[str, Raw]:
    text = row.get("extra")
    return _members(text) if text else {}


def _text(raw: Raw | None) -> str | None:
    return None if raw is None else str(msgspec.json.decode(raw))


def _keep(extra: Mapping[str, Raw]) -> Raw:
    return keep(msgspec.json.encode(extra, order="sorted")) if extra else ABSENT


def _kept(row: Row) -> Raw:
    text = row.get("extra")
    return keep(bytes(text)) if text else ABSENT
