"""The compiled core encodes the fields that the reference encodes for PostgreSQL."""

from __future__ import annotations

import struct

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gapless.schema import Column, Kind, Table
from gapless.sinks.postgres import copying
from tests.unit.schema.test_compiled_rows import parts, with_core


@with_core
@given(parts(), st.binary(max_size=32))
def test_both_give_postgresql_the_same_fields(drawn: tuple[Table, pa.Table], number: bytes) -> None:
    table, rows = drawn
    rows = with_number(table, rows, number.rjust(32, b"\0"))
    columns = copying.columns_with_values(table, rows)
    found = fields(columns, copying._piece(columns, rows))
    assert found == fields(columns, copying.reference_piece(columns, rows))
    assert len(found) == rows.num_rows * len(columns)


def with_number(table: Table, rows: pa.Table, number: bytes) -> pa.Table:
    """The rows with this number in the first row of each column of such numbers."""
    for at, field in enumerate(rows.schema):
        if table[field.name].kind is Kind.U256:
            values = [number, *rows[field.name].to_pylist()[1:]]
            rows = rows.set_column(at, field, pa.array(values, field.type))
    return rows


def fields(columns: list[Column], encoded: bytes) -> list[bytes | int | None]:
    """The fields of all rows; a `numeric` as a number, whatever its leading zeros."""
    found, at = list[bytes | int | None](), 0
    while at < len(encoded):
        assert int.from_bytes(encoded[at : at + 2], "big") == len(columns)
        at += 2
        for column in columns:
            (length,) = struct.unpack_from(">i", encoded, at)
            value = encoded[at + 4 : at + 4 + max(length, 0)] if length >= 0 else None
            at += 4 + max(length, 0)
            is_number = value is not None and column.kind is Kind.U256
            found.append(numeric(value) if is_number and value is not None else value)
    return found


def numeric(field: bytes) -> int:
    count, weight, sign, scale, *digits = struct.unpack(f">{len(field) // 2}h", field)
    assert (len(digits), weight, sign, scale) == (count, count - 1, 0, 0)
    return int("".join(f"{digit:04}" for digit in digits))
