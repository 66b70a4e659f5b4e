"""The tables of the wallet store, and the views that people read.

    wallet_scans          ranges in which the movements of an address set were looked for
    wallet_set_addresses  the addresses of these sets
    wallet_retractions    ranges that were removed, and the fence that did it
    wallet_movements      what moved: one row for each movement on a chain, whoever asked for it
    wallet_members        the addresses of each group, and the state of their balances
    wallet_entries        what a movement means to a wallet of a group
    balances              the sums of these entries
    tokens                what tokens say about themselves

They are created when they are first needed, and refused if another program has tables with these
names. A token id is decimal digits, and empty for a token that has none.

Indexes on addresses begin with the address and the height, as those on the tables of blocks do.
Statements that use them write `+chain_id`, which keeps databases from walking through all rows of
a chain instead.
"""

from __future__ import annotations

from gapless.core.errors import SinkUnusable
from gapless.sinks import CompanionTransaction
from gapless.sinks.dialect import SqlDialect

FIRST = "wallet_scans"  # if it exists, all do
NAMES = (
    FIRST,
    "wallet_set_addresses",
    "wallet_retractions",
    "wallet_movements",
    "wallet_members",
    "wallet_entries",
    "balances",
    "tokens",
)


async def exist(tx: CompanionTransaction) -> bool:
    """Whether the store was ever used."""
    return await tx.has(FIRST)


async def create(tx: CompanionTransaction) -> None:
    """Create the tables, unless they exist. Requires that nothing is written."""
    if await exist(tx):
        return
    for name in NAMES:
        if await tx.has(name):
            raise SinkUnusable(
                f"the sink has a table `{name}` that Gapless did not create",
                hint="keep wallets in a sink of their own, or rename that table",
            )
    for statement in _statements(tx.dialect):
        await tx.execute(statement)


def _statements(it: SqlDialect) -> tuple[str, ...]:
    number, data, boolean, signed, end = it.number, it.data, it.boolean, it.signed, it.table_options
    amount = ",\n  ".join(f"{name} {type_} NOT NULL" for name, type_ in _amount(it).items())
    return (
        f"""
CREATE TABLE {{wallet_scans}} (
  chain_id {number} NOT NULL,
  address_set TEXT NOT NULL,
  first {number} NOT NULL,
  last {number} NOT NULL,
  fence {number} NOT NULL,
  source TEXT NOT NULL,
  proven TEXT NOT NULL,         -- names of checks, separated by spaces
  unproven TEXT NOT NULL,
  parent_hash {data} NOT NULL,  -- of the first block; empty if it is not known
  last_hash {data} NOT NULL,
  PRIMARY KEY (chain_id, address_set, first)
){end}""",
        "CREATE INDEX wallet_scans_last ON {wallet_scans} (chain_id, last)",
        f"""
CREATE TABLE {{wallet_set_addresses}} (
  chain_id {number} NOT NULL,
  address_set TEXT NOT NULL,
  address {data} NOT NULL,
  PRIMARY KEY (chain_id, address_set, address)
){end}""",
        "CREATE INDEX wallet_set_addresses_address ON {wallet_set_addresses} (address)",
        f"""
CREATE TABLE {{wallet_retractions}} (
  chain_id {number} NOT NULL,
  first {number} NOT NULL,
  last {number} NOT NULL,
  fence {number} NOT NULL,
  PRIMARY KEY (chain_id, first)
){end}""",
        f"""
CREATE TABLE {{wallet_movements}} (
  chain_id {number} NOT NULL,
  block_number {number} NOT NULL,
  kind TEXT NOT NULL,
  transaction_index {number} NOT NULL,  -- or -1
  position {number} NOT NULL,           -- or -1
  batch_position {number} NOT NULL,     -- or -1
  block_hash {data} NOT NULL,
  block_timestamp {number} NOT NULL,
  transaction_hash {data} NOT NULL,
  sender {data} NOT NULL,               -- empty if it was created
  receiver {data} NOT NULL,             -- empty if it was destroyed
  token {data} NOT NULL,                -- empty for the coin of the network
  token_id TEXT NOT NULL,
  initiator {data} NOT NULL,
  is_approval {boolean} NOT NULL,
  {amount},
  PRIMARY KEY (chain_id, block_number, kind, transaction_index, position, batch_position)
){end}""",
        "CREATE INDEX wallet_movements_sender ON {wallet_movements} (sender, block_number)",
        "CREATE INDEX wallet_movements_receiver ON {wallet_movements} (receiver, block_number)",
        "CREATE INDEX wallet_movements_token ON {wallet_movements} (token, block_number)",
        f"""
CREATE TABLE {{wallet_members}} (
  wallet_group TEXT NOT NULL,
  chain_id {number} NOT NULL,
  address {data} NOT NULL,
  network TEXT NOT NULL,        -- its name; others may use the same chain id
  above {number} NOT NULL,      -- new blocks above this height are watched
  epoch {number} NOT NULL,
  is_complete {boolean} NOT NULL,
  knows_coins {boolean} NOT NULL,  -- whether coins were looked for in every block
  as_of {number} NOT NULL,      -- the last block of its history
  PRIMARY KEY (chain_id, wallet_group, address)
){end}""",
        "CREATE INDEX wallet_members_address ON {wallet_members} (address)",
        f"""
CREATE TABLE {{wallet_entries}} (
  wallet_group TEXT NOT NULL,
  wallet {data} NOT NULL,
  block_timestamp {number} NOT NULL,
  chain_id {number} NOT NULL,
  block_number {number} NOT NULL,
  transaction_index {number} NOT NULL,
  position {number} NOT NULL,
  batch_position {number} NOT NULL,
  kind TEXT NOT NULL,
  direction {number} NOT NULL,  -- -1 sent, 1 received, 0 both
  category TEXT NOT NULL,
  flags TEXT NOT NULL,          -- separated by spaces
  PRIMARY KEY (wallet_group, wallet, block_timestamp, chain_id, block_number,
    transaction_index, position, batch_position, kind)
){end}""",
        "CREATE INDEX wallet_entries_block ON {wallet_entries} (chain_id, block_number)",
        # The history of a group, in order. It has the columns of the key, which SQLite adds anyway.
        """
CREATE INDEX wallet_entries_time ON {wallet_entries} (wallet_group, block_timestamp, chain_id,
  block_number, transaction_index, position, batch_position, kind, wallet)""",
        f"""
CREATE TABLE {{balances}} (
  wallet_group TEXT NOT NULL,
  wallet {data} NOT NULL,
  chain_id {number} NOT NULL,
  token {data} NOT NULL,
  token_id TEXT NOT NULL,
  amount {signed} NOT NULL,
  entries {number} NOT NULL,    -- that it is the sum of
  PRIMARY KEY (wallet_group, wallet, chain_id, token, token_id)
){end}""",
        f"""
CREATE TABLE {{tokens}} (
  chain_id {number} NOT NULL,
  token {data} NOT NULL,
  standard TEXT NOT NULL,
  symbol TEXT,
  name TEXT,
  decimals {number},
  PRIMARY KEY (chain_id, token)
){end}""",
        _history(it),
        _balances(it),
    )


