"""Blocks whose addresses are a few wallets, and rules that derive movements from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any

import pyarrow as pa

from gapless.chains import find_network
from gapless.chains.movements import (
    NOBODY,
    Coin,
    Lookup,
    Movement,
    MovementKind,
    WalletNode,
)
from gapless.chains.network import Network
from gapless.core.ranges import Span
from gapless.providers import Pool
from gapless.schema.arrow import Tables
from gapless.sinks import Batch
from gapless.wallets.categories import Category, Flag, WalletEntry
from gapless.wallets.records import Scan
from tests.conformance.sink.model import hash_at, on
from tests.conformance.sink.stage import CHAIN_ID, HEAD, branches, with_column, within

WALLETS = tuple(bytes([number]) * 20 for number in range(1, 7))
STRANGERS = tuple(bytes([number]) * 20 for number in range(0xF0, 0xF3))
NETWORK = replace(find_network("custom"), chain_id=CHAIN_ID)
NEEDED = ("blocks", "transactions", "logs")
_PADDING = bytes(12)


class ToyRules:
    """A coin moves with each transaction, and a token with each log of two topics or more."""

    tables: tuple[str, ...] = NEEDED
    transactions = "transactions"
    signer = "sender"
    lookups: tuple[Lookup, ...] = (
        Lookup("transactions", "from_address"),
        Lookup("transactions", "to_address"),
        Lookup("logs", "topic1", _PADDING),
        Lookup("logs", "topic2", _PADDING),
    )

    def coin(self, network: Network) -> Coin:
        return Coin("TOY", 18)

    def parse_address(self, text: str) -> bytes:
        return bytes.fromhex(text)

    def format_address(self, address: bytes) -> str:
        return address.hex()

    def format_hash(self, found: bytes) -> str:
        return found.hex()

    def node(self, pool: Pool, network: Network) -> WalletNode:
        raise NotImplementedError

    def movements(
        self, rows: Mapping[str, pa.Table], network: Network, addresses: Collection[bytes]
    ) -> list[Movement]:
        assert network.chain_id is not None
        hashes = {row["block_number"]: row["hash"] for row in rows["blocks"].to_pylist()}
        signers = {}
        found = []
        for row in rows["transactions"].to_pylist():
            at = row["block_number"], row["transaction_index"]
            signers[at] = row["from_address"], row["hash"]
            found.append(
                Movement(
                    **_shared(network.chain_id, row, hashes),
                    kind=MovementKind.NATIVE,
                    transaction_hash=row["hash"],
                    sender=row["from_address"],
                    receiver=row["to_address"] or NOBODY,
                    amount=int.from_bytes(row["value"], "big"),
                    initiator=row["from_address"],
                )
            )
        for row in rows["logs"].to_pylist():
            if row["topic2"] is None:
                continue
            signer, hash_ = signers[row["block_number"], row["transaction_index"]]
            is_nft = row["topic3"] is not None
            found.append(
                Movement(
                    **_shared(network.chain_id, row, hashes),
                    kind=MovementKind.NFT if is_nft else MovementKind.TOKEN,
                    position=row["log_position"],
                    transaction_hash=hash_,
                    sender=row["topic1"][12:],
                    receiver=row["topic2"][12:],
                    token=row["address"],
                    token_id=int.from_bytes(row["topic3"], "big") if is_nft else None,
                    amount=1 if is_nft else int.from_bytes(row["data"][:32], "big"),
                    initiator=signer,
                    is_approval=row["log_position"] == 1,
                )
            )
        ours = [it for it in found if it.sender in addresses or it.receiver in addresses]
        return sorted(ours, key=lambda it: it.key)


def _shared(chain_id: int, row: Mapping[str, Any], hashes: Mapping[int, bytes]) -> dict[str, Any]:
    return {
        "chain_id": chain_id,
        "block_number": row["block_number"],
        "block_hash": hashes[row["block_number"]],
        "block_timestamp": row["block_timestamp"],
        "transaction_index": row["transaction_index"],
    }


RULES = ToyRules()


@cache
def tables(branch: int = 0) -> Tables:
    """The chain of the sinks' tests, or another branch of it, with wallets for addresses."""
    found = dict(branches()[branch])
    for name, columns, padding in (
        ("transactions", ("from_address", "to_address"), b""),
        ("logs", ("topic1", "topic2"), _PADDING),
    ):
        rows = found[name].to_pylist()
        for column in columns:
            new = [row[column] and padding + _party(branch, name, column, row) for row in rows]
            at = found[name].schema.get_field_index(column)
            field = found[name].schema.field(at)
            found[name] = found[name].set_column(at, field, pa.array(new, field.type))
    return Tables(found)


def _party(branch: int, name: str, column: str, row: Mapping[str, Any]) -> bytes:
    height = row["block_number"]
    position = row["transaction_index"], row.get("log_position")
    place = on(branch, height), height, position, name, column
    everybody = (*WALLETS, *STRANGERS)
    return everybody[sha256(repr(place).encode()).digest()[0] % len(everybody)]


@cache
def truth(branch: int = 0) -> tuple[Movement, ...]:
    """Everything that wallets sent or received."""
    return tuple(RULES.movements(tables(branch), NETWORK, WALLETS))


def moved(span: Span, addresses: Iterable[bytes] = WALLETS, branch: int = 0) -> list[Movement]:
    """What some wallets sent or received in a span."""
    ours = {*addresses}
    return [
        it
        for it in truth(branch)
        if span.first <= it.block_number <= span.last and ours & {it.sender, it.receiver}
    ]


def blocks(first: int, last: int, *, branch: int = 0, names: Collection[str] = NEEDED) -> Batch:
    span = Span(first, last)
    found = {name: within(tables(branch)[name], span) for name in names}
    if "logs" not in names:
        found["blocks"] = with_column(found["blocks"], "log_count", None)
    return Batch(CHAIN_ID, span, Tables(found), frozenset({"link"}))


def scan(
    first: int,
    last: int,
    *,
    set_: str = "one",
    fence: int = 1,
    branch: int = 0,
    proven: Iterable[str] = ("agreed",),
    source: str = "events",
) -> Scan:
    return Scan(
        chain_id=CHAIN_ID,
        address_set=set_,
        span=Span(first, last),
        source=source,
        proven=frozenset(proven),
        parent_hash=hash_at(first - 1, branch) if first else b"",
        last_hash=hash_at(last, branch),
        fence=fence,
    )


def entries_of(
    movements: Iterable[Movement], wallets: Collection[bytes], category: str = "in"
) -> list[WalletEntry]:
    """One entry for each wallet of a movement."""
    found = []
    for it in movements:
        for wallet in {it.sender, it.receiver} & {*wallets}:
            direction = (it.receiver == wallet) - (it.sender == wallet)
            flags = frozenset({Flag.ZERO_VALUE}) if not it.amount else frozenset[Flag]()
            found.append(
                WalletEntry(
                    wallet=wallet,
                    movement=it.key,
                    direction=direction,
                    category=Category(category),
                    flags=flags,
                )
            )
    return found


ALL = Span(0, HEAD)
