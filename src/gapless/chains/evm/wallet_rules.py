"""How the tables, addresses and nodes of EVM chains tell the history of a wallet.

`wallet_coins` and `wallet_tokens` say what a row means; this module selects the rows. A row is
selected by the columns in `lookups` alone, so that rows of whole blocks and rows that were looked
up by address lead to the same movements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from gapless.chains.evm import wallet_address
from gapless.chains.evm.coins import DECIMALS
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.tables import BLOCKS, LOGS, TABLES, TRANSACTIONS, WITHDRAWALS
from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.evm.wallet_coins import coin_movements, transaction_rows, withdrawal_movements
from gapless.chains.evm.wallet_node import EvmWalletNode
from gapless.chains.evm.wallet_tokens import (
    BATCH,
    DEPOSIT,
    GRANTS,
    PADDING,
    SINGLE,
    WITHDRAWAL,
    Called,
    LogRow,
    grants,
    log_movements,
)
from gapless.chains.movements import Coin, Lookup, Movement
from gapless.chains.network import Network
from gapless.chains.wallet_rows import (
    address_array,
    block_places,
    naming,
    of_parties,
    of_transactions,
    party,
    transaction_keys,
)
from gapless.providers import Pool

Transaction = tuple[int, int]  # height and index

_IN_TRANSACTIONS = ("from_address", "to_address", "contract_address")
_IN_LOGS = ("topic1", "topic2", "topic3")
_TOPICS = ("topic0", *_IN_LOGS)
_EVENTS = pa.array([TRANSFER, SINGLE, BATCH, DEPOSIT, WITHDRAWAL, *GRANTS], pa.binary(32))


class EvmWalletRules:
    """See `gapless.chains.movements.WalletRules`."""

    tables: tuple[str, ...] = tuple(table.name for table in TABLES)
    transactions = TRANSACTIONS.name
    signer = "from_address"
    lookups: tuple[Lookup, ...] = (
        *(Lookup(TRANSACTIONS.name, column) for column in _IN_TRANSACTIONS),
        *(Lookup(LOGS.name, column, PADDING) for column in _IN_LOGS),
        Lookup(WITHDRAWALS.name, "address"),
    )

    def coin(self, network: Network) -> Coin:
        assert isinstance(network, EvmNetwork)
        return Coin(network.coin, DECIMALS)

    def parse_address(self, text: str) -> bytes:
        return wallet_address.parse_address(text)

    def format_address(self, address: bytes) -> str:
        return wallet_address.format_address(address)

    def format_hash(self, found: bytes) -> str:
        return f"0x{found.hex()}"

    def movements(
        self, rows: Mapping[str, pa.Table], network: Network, addresses: Collection[bytes]
    ) -> list[Movement]:
        assert isinstance(network, EvmNetwork)
        found = of_parties(_movements(rows, network, addresses), addresses)
        return sorted(found, key=lambda each: each.key)

    def node(self, pool: Pool, network: Network) -> EvmWalletNode:
        assert isinstance(network, EvmNetwork)
        return EvmWalletNode(pool, network)


def _movements(
    rows: Mapping[str, pa.Table], network: EvmNetwork, addresses: Collection[bytes]
) -> Iterator[Movement]:
    """Yield what the selected rows say, also about other addresses."""
    plain, padded = address_array(addresses), address_array(addresses, PADDING)
    logs, transactions = rows[LOGS.name], rows[TRANSACTIONS.name]
    is_event = pc.is_in(logs["topic0"], value_set=_EVENTS)
    logs = logs.filter(pc.and_(is_event, naming(logs, _IN_LOGS, padded)))
    named = transactions.filter(naming(transactions, _IN_TRANSACTIONS, plain))
    keys = (transaction_keys(logs), transaction_keys(named))
    involved = transaction_rows(transactions.filter(of_transactions(transactions, keys)))
    withdrawals = rows[WITHDRAWALS.name]
    kept = withdrawals.filter(naming(withdrawals, ("address",), plain))
    withdrawals = kept if network.withdraws_coins else kept.slice(0, 0)
    heights = {row["block_number"] for row in involved}
    heights.update(withdrawals["block_number"].to_pylist())
    places = block_places(rows[BLOCKS.name], heights)
    logs_of = _by_transaction(logs)
    for row in involved:
        height, index, signer = row["block_number"], row["transaction_index"], row["from_address"]
        own = sorted(logs_of.get((height, index), ()))
        place = places[height]._replace(
            transaction_index=index, transaction_hash=row["hash"], initiator=party(signer)
        )
        is_granting = any(grants(log, signer) for log in own)
        yield from coin_movements(row, place, network, grants=is_granting)
        yield from log_movements(own, Called(place, row["to_address"]), network.wrapped)
    yield from withdrawal_movements(withdrawals, places)


def _by_transaction(logs: pa.Table) -> Mapping[Transaction, list[LogRow]]:
    """Return logs as rows, by their transaction."""
    found = defaultdict[Transaction, list[LogRow]](list)
    places = (logs[name].to_pylist() for name in ("block_number", "transaction_index"))
    facts = (logs[name].to_pylist() for name in ("log_position", "address", *_TOPICS, "data"))
    for height, index, position, contract, *topics, data in zip(*places, *facts, strict=True):
        given = tuple(takewhile(lambda each: each is not None, topics))
        found[height, index].append(LogRow(position, contract, given, data))
    return found
