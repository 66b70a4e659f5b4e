"""Rows of a chain and of its wallets, generated in bulk by the database itself.

An address is a number, written as 20 digits. So the same statements give the same wallets in both
databases, and any number of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

import apsw
import asyncpg

from bench import places
from gapless.chains.evm.transfers import TRANSFER
from gapless.wallets.store.movements import KEY

CHAIN_ID = 4242
GROUP = "default"
BLOCK_SIZE = 20  # transactions of a block
WALLETS = 1_000
TOKENS = 50
_FIRST_TOKEN = 500
PER_BLOCK = 10  # movements of a block
STRANGERS = 500  # whom the wallets pay, or who pay them
WALLET_EVERY = 2_000  # transactions, of which the wallet sends one and receives one
_GENESIS = 1_600_000_000
_TABLES = ("blocks", "transactions", "logs", "withdrawals")


def address(number: int) -> bytes:
    return str(number).rjust(20, "0").encode()


def tokens() -> list[bytes]:
    """The contracts whose events a chain has."""
    return [address(_FIRST_TOKEN + number) for number in range(TOKENS)]


def block_hash(height: int) -> bytes:
    return str(height + 1).rjust(32, "0").encode()


class WalletPlace(Protocol):
    """A new sink, and how to fill it with SQL."""

    name: str
    target: str

    def series(self, size: int) -> str:
        """A source of rows with a number `n`, from 0 on."""

    def digits(self, number: str, width: int) -> str:
        """A number as bytes, one for each decimal digit."""

    def joined(self, left: str, right: str) -> str:
        """Bytes after others."""

    def wide(self, number: str) -> str:
        """The columns of an amount of a movement."""

    def quantity(self, number: int) -> str:
        """A number of 256 bits in a table of blocks."""

    def signed(self, number: str) -> str: ...

    def constant(self, value: bytes) -> str: ...

    async def run(self, statements: Sequence[str]) -> None:
        """Run statements, then collect statistics where databases do so on their own."""

    async def indexes(self, prefix: str) -> list[tuple[str, str]]:
        """The names and statements of the indexes of some tables, except their keys."""


@dataclass
class SqlitePlace:
    target: str
    name: str = "sqlite"

    def series(self, size: int) -> str:
        return (
            "(WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i"
            f" WHERE n < {size} - 1) SELECT n FROM i)"
        )

    def digits(self, number: str, width: int) -> str:
        return f"CAST(printf('%0{width}d', {number}) AS BLOB)"

    def joined(self, left: str, right: str) -> str:
        return f"CAST({left} || {right} AS BLOB)"

    def wide(self, number: str) -> str:
        return f"CAST(zeroblob(31) || char({number}) AS BLOB), CAST({number} AS REAL)"

    def quantity(self, number: int) -> str:
        return f"x'{number.to_bytes(32, 'big').hex()}'"

    def signed(self, number: str) -> str:
        return f"CAST({number} AS TEXT)"

    def constant(self, value: bytes) -> str:
        return f"x'{value.hex()}'"

    async def run(self, statements: Sequence[str]) -> None:
        connection = apsw.Connection(self.target)
        connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")
        connection.execute("PRAGMA threads = 2; PRAGMA temp_store = MEMORY")
        for statement in statements:
            connection.execute(f"BEGIN; {statement}; COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()

    async def indexes(self, prefix: str) -> list[tuple[str, str]]:
        connection = apsw.Connection(self.target)
        query = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql <> ''"
        rows = connection.execute(f"{query} AND tbl_name LIKE ?", (f"{prefix}%",)).fetchall()
        connection.close()
        return [(str(name), str(text)) for name, text in rows]


@dataclass
class PostgresPlace:
    target: str
    name: str = "postgres"

    def series(self, size: int) -> str:
        return f"generate_series(0::bigint, {size} - 1) AS i (n)"

    def digits(self, number: str, width: int) -> str:
        return f"convert_to(lpad(({number})::text, {width}, '0'), 'UTF8')"

    def joined(self, left: str, right: str) -> str:
        return f"{left} || {right}"

    def wide(self, number: str) -> str:
        return number

    def quantity(self, number: int) -> str:
        return str(number)

    def signed(self, number: str) -> str:
        return number

    def constant(self, value: bytes) -> str:
        return f"'\\x{value.hex()}'::bytea"

    async def run(self, statements: Sequence[str]) -> None:
        connection = await asyncpg.connect(self.target)
        await connection.execute("SET synchronous_commit = off; SET maintenance_work_mem = '1GB'")
        for statement in statements:
            await connection.execute(statement)
        await connection.execute("ANALYZE")
        await connection.close()

    async def indexes(self, prefix: str) -> list[tuple[str, str]]:
        connection = await asyncpg.connect(self.target)
        rows = await connection.fetch(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE $1"
            " AND indexname NOT LIKE '%_pkey'",
            f"{prefix}%",
        )
        await connection.close()
        return [(row[0], row[1]) for row in rows]


@contextmanager
def wallet_places(name: str) -> Iterator[Iterator[WalletPlace]]:
    """A place in each database, where a sink may be created."""
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder, ExitStack() as stack:

        def each() -> Iterator[WalletPlace]:
            yield SqlitePlace(f"{folder}/{name}.db")
            server = stack.enter_context(places.postgres()).server
            server.create_database(name)
            yield PostgresPlace(server.url(name))

        yield each()


async def fill_chain(place: WalletPlace, blocks: int) -> None:
    """Stores blocks of 20 transactions with a log each, in tables that exist.

    The wallet is address 1. Everybody else is one of 100,003 addresses.
    """
    size = blocks * BLOCK_SIZE
    hash_, parent = place.digits("n + 1", 32), place.digits("n", 32)
    at = f"{CHAIN_ID}, n / {BLOCK_SIZE}, n % {BLOCK_SIZE}"
    time, time_of_block = f"{_GENESIS} + 12 * (n / {BLOCK_SIZE})", f"{_GENESIS} + 12 * n"
    sender = f"CASE WHEN n % {WALLET_EVERY} = 7 THEN 1 ELSE 1000 + n % 100003 END"
    receiver = f"CASE WHEN n % {WALLET_EVERY} = 11 THEN 1 ELSE 1000 + n * 7 % 100003 END"
    sender, receiver = place.digits(sender, 20), place.digits(receiver, 20)
    token = place.digits(f"{_FIRST_TOKEN} + n % {TOKENS}", 20)
    padding, word, root = map(place.constant, (bytes(12), bytes(31) + b"\1", bytes(32)))
    price = place.quantity(10**9)
    statements = [
        f"""
