"""PostgreSQL reads from COPY exactly what was in the column, whatever the value."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.schema import F64, Column, Kind, Table
from gapless.schema.arrow import arrow_schema
from gapless.schema.native import Core, installed
from gapless.schema.postgres import PostgresDdl
from gapless.sinks.postgres import copying
from gapless.sinks.postgres.copying import columns_with_values, copy_stream, numerics
from gapless.sinks.postgres.rows import select_list, to_arrow
from tests.evm import EVERY_TABLE

EDGES = [0, 1, 9_999, 10_000, 10**8 - 1, 10**8, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
WIDE = [*EDGES, 2**64, 10**20, 2**128 - 1, 10**76, 10**77, 2**256 - 1]
TEXTS = ["[]", "{}", '"é"', '{"a": [1, 2.50]}', "null", '"\\u0000"']
ROWS = 200


def value(chance: random.Random, kind: Kind) -> Any:
    if kind is Kind.INT:
        return chance.choice(EDGES)
    if kind is Kind.U256:
        number = chance.choice([*WIDE, chance.getrandbits(chance.randrange(1, 257))])
        return number.to_bytes(32, "big")
    if kind.width is not None:
        return chance.randbytes(kind.width)
    if kind is Kind.BYTES:
        return chance.randbytes(chance.choice([0, 0, 1, 3, 5000]))
    return chance.choice(TEXTS) if kind.is_text else chance.random() < 0.5


def some_rows(chance: random.Random, table: Table) -> pa.Table:
    """Rows with any values; a column may be null sometimes, always or never."""
    columns: dict[str, list[Any]] = {}
    for column in table.columns:
        nulls = chance.choice([0.0, 0.3, 1.0]) if column.nullable else 0.0
        columns[column.name] = [
            None if chance.random() < nulls else value(chance, column.kind) for _ in range(ROWS)
        ]
        if column.kind is Kind.U256:
            columns[column.name + F64] = [
                None if it is None else float(int.from_bytes(it, "big"))
                for it in columns[column.name]
            ]
    schema = arrow_schema(table)
    return pa.table([pa.array(columns[it.name], it.type) for it in schema], schema)


@pytest.fixture
async def connection(records_database: str) -> AsyncIterator[asyncpg.Connection]:
    opened = await asyncpg.connect(records_database)
    yield opened
    await opened.close()


async def _pieces(columns: list[Column], rows: pa.Table) -> AsyncIterator[bytes]:
    for piece in copy_stream(columns, rows):
        yield piece


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("table", EVERY_TABLE, ids=lambda it: it.name)
async def test_every_row_is_read_back_unchanged(
    connection: asyncpg.Connection,
    table: Table,
    seed: int,
    is_compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not is_compiled:
        monkeypatch.setattr(copying, "installed", lambda: Core(None))
    elif installed().module is None:
        pytest.skip("the compiled core is not installed")
    rows = some_rows(random.Random(f"{table.name} {seed}"), table)
    part = rows.slice(7, 150)  # of buffers that begin elsewhere
    await connection.execute(PostgresDdl("pg_temp", foreign_keys=False).create_table(table))
    unbound = f"DROP CONSTRAINT {table.name}_pkey, ADD COLUMN nth bigserial"
    await connection.execute(f"ALTER TABLE {table.name} {unbound}")
    names = [it.name for it in table]
    for given_ in (rows, part):
        await connection.execute(f"TRUNCATE {table.name}")
        columns = columns_with_values(table, given_)
        await connection.copy_to_table(
            table.name,
            columns=[it.name for it in columns],
            source=_pieces(columns, given_),
            format="binary",
        )
        query = f"SELECT {select_list(table, names, names)} FROM {table.name} ORDER BY nth"
        found = to_arrow(table, names, [tuple(row) for row in await connection.fetch(query)])
        assert found.equals(given_.combine_chunks())


@given(st.lists(st.integers(0, 2**256 - 1) | st.sampled_from(WIDE), min_size=1, max_size=8))
def test_digits_are_those_of_the_number(numbers: list[int]) -> None:
    data = b"".join(number.to_bytes(32, "big") for number in numbers)
    found = numerics(np.frombuffer(data, np.uint8).reshape(-1, 32))
    for number, row in zip(numbers, found, strict=True):
        count, weight, sign, scale, *digits = np.frombuffer(row.tobytes(), ">i2").tolist()
        assert (len(digits), weight, sign, scale) == (count, count - 1, 0, 0)
        assert int("".join(f"{digit:04}" for digit in digits)) == number
