"""The rows of `tron_transfers`: the tokens that moved in transactions which succeeded.

Transfers of TRC-20 and TRC-721 tokens are decoded in `tron_logs` already. TRC-10 tokens have no
logs: transactions send them, and contracts send them in internal transactions, which not every node
records. `wallet_coins` has the rule for both, which wallets use too.

Invariant: rows follow from the transactions, logs and internal transactions of a block alone. What
a transaction sends itself comes first, and internal transactions last, so that a node which does
not record these gives the same keys to the other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gapless.chains.movements import NOWHERE, Movement, MovementKind
from gapless.chains.tron.block_rows import arrow_table
from gapless.chains.tron.contracts import Columns, address_columns
from gapless.chains.tron.tables import (
    TRON_INTERNAL_TRANSACTIONS,
    TRON_LOGS,
    TRON_TRANSACTIONS,
    TRON_TRANSFERS,
)
from gapless.chains.tron.wallet_coins import (
    INTERNAL_COLUMNS,
    TRANSACTION_COLUMNS,
    coin_movements,
    internal_movements,
    may_send_asset,
    succeeded,
)
from gapless.chains.wallet_rows import Place, of_transactions, transaction_keys
from gapless.schema import F64

_PLACE = ("chain_id", "block_timestamp", "block_timestamp_ms")
_LOG_COLUMNS = (
    *("block_number", "transaction_index", "log_position", "address", "address_base58"),
    *("from_address", "from_base58", "to_address", "to_base58", "amount", "amount" + F64),
    *("nft_id", "nft_id" + F64),
)
_TRANSACTION = itemgetter("block_number", "transaction_index")
_ZERO = bytes(20)
_WORD = 32
_ONE = (1).to_bytes(_WORD, "big")

Row = Mapping[str, Any]


def derived_tables(rows: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the tables that follow from these, by name."""
    names = (TRON_TRANSACTIONS.name, TRON_LOGS.name, TRON_INTERNAL_TRANSACTIONS.name)
    if any(name not in rows for name in names):
        return {}
    return {TRON_TRANSFERS.name: transfer_rows(*(rows[name] for name in names))}


def transfer_rows(transactions: pa.Table, logs: pa.Table, internals: pa.Table) -> pa.Table:
    """Return the rows of some blocks, which are in the order of their keys."""
    logs = logs.filter(pc.or_(logs["amount"].is_valid(), logs["nft_id"].is_valid()))
    internals = internals.filter(internals["asset_values"].is_valid())
    below = of_transactions(transactions, map(transaction_keys, (logs, internals)))
    transactions = transactions.filter(pc.or_(below, may_send_asset(transactions)))
    logged = _by_transaction(logs, _LOG_COLUMNS)
    called = _by_transaction(internals, INTERNAL_COLUMNS)
    found = list[Columns]()
    for row in transactions.select([*_PLACE, *TRANSACTION_COLUMNS]).to_pylist():
        if succeeded(row):
            key = _TRANSACTION(row)
            own = _transfers(row, logged.get(key, ()), called.get(key, ()))
            found += [{"transfer_position": at, **each} for at, each in enumerate(own)]
    return arrow_table(TRON_TRANSFERS, found)


def _by_transaction(
    rows: pa.Table, columns: Collection[str]
) -> dict[tuple[int, int], Collection[Row]]:
    found = rows.select([*columns]).to_pylist()
    return {key: [*group] for key, group in groupby(found, _TRANSACTION)}


def _transfers(row: Row, logs: Collection[Row], calls: Collection[Row]) -> Iterator[Columns]:
    """Yield what a transaction moved, in the order of the table."""
    height, index = _TRANSACTION(row)
    at = {name: row[name] for name in (*_PLACE, "block_number", "transaction_index")}
    at["transaction_hash"] = row["hash"]
    place = Place(row["chain_id"], height, b"", row["block_timestamp"], index, row["hash"])
    for movement in coin_movements(row, place):
        yield from _asset(at, movement)
    for log in logs:
        yield {**at, **_logged(log)}
    for call in calls:
        for movement in internal_movements(call, place):
            yield from _asset(at, movement)


def _logged(log: Row) -> Columns:
    is_token = log["amount"] is not None
    kept = ("log_position", "from_address", "from_base58", "to_address", "to_base58")
    return {
        **{name: log[name] for name in kept},
        "kind": (MovementKind.TOKEN if is_token else MovementKind.NFT).value,
        "token_address": log["address"],
        "token_base58": log["address_base58"],
        "token_id": log["nft_id"],
        "token_id" + F64: log["nft_id" + F64],
        "amount": log["amount"] if is_token else _ONE,
        "amount" + F64: log["amount" + F64] if is_token else 1.0,
    }


def _asset(at: Columns, it: Movement) -> Iterator[Columns]:
    if it.kind is not MovementKind.ASSET:
        return
    yield {
        **at,
        "kind": it.kind.value,
        "internal_position": None if it.position == NOWHERE else it.position,
        "asset": it.token,
        **address_columns("from", it.sender or _ZERO),
        **address_columns("to", it.receiver or _ZERO),
        "amount": it.amount.to_bytes(_WORD, "big"),
        "amount" + F64: float(it.amount),
    }