INSERT INTO blocks (
  chain_id, block_number, block_timestamp, hash, parent_hash, miner, gas_limit, gas_used,
  extra_data, sha3_uncles, state_root, transactions_root, receipts_root, uncles,
  transaction_count, log_count, withdrawal_count)
SELECT {CHAIN_ID}, n, {time_of_block}, {hash_}, {parent}, {place.digits("7", 20)}, 30000000,
  1000000, {place.constant(b"")}, {root}, {root}, {root}, {root}, '[]',
  {BLOCK_SIZE}, {BLOCK_SIZE}, 0
FROM {place.series(blocks)}""",
        f"""
INSERT INTO transactions (
  chain_id, block_number, transaction_index, block_timestamp, hash, type, from_address,
  to_address, nonce, gas, value, input, gas_price, status, gas_used, cumulative_gas_used,
  effective_gas_price, log_count)
SELECT {at}, {time}, {hash_}, 2, {sender},
  {receiver}, n, 90000, {place.quantity(10**15)}, {place.constant(bytes(68))}, {price}, 1, 50000,
  50000, {price}, 1
FROM {place.series(size)}""",
        f"""
INSERT INTO logs (
  chain_id, block_number, transaction_index, log_position, block_timestamp, log_index,
  transaction_hash, address, topic0, topic1, topic2, data)
SELECT {at}, 0, {time}, n % {BLOCK_SIZE},
  {hash_}, {token}, {place.constant(TRANSFER)}, {place.joined(padding, sender)},
  {place.joined(padding, receiver)}, {word}
FROM {place.series(size)}""",
    ]
    for table, rows in zip(_TABLES, (blocks, size, size, 0), strict=True):
        statements.append(f"""