def _amount(it: SqlDialect) -> dict[str, str]:
    return it.wide_columns("amount")


def _history(it: SqlDialect) -> str:
    rounded = [*_amount(it)][-1]
    return f"""
{it.create_view} {{wallet_history}} AS SELECT
  e.wallet_group, {it.hex("e.wallet")} AS wallet, e.chain_id, e.block_number,
  {it.time("e.block_timestamp")} AS block_time,
  {it.hex("m.transaction_hash")} AS transaction_hash, e.category, e.direction, e.kind,
  {it.in_units(f"m.{rounded}", "coalesce(t.decimals, 0)")} AS amount_in_units,
  t.symbol, {it.hex("m.token")} AS token, m.token_id,
  {it.hex("CASE WHEN m.sender = e.wallet THEN m.receiver ELSE m.sender END")} AS counterparty,
  {it.readable_wide("m.amount")} AS amount, e.flags
FROM {{wallet_entries}} e
JOIN {{wallet_movements}} m ON m.chain_id = e.chain_id AND m.block_number = e.block_number
  AND m.kind = e.kind AND m.transaction_index = e.transaction_index
  AND m.position = e.position AND m.batch_position = e.batch_position
LEFT JOIN {{tokens}} t ON t.chain_id = m.chain_id AND t.token = m.token
"""  # noqa: S608 - our own names


def _balances(it: SqlDialect) -> str:
    return f"""
{it.create_view} {{wallet_balances}} AS SELECT
  b.wallet_group, {it.hex("b.wallet")} AS wallet, b.chain_id,
  {it.in_units("b.amount", "coalesce(t.decimals, 0)")} AS amount_in_units,
  t.symbol, {it.hex("b.token")} AS token, b.token_id, b.amount, b.entries,
  w.is_complete AND (w.knows_coins OR length(b.token) > 0) AS is_complete, w.as_of, w.epoch
FROM {{balances}} b
LEFT JOIN {{tokens}} t ON t.chain_id = b.chain_id AND t.token = b.token
LEFT JOIN {{wallet_members}} w ON w.chain_id = b.chain_id AND w.wallet_group = b.wallet_group
  AND w.address = b.wallet
"""  # noqa: S608 - our own names
