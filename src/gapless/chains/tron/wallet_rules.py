"""How the tables, addresses and nodes of TRON chains tell the history of a wallet.

`wallet_coins` says what transactions and internal calls mean; transfers of TRC-20 and TRC-721
tokens are decoded in the table of logs already. A row is selected by the columns in `lookups`
alone, so that rows of whole blocks and rows that were looked up by address lead to the same
movements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from gapless.chains.movements import Coin, Lookup, Movement, MovementKind
from gapless.chains.network import Network
from gapless.chains.tron import address
from gapless.chains.tron.tables import (
    TRON_BLOCKS,
    TRON_INTERNAL_TRANSACTIONS,
    TRON_LOGS,
    TRON_TABLES,
    TRON_TRANSACTIONS,
)
from gapless.chains.tron.wallet_coins import (
    INTERNAL_COLUMNS,
    TRANSACTION_COLUMNS,
    coin_movements,
    internal_movements,
    succeeded,
)
from gapless.chains.tron.wallet_node import TronWalletNode
from gapless.chains.wallet_rows import (
    Place,
    address_array,
    block_places,
    naming,
    of_parties,
    of_transactions,
    party,
    transaction_keys,
)
from gapless.providers import Pool

Row = Mapping[str, Any]

_TRX = Coin("TRX", 6)
_NAMING = {
    TRON_TRANSACTIONS.name: ("owner_address", "to_address", "contract_address"),
    TRON_LOGS.name: ("from_address", "to_address"),
    TRON_INTERNAL_TRANSACTIONS.name: ("caller_address", "to_address"),
}
_LOG_COLUMNS = (
    *("block_number", "transaction_index", "log_position", "address", "from_address"),
    *("to_address", "amount", "nft_id"),
)


class TronWalletRules:
    """See `gapless.chains.movements.WalletRules`."""

    tables: tuple[str, ...] = tuple(table.name for table in TRON_TABLES)
    transactions = TRON_TRANSACTIONS.name
    signer = "owner_address"
    lookups: tuple[Lookup, ...] = tuple(
        Lookup(table, column) for table, columns in _NAMING.items() for column in columns
    )

    def coin(self, network: Network) -> Coin:
        return _TRX

    def parse_address(self, text: str) -> bytes:
        return address.parse_address(text)

    def format_address(self, address_: bytes) -> str:
        return address.base58_of(address_)

    def format_hash(self, found: bytes) -> str:
        return found.hex()

    def movements(
        self, rows: Mapping[str, pa.Table], network: Network, addresses: Collection[bytes]
    ) -> list[Movement]:
        found = of_parties(_movements(rows, addresses), addresses)
        return sorted(found, key=lambda each: each.key)

    def node(self, pool: Pool, network: Network) -> TronWalletNode:
        return TronWalletNode(pool)


def _movements(rows: Mapping[str, pa.Table], addresses: Collection[bytes]) -> Iterator[Movement]:
    """Yield what the selected rows say, also about other addresses."""
    wanted = address_array(addresses)
    named = {
        name: rows[name].filter(naming(rows[name], columns, wanted))
        for name, columns in _NAMING.items()
    }
    transactions = rows[TRON_TRANSACTIONS.name]
    is_involved = of_transactions(transactions, map(transaction_keys, named.values()))
    involved = transactions.filter(is_involved).select(TRANSACTION_COLUMNS).to_pylist()
    places = block_places(rows[TRON_BLOCKS.name], (row["block_number"] for row in involved))
    done = dict[tuple[int, int], Place]()
    for row in involved:
        height, index = row["block_number"], row["transaction_index"]
        signer = party(row["owner_address"] or b"")
        place = places[height]._replace(
            transaction_index=index, transaction_hash=row["hash"], initiator=signer
        )
        yield from coin_movements(row, place)
        if succeeded(row):
            done[height, index] = place
    for row, place in _within(named[TRON_LOGS.name].select(_LOG_COLUMNS), done):
        yield from _transferred(row, place)
    for row, place in _within(
        named[TRON_INTERNAL_TRANSACTIONS.name].select(INTERNAL_COLUMNS), done
    ):
        yield from internal_movements(row, place)


def _within(
    rows: pa.Table, transactions: Mapping[tuple[int, int], Place]
) -> Iterator[tuple[Row, Place]]:
    """Yield the rows of these transactions with their places."""
    for row in rows.to_pylist():
        place = transactions.get((row["block_number"], row["transaction_index"]))
        if place is not None:
            yield row, place


def _transferred(row: Row, place: Place) -> Iterator[Movement]:
    """Yield what a log transferred, if anything."""
    sender, receiver = row["from_address"], row["to_address"]
    more = {"token": row["address"], "position": row["log_position"]}
    if row["amount"] is not None:
        amount = int.from_bytes(row["amount"], "big")
        yield place.movement(MovementKind.TOKEN, sender, receiver, amount, **more)
    elif row["nft_id"] is not None:
        more["token_id"] = int.from_bytes(row["nft_id"], "big")
        yield place.movement(MovementKind.NFT, sender, receiver, 1, **more)
