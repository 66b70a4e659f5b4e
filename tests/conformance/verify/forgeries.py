"""Everything that a forger may do to a column or a row, each in a block of its own.

All blocks of the chain have the same shape, so one block shows which forgeries are possible. The
n-th forgery happens in the n-th pair of blocks. Verifying one sink once therefore shows which of
hundreds of forgeries are detected.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS, TRANSFERS, WITHDRAWALS
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Column, Kind, Table
from gapless.schema.arrow import arrow_schema
from tests.conformance.verify.signed import FIRST
from tests.evm import EVERY_TABLE

Row = dict[str, Any]
_ELSEWHERE = 1_000_003  # added to a number, so that no key is duplicated by accident
_COUNTS = {
    TRANSACTIONS.name: "transaction_count",
    LOGS.name: "log_count",
    WITHDRAWALS.name: "withdrawal_count",
    TRANSFERS.name: "transfer_count",
}


@dataclass(frozen=True, order=True)
class Forgery:
    """What is done to a table of a block."""

    table: str
    deed: str  # change | null | invent | swap | garbage | delete | double | repeat
    column: str  # or nothing, if it is done to rows
    row: int = 0  # of the block
    other: int = 0  # what it is swapped with

    def __str__(self) -> str:
        where = f"{self.table}.{self.column}" if self.column else self.table
        return f"{self.deed} {where} of row {self.row}"

    def places(self, at: int) -> RangeSet:
        """Where it can be detected: in its own blocks, or where a block was moved to."""
        span = pair(at)
        return RangeSet.of(span, (span.first + _ELSEWHERE, span.first + _ELSEWHERE))

    @property
    def moves_rows(self) -> bool:
        """Whether a block has a different number of rows afterwards."""
        return not self.column or (
            self.column in ("chain_id", "block_number") and self.deed == "change"
        )


Blocks = Mapping[str, Sequence[Row]]


def forgeries(block: Blocks, following: Blocks, *, every_row: bool) -> Iterator[Forgery]:
    """All forgeries of a block; without `every_row`, only of the last row that they fit."""
    for table in EVERY_TABLE:
        rows = block[table.name]
        for column in table:
            values = [row[column.name] for row in rows]
            given = [at for at, value in enumerate(values) if value is not None]
            absent = [at for at, value in enumerate(values) if value is None]
            found = [("change", given), ("invent", absent)]
            found += [("null", given)] if column.nullable else []
            found += [("garbage", [*given, *absent])] if column.kind is Kind.JSON else []
            for deed, places in found:
                chosen = places if every_row else places[-1:]
                yield from (Forgery(table.name, deed, column.name, at) for at in chosen)
            if table is BLOCKS:
                if values != [row[column.name] for row in following[table.name]]:
                    yield Forgery(table.name, "swap", column.name)
            else:
                differing = (at for at in given if values[at] != values[given[0]])
                if (other := next(differing, None)) is not None:
                    yield Forgery(table.name, "swap", column.name, given[0], other)
        last = len(rows) - 1
        yield from (Forgery(table.name, "delete", "", at) for at in sorted({0, last}))
        yield from (Forgery(table.name, deed, "", last) for deed in ("double", "repeat"))


def pair(place: int) -> Span:
    """The blocks that a forgery has to itself."""
    return Span(FIRST + 2 * place, FIRST + 2 * place + 1)


class Forged:
    """Rows of a chain, and what was done to them."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._by_height: dict[str, dict[int, list[Row]]] = {}
        for name, rows in tables.items():
            found = self._by_height[name] = defaultdict(list)
            for row in rows.to_pylist():
                found[row["block_number"]].append(row)

    def copy(self) -> Forged:
        return deepcopy(self)

    def block(self, height: int) -> dict[str, list[Row]]:
        return {name: found[height] for name, found in self._by_height.items()}

    def forge(self, deed: Forgery, place: int, *, recount: bool) -> None:
        """Forges the first block of the pair; `recount` adjusts the counts, too."""
        span = pair(place)
        rows = self._by_height[deed.table][span.first]
        if deed.column:
            self._alter(deed, rows, self._by_height[deed.table][span.last])
        elif deed.deed == "delete":
            del rows[deed.row]
        else:
            rows.append({**rows[deed.row]})
            if deed.deed == "repeat":
                _renumber(deed.table, rows)
        if recount and deed.moves_rows:
            self._recount(span.first, deed)

    def tables(self) -> dict[str, pa.Table]:
        """The rows in key order, whatever chain they belong to."""
        return {
            table.name: pa.Table.from_pylist(
                [row for _, row in self._ordered(table)], arrow_schema(table)
            )
            for table in EVERY_TABLE
        }

    def homes(self) -> dict[str, list[int]]:
        """The heights that the rows belonged to before."""
        return {table.name: [height for height, _ in self._ordered(table)] for table in EVERY_TABLE}

    def _ordered(self, table: Table) -> list[tuple[int, Row]]:
        found = self._by_height[table.name]
        rows = [(height, row) for height, rows in found.items() for row in rows]
        return sorted(rows, key=lambda it: [it[1][name] for name in table.key[1:]])

    def _alter(self, deed: Forgery, rows: list[Row], next_rows: list[Row]) -> None:
        column = _column(deed.table, deed.column)
        names = [it.name for it in column.stored] if column.kind is Kind.U256 else [deed.column]
        row = rows[deed.row]
        if deed.deed == "swap":
            other = next_rows[0] if deed.table == BLOCKS.name else rows[deed.other]
            for name in names:
                row[name], other[name] = other[name], row[name]
            return
        value: Any = None
        if deed.deed == "garbage":
            value = "{"
        elif deed.deed != "null":
            value = other_value(column, row[deed.column])
        row[names[0]] = value
        if len(names) > 1:  # a careful forger changes the rounded copy, too
            row[names[1]] = None if value is None else float(int.from_bytes(value, "big"))

    def _recount(self, height: int, deed: Forgery) -> None:
        if deed.table == BLOCKS.name:
            return
        left = [
            row
            for row in self._by_height[deed.table][height]
            if row["block_number"] == height and row["chain_id"] < _ELSEWHERE
        ]
        for block in self._by_height[BLOCKS.name][height]:
            block[_COUNTS[deed.table]] = len(left)
        if deed.table == LOGS.name:
            for row in self._by_height[TRANSACTIONS.name][height]:
                own = [it for it in left if it["transaction_index"] == row["transaction_index"]]
                row["log_count"] = len(own)


