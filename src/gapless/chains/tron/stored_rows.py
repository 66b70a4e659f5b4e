"""Compare the stored rows of a block with what their own columns imply.

For each row, the columns that follow from others are computed again by the functions that filled
them in. A column that differs then, or is null or set where it must not be, is a contradiction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from gapless.chains.family import Flaw
from gapless.chains.tron.answers import RESULTS, Members
from gapless.chains.tron.block_rows import header_columns, place_columns, result_number
from gapless.chains.tron.contracts import Columns, address_columns, transaction_columns
from gapless.chains.tron.info_rows import INFO_COLUMNS, log_columns
from gapless.chains.tron.parsed import Results, TronHeader
from gapless.chains.tron.tables import (
    TRON_BLOCKS,
    TRON_INTERNAL_TRANSACTIONS,
    TRON_LOGS,
    TRON_TRANSACTIONS,
)

_INDEX = itemgetter("transaction_index")
_COUNTS = {
    TRON_LOGS.name: "log_count",
    TRON_INTERNAL_TRANSACTIONS.name: "internal_transaction_count",
}
_SET = object()  # stands for any value where a column must not be null


@dataclass(frozen=True)
class StoredBlock:
    """The rows of a block; a table that is not stored is absent from `others`."""

    block: Columns
    others: Mapping[str, Sequence[Columns]]

    @property
    def height(self) -> int:
        height: int = self.block["block_number"]
        return height

    @property
    def transactions(self) -> Sequence[Columns]:
        return self.others.get(TRON_TRANSACTIONS.name, ())

    @cached_property
    def row_counts(self) -> Mapping[str, Counter[int]]:
        """By table, how many rows each transaction has."""
        return {name: Counter(map(_INDEX, rows)) for name, rows in self.others.items()}

    @property
    def has_infos(self) -> bool:
        """Whether infos were requested, as far as the rows show it."""
        counted = self.block["log_count"] is not None
        return counted or any(row["fee"] is not None for row in self.transactions)


def stored_results(row: Mapping[str, Any]) -> Results:
    """Return the results of a transaction, as the node sent them."""
    extra = _extra(row)
    if "ret" in extra:
        return msgspec.convert(extra["ret"], list[dict[str, Any]])
    number = row["contract_result"]
    return [] if number is None else [{"contractRet": RESULTS[number]}]


def contradictions(it: StoredBlock, chain_id: int) -> Iterator[Flaw]:
    """Yield a flaw for each column that contradicts others; raise if one cannot be read."""
    header = TronHeader(it.block["raw_data"])
    place = place_columns(header, chain_id)
    yield from _differences(it, TRON_BLOCKS.name, it.block, {**_block(it, header), **place})
    for position, row in enumerate(it.transactions):
        expected = {**_transaction(it, row), **place, "transaction_index": position}
        yield from _differences(it, TRON_TRANSACTIONS.name, row, expected)
    hashes = {row["transaction_index"]: row["hash"] for row in it.transactions}
    for name, own_position, derived in (
        (TRON_LOGS.name, "log_position", log_columns),
        (TRON_INTERNAL_TRANSACTIONS.name, "internal_position", _internal),
    ):
        for index, rows in groupby(it.others.get(name, ()), _INDEX):
            for position, row in enumerate(rows):
                expected = {**derived(row), **place, own_position: position}
                if TRON_TRANSACTIONS.name in it.others:
                    expected["transaction_hash"] = hashes.get(index)
                yield from _differences(it, name, row, expected)


def _block(it: StoredBlock, header: TronHeader) -> Columns:
    found = header_columns(header)
    if TRON_TRANSACTIONS.name in it.others:
        found["transaction_count"] = len(it.transactions)
    for name, column in _COUNTS.items():
        if name in it.others:
            rows = it.others[name]
            found[column] = len(rows) if rows or it.has_infos else None
        else:
            found[column] = _SET if it.has_infos else None
    return found


def _transaction(it: StoredBlock, row: Columns) -> Columns:
    found = transaction_columns(row["raw_data"])
    found["contract_result"] = result_number(stored_results(row))[0]
    if row["fee"] is None:
        return {**found, **dict.fromkeys((*INFO_COLUMNS, "receipt_result"))}
    if found["contract_address"] is None:
        found |= address_columns("contract", row["contract_address"])
    found |= dict.fromkeys(INFO_COLUMNS, _SET)
    if "receipt_result" not in _extra(row):
        found["receipt_result"] = _SET
    for name, column in _COUNTS.items():
        if name in it.others:
            found[column] = it.row_counts[name][_INDEX(row)]
    return found


def _internal(row: Mapping[str, Any]) -> Columns:
    if row["asset_values"] is not None:
        msgspec.json.decode(row["asset_values"])
    return {
        **address_columns("caller", row["caller_address"]),
        **address_columns("to", row["to_address"]),
    }


def _extra(row: Mapping[str, Any]) -> Members:
    return {} if row["extra"] is None else msgspec.json.decode(row["extra"], type=dict[str, Any])


def _differences(it: StoredBlock, table: str, stored: Columns, expected: Columns) -> Iterator[Flaw]:
    _extra(stored)
    for column, value in expected.items():
        is_same = stored[column] is not None if value is _SET else stored[column] == value
        if not is_same:
            yield Flaw(it.height, table, f"`{column}` contradicts the other columns")
