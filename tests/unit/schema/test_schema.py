"""There is one definition of the tables, and everything derived from it agrees with it."""

from __future__ import annotations

from typing import Any

import apsw
import pyarrow as pa
import pytest

from gapless.chains.evm.tables import BLOCKS, LOGS, TRANSACTIONS, WITHDRAWALS
from gapless.schema import F64, Kind, Schema, Table
from gapless.schema.arrow import arrow_schema
from gapless.schema.ddl import create_index
from gapless.schema.reference import reference
from gapless.schema.sqlite import create_table, create_view
from tests.evm import EVERY_TABLE


def indexes(table: Table) -> list[str]:
    return [create_index(index, table.name) for index in table.indexes]


@pytest.fixture
def database() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("PRAGMA foreign_keys = ON")
    for each in EVERY_TABLE:
        for statement in (create_table(each), *indexes(each), create_view(each)):
            connection.execute(statement)
    return connection


def sample(kind: Kind) -> Any:
    if kind.width is not None or kind is Kind.BYTES:
        return b"\0" * ((kind.width or 4) - 1) + b"\x0a"
    return {Kind.FLOAT: 10.0, Kind.TEXT: "ten", Kind.JSON: "[]"}.get(kind, 10)


def insert(database: apsw.Connection, table: Table, **values: Any) -> None:
    row = {column.name: sample(column.kind) for column in table} | values
    marks = ", ".join(f":{name}" for name in row)
    names = ", ".join(f'"{name}"' for name in row)
    database.execute(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", row)


@pytest.mark.parametrize("each", EVERY_TABLE, ids=lambda it: it.name)
def test_a_key_is_a_position_that_starts_with_the_block(each: Table) -> None:
    assert each.key[:2] == ("chain_id", "block_number")
    assert all(each[name].kind is Kind.INT and not each[name].nullable for name in each.key)
    assert [column.name for column in each][: len(each.key)] == list(each.key)
    for parent in each.parents:
        assert each.key[: len(parent.key)] == parent.key


@pytest.mark.parametrize("each", EVERY_TABLE, ids=lambda it: it.name)
def test_every_table_has_a_timestamp_and_keeps_unknown_keys(each: Table) -> None:
    assert not each["block_timestamp"].nullable
    has_extra = any((it.name, it.kind) == ("extra", Kind.JSON) for it in each.columns)
    assert has_extra is not bool(each.derived_from), "what is derived has no keys of its own"
    names = [column.name for column in each]
    assert len(names) == len(set(names))


def test_parents_come_first_and_count_their_children() -> None:
    order = [each.name for each in EVERY_TABLE]
    assert all(
        order.index(parent.name) < order.index(it.name)
        for it in EVERY_TABLE
        for parent in it.parents
    )
    counts = {"transaction_count", "log_count", "withdrawal_count", "transfer_count"}
    assert counts <= {column.name for column in BLOCKS}


@pytest.mark.parametrize("each", EVERY_TABLE, ids=lambda it: it.name)
def test_a_256_bit_number_comes_with_a_double(each: Table) -> None:
    schema = arrow_schema(each)
    assert schema.names == [column.name for column in each]
    for column in each.columns:
        assert schema.field(column.name).nullable is column.nullable
        if column.kind is Kind.U256:
            assert schema.field(column.name).type == pa.binary(32)
            assert schema.field(column.name + F64).type == pa.float64()
            assert schema.field(column.name + F64).nullable is column.nullable


def test_a_family_is_recognised_by_its_anchor() -> None:
    other = Table("others", "Of another family.", BLOCKS.key, BLOCKS.columns[:3])
    schema = Schema([EVERY_TABLE, [other]])
    assert [*schema] == [*(each.name for each in EVERY_TABLE), "others"]
    assert [name for name in schema if schema.is_anchor(name)] == ["blocks", "others"]
    assert schema.anchor_of(["logs", "withdrawals"]) is BLOCKS
    assert schema.family_of(BLOCKS) == EVERY_TABLE
    for mixed in (["logs", "others"], ["logs", "unknown"], []):
        with pytest.raises(ValueError, match="not tables of one chain family"):
            schema.anchor_of(mixed)


def test_sqlite_has_the_same_columns(database: apsw.Connection) -> None:
    for each in EVERY_TABLE:
        found = database.execute(f"PRAGMA table_info({each.name})").fetchall()
        assert [(name, bool(must)) for _, name, _, must, *_ in found] == [
            (column.name, not column.nullable) for column in each
        ]


def test_sqlite_enforces_keys_and_parents(database: apsw.Connection) -> None:
    insert(database, BLOCKS)
    insert(database, TRANSACTIONS)
    insert(database, LOGS)
    insert(database, WITHDRAWALS)
    with pytest.raises(apsw.ConstraintError, match="UNIQUE"):
        insert(database, LOGS)
    insert(database, LOGS, log_position=11)
    with pytest.raises(apsw.ConstraintError, match="FOREIGN KEY"):
        insert(database, LOGS, transaction_index=11)
    with pytest.raises(apsw.ConstraintError, match="NOT NULL"):
        insert(database, BLOCKS, block_number=11, hash=None)


def test_a_foreign_key_refers_to_the_nearest_stored_parent() -> None:
    assert "REFERENCES transactions" in create_table(LOGS)
    assert "REFERENCES blocks" in create_table(LOGS, stored=["blocks", "logs"])
    assert "REFERENCES" not in create_table(LOGS, stored=["logs"])
    assert "REFERENCES" not in create_table(LOGS, foreign_keys=False)


def test_views_show_bytes_as_hex(database: apsw.Connection) -> None:
    insert(database, BLOCKS)
    insert(database, TRANSACTIONS, to_address=None, value=bytes(32), block_timestamp=1_438_269_988)
    query = 'SELECT hash, to_address, value, gas_price, input, "gas", block_time FROM'
    [row] = database.execute(f"{query} transactions_hex").fetchall()
    hash_ = "0x" + "00" * 31 + "0a"
    assert row == (hash_, None, "0x0", "0xa", "0x0000000a", 10, "2015-07-30 15:26:28")


def test_indexes_are_built_once(database: apsw.Connection) -> None:
    names = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    for each in EVERY_TABLE:
        for statement in indexes(each):
            database.execute(statement)
    expected = sum(len(each.indexes) for each in EVERY_TABLE)
    assert database.execute(names).fetchall() == [(expected,)]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("blocks WHERE hash = x'00'", "blocks_hash"),
        ("blocks WHERE block_timestamp > 5", "blocks_time"),
        ("transactions WHERE hash = x'00'", "transactions_hash"),
        ("transactions WHERE from_address = x'00'", "transactions_from"),
        ("transactions WHERE to_address = x'00'", "transactions_to"),
        ("logs WHERE topic0 = x'00'", "logs_topic0"),
        ("logs WHERE address = x'00' AND topic0 = x'00'", "logs_address"),
        ("withdrawals WHERE address = x'00'", "withdrawals_address"),
    ],
)
def test_common_queries_use_an_index(database: apsw.Connection, query: str, index: str) -> None:
    [row] = database.execute(f"EXPLAIN QUERY PLAN SELECT * FROM {query}").fetchall()
    assert f"INDEX {index} " in str(row[-1])


def test_the_reference_names_every_column() -> None:
    text = reference(EVERY_TABLE)
    for each in EVERY_TABLE:
        section = text.split(f"## `{each.name}`")[1].split("## ")[0]
        for column in each:
            assert f"| `{column.name}` | {column.kind.meaning} |" in section


def test_a_table_finds_its_columns_by_name() -> None:
    assert BLOCKS["hash"].kind is Kind.HASH
    with pytest.raises(StopIteration):
        BLOCKS["no_such_column"]