def other_value(column: Column, value: Any) -> Any:
    """Another value of the same kind."""
    if column.kind is Kind.JSON:
        return _other_json(column.name, value)
    if column.kind is Kind.TEXT:
        return f"{value}s"
    if column.kind is Kind.BOOL:
        return not value
    if column.kind is Kind.INT:
        return (value or 0) + _ELSEWHERE
    if column.kind is Kind.FLOAT:
        return (value or 0.0) * 2 + 1
    if value is None:
        return b"\x01" * (column.kind.width or 1)
    return value[:-1] + bytes([value[-1] ^ 1])


def _other_json(name: str, value: str | None) -> str:
    if name == "extra":
        return '{"forged":"0x1"}'
    if value is None:
        return "[]"
    items = json.loads(value)
    if isinstance(items[0], str):
        return json.dumps([items[0][:-1] + ("1" if items[0][-1] != "1" else "2")])
    return json.dumps([{**items[0], "address": f"0x{'ee' * 20}"}], separators=(",", ":"))


def _renumber(table: str, rows: list[Row]) -> None:
    """Gives a repeated last row the next position."""
    names = {
        TRANSACTIONS.name: ("transaction_index",),
        LOGS.name: ("log_position", "log_index"),
        WITHDRAWALS.name: ("withdrawal_position", "withdrawal_index"),
        TRANSFERS.name: ("batch_position",),
        BLOCKS.name: ("block_number",),
    }
    for name in names[table]:
        rows[-1][name] += _ELSEWHERE if table == BLOCKS.name else 1


def _column(table: str, name: str) -> Column:
    found = next(it for it in EVERY_TABLE if it.name == table)
    exact = next((it for it in found.columns if it.name == name), None)
    return exact or found[name]
