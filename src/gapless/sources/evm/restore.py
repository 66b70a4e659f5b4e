"""Rows back to the answers that they were decoded from: the inverse of `decode`.

Whatever holds for an answer can then be asked of stored rows: the same checks run on both. Law:
decoding what was restored gives the same rows again, unless a row contradicts the others.

What a table does not hold because it follows from something else (a receipt's bloom, `yParity`) is
left out here as an old node would leave it out.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw

from gapless.schema import BLOCKS, LOGS, TRANSACTIONS, WITHDRAWALS, Column, Kind, Table
from gapless.schema.digest import one_array
from gapless.sources.evm.structs import (
    ABSENT,
    Block,
    LightBlock,
    Log,
    RangeLog,
    Receipt,
    Transaction,
    Withdrawal,
)

_TOPICS = ("topic0", "topic1", "topic2", "topic3")
_RECEIPT = {
    *("status", "root", "gas_used", "cumulative_gas_used", "effective_gas_price"),
    *("contract_address", "blob_gas_used", "blob_gas_price", "l1_fee", "l1_gas_price"),
    *("l1_gas_used", "deposit_nonce", "deposit_receipt_version", "gas_used_for_l1"),
    *("l1_block_number", "type"),
}
RECEIPT_COLUMNS = frozenset(
    column.name
    for name in (*_RECEIPT - {"type"}, "log_count", "extra")
    for column in TRANSACTIONS[name].stored
)
"""The columns of a transaction that its receipt fills, at least in part."""
_RENAMED = {"from_address": "from_", "to_address": "to", "withdrawal_index": "index"}
_LISTS = ("uncles", "blob_versioned_hashes")  # stored as JSON, and read into lists

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_texts = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True)
class Restored:
    """What one block was answered as."""

    height: int
    block: Block | LightBlock  # light: its transactions are not stored, only their number
    receipts: list[Receipt] | None  # None: not stored, or not all of it
    logs: list[RangeLog] | None  # of a block that came without receipts


def restore(tables: Mapping[str, pa.Table]) -> Iterator[Restored]:
    """The blocks of some rows, ascending; a table that is absent was not stored."""
    headers = _Rows(BLOCKS, tables)
    transactions, logs, withdrawals = (
        _Rows(table, tables) if table.name in tables else None
        for table in (TRANSACTIONS, LOGS, WITHDRAWALS)
    )
    for height in headers.heights:
        row = next(headers.of(height))
        moved: list[Withdrawal] | None = None
        if withdrawals is not None and row["withdrawal_count"] is not None:
            moved = [_withdrawal(each) for each in withdrawals.of(height)]
        header = _header(row, moved)
        emitted = None if logs is None else [*logs.of(height)]
        if transactions is None:
            count = int(row["transaction_count"], 16)
            yield Restored(height, LightBlock(**header, transactions=[""] * count), None, None)
            continue
        members = [*transactions.of(height)]
        block = Block(
            **header, transactions=[_transaction(each, header["hash"]) for each in members]
        )
        has_receipts = any(each["cumulative_gas_used"] is not None for each in members)
        if emitted is None:
            yield Restored(height, block, None, None)
        elif row["log_count"] is None and not has_receipts:
            yield Restored(height, block, None, [_range_log(it, block) for it in emitted])
        else:
            yield Restored(height, block, [*_receipts(members, emitted, block)], None)


class _Rows:
    """The rows of a table as texts, column by column, and where those of each block begin."""

    def __init__(self, table: Table, tables: Mapping[str, pa.Table]) -> None:
        rows = tables[table.name]
        heights = one_array(rows["block_number"]).to_numpy()
        edges = [0, *(np.flatnonzero(heights[1:] != heights[:-1]) + 1).tolist(), len(heights)]
        self.heights: list[int] = heights[edges[:-1]].tolist() if len(heights) else []
        self._places = dict(zip(self.heights, pairwise(edges), strict=False))
        self._names = [column.name for column in table.columns]
        self._columns = [_column(column, one_array(rows[column.name])) for column in table.columns]

    def _row(self, at: int) -> dict[str, Any]:
        return {name: values[at] for name, values in zip(self._names, self._columns, strict=True)}

    def of(self, height: int) -> Iterator[dict[str, Any]]:
        start, end = self._places.get(height, (0, 0))
        return map(self._row, range(start, end))


def _column(column: Column, array: pa.Array) -> list[Any]:
    """A column as a node would write its values."""
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


def _header(row: dict[str, Any], withdrawals: list[Withdrawal] | None) -> dict[str, Any]:
    known = _known(row, Block.__struct_fields__)
    return known | {
        "number": row["block_number"],
        "timestamp": row["block_timestamp"],
        "extra": row["extra"] or ABSENT,
        "withdrawals": withdrawals,
    }


def _withdrawal(row: dict[str, Any]) -> Withdrawal:
    return Withdrawal(
        **_known(row, Withdrawal.__struct_fields__) | {"extra": row["extra"] or ABSENT}
    )


def _transaction(row: dict[str, Any], block_hash: str) -> Transaction:
    extra = _extra(row)
    extra.pop("receipt", None)
    chain_id = _text(extra.pop("chainId", None))
    if chain_id is None and row["type"] != "0x0":
        chain_id = row["chain_id"]
    known = _known(row, Transaction.__struct_fields__, without=_RECEIPT - {"type"})
    lists = {name: row[name] or ABSENT for name in ("access_list", "authorization_list")}
    return Transaction(
        **known
        | lists
        | {
            "block_hash": block_hash,
            "chain_id": chain_id,
            "y_parity": _text(extra.pop("yParity", None)),
            "extra": _raw(extra),
        }
    )


def _receipts(
    members: Sequence[dict[str, Any]], logs: Sequence[dict[str, Any]], block: Block
) -> Iterator[Receipt]:
    """The receipts of the transactions that have one; on some chains one may have none."""
    by_index: dict[str, list[Log]] = {}
    for row in logs:
        by_index.setdefault(row["transaction_index"], []).append(_log(row))
    for row in members:
        if row["cumulative_gas_used"] is None:
            continue
        extra = _extra(row).get("receipt")
        yield Receipt(
            **{name: row[name] for name in _RECEIPT}
            | {
                "block_hash": block.hash,
                "block_number": block.number,
                "transaction_hash": row["hash"],
                "transaction_index": row["transaction_index"],
                "logs": by_index.get(row["transaction_index"], []),
                "extra": extra or ABSENT,
            }
        )


def _log(row: dict[str, Any]) -> Log:
    return Log(**_log_fields(row))


def _range_log(row: dict[str, Any], block: Block) -> RangeLog:
    place = {name: row[name] for name in ("transaction_hash", "transaction_index")}
    return RangeLog(**_log_fields(row), **place, block_number=block.number, block_hash=block.hash)


def _log_fields(row: dict[str, Any]) -> dict[str, Any]:
    topics = [row[name] for name in _TOPICS if row[name] is not None]
    known = _known(row, Log.__struct_fields__)
    return known | {"topics": topics, "extra": row["extra"] or ABSENT}


def _known(
    row: Mapping[str, Any], fields: Sequence[str], without: Collection[str] = ()
) -> dict[str, Any]:
    """The columns that are fields of a struct."""
    renamed = ((_RENAMED.get(name, name), name) for name in row if name not in without)
    return {field: row[name] for field, name in renamed if field in fields}


def _extra(row: Mapping[str, Any]) -> dict[str, Raw]:
    return _members(row["extra"]) if row["extra"] else {}


def _text(raw: Raw | None) -> str | None:
    return None if raw is None else str(msgspec.json.decode(raw))


def _raw(extra: Mapping[str, Raw]) -> Raw:
    return Raw(msgspec.json.encode(extra, order="sorted")) if extra else ABSENT