INSERT INTO _gapless_ranges (
  chain_id, dataset, first, last, fence, kind, rows, digest, proven, unproven, parent_hash,
  last_hash)
VALUES ({CHAIN_ID}, '{table}', 0, {blocks - 1}, 1, 'written', {rows}, {root}, 'link', '',
  {place.constant(block_hash(-1))}, {place.constant(block_hash(blocks - 1))})""")
    await place.run(statements)


async def fill_store(place: WalletPlace, movements: int, address_set: str) -> int:
    """Stores movements of 1,000 wallets with entries and balances; returns the last block.

    The tables of the store exist. Their indexes are built after the rows, which is faster.
    """
    last = -(-movements // PER_BLOCK) - 1
    block = f"n / {PER_BLOCK}"
    wallet = place.digits(f"n % {WALLETS}", 20)
    other = place.digits(f"{WALLETS} + n * 7 % {STRANGERS}", 20)
    token = place.digits(f"{_FIRST_TOKEN} + n / {WALLETS} % {TOKENS}", 20)
    is_sent = f"n / {WALLETS} % 3 = 2"
    sender = f"CASE WHEN {is_sent} THEN {wallet} ELSE {other} END"
    receiver = f"CASE WHEN {is_sent} THEN {other} ELSE {wallet} END"
    time = f"{_GENESIS} + 12 * ({block})"
    indexes = [*await place.indexes("wallet_entries"), *await place.indexes("wallet_movements")]
    false, true = ("0", "1") if place.name == "sqlite" else ("false", "true")
    amount = "amount, amount_f64" if place.name == "sqlite" else "amount"
    nothing = place.constant(b"")
    of_movement = " AND ".join(f"m.{name} = e.{name}" for name in KEY)
    statements = [
        *(f"DROP INDEX {name}" for name, _ in indexes),
        f"""
INSERT INTO wallet_movements (
  chain_id, block_number, kind, transaction_index, position, batch_position, block_hash,
  block_timestamp, transaction_hash, sender, receiver, token, token_id, initiator, is_approval,
  {amount})
SELECT {CHAIN_ID}, {block}, 'token', n % {PER_BLOCK}, 0, -1, {place.digits(f"{block} + 1", 32)},
  {time}, {place.digits("n", 32)}, {sender}, {receiver}, {token}, '', {sender}, {false},
  {place.wide("5")}
FROM {place.series(movements)}""",
        f"""
INSERT INTO wallet_entries (
  wallet_group, wallet, block_timestamp, chain_id, block_number, transaction_index, position,
  batch_position, kind, direction, category, flags)
SELECT '{GROUP}', {wallet}, {time}, {CHAIN_ID}, {block}, n % {PER_BLOCK}, 0,
  -1, 'token', CASE WHEN {is_sent} THEN -1 ELSE 1 END,
  CASE WHEN {is_sent} THEN 'out' ELSE 'in' END, ''
FROM {place.series(movements)} ORDER BY n % {WALLETS}, n""",
        *(text for _, text in indexes),
        f"""
INSERT INTO balances (wallet_group, wallet, chain_id, token, token_id, amount, entries)
SELECT '{GROUP}', e.wallet, {CHAIN_ID}, m.token, '',
  {place.signed("sum(e.direction * 5)")}, count(*)
FROM wallet_entries e JOIN wallet_movements m ON {of_movement}
GROUP BY e.wallet, m.token""",
        f"""
INSERT INTO wallet_members (
  wallet_group, chain_id, address, network, above, epoch, is_complete, knows_coins, as_of)
SELECT '{GROUP}', {CHAIN_ID}, {place.digits("n", 20)}, 'custom', {last}, 1, {true}, {true}, {last}
FROM {place.series(WALLETS)}""",
        f"""
INSERT INTO wallet_set_addresses SELECT {CHAIN_ID}, '{address_set}', {place.digits("n", 20)}
FROM {place.series(WALLETS)}""",
        f"""
INSERT INTO wallet_scans VALUES (
  {CHAIN_ID}, '{address_set}', 0, {last}, 1, 'tables', 'link', '', {nothing}, {nothing})""",
    ]
    await place.run(statements)
    return last
