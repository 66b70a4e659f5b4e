"""Blocks whose transactions say what a wallet test is about, as rows, and their movements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.evm.wallet_rules import EvmWalletRules
from gapless.chains.movements import Lookup, Movement
from gapless.schema.arrow import Tables
from tests.evm import evm_network
from tests.unit.evm import answers
from tests.unit.evm.answers import Json

RULES = EvmWalletRules()
ETHEREUM = evm_network("ethereum")
ANN, BOB, CAT, ROUTER, COIN, ART = (bytes([each]) * 20 for each in range(0xA1, 0xA7))
NOBODY = bytes(20)
GAS, PRICE = 21_000, 10**9
FEE = GAS * PRICE


def hexed(data: bytes) -> str:
    return "0x" + data.hex()


def padded(address: bytes) -> bytes:
    return address.rjust(32, b"\0")


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def event(contract: bytes, topics: Sequence[bytes], data: bytes = b"") -> Json:
    return {"address": hexed(contract), "topics": [*map(hexed, topics)], "data": hexed(data)}


def transfer(sender: bytes, receiver: bytes, amount: int, token: bytes = COIN) -> Json:
    return event(token, [TRANSFER, padded(sender), padded(receiver)], word(amount))


@dataclass(frozen=True)
class Sent:
    """A transaction: by default from Ann to Bob, without value, which succeeded."""

    sender: bytes = ANN
    receiver: bytes | None = BOB
    value: int = 0
    events: Sequence[Json] = ()
    input: str = "0x"
    receipt: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


def rows_of(*sent: Sent, withdrawals: Collection[tuple[bytes, int]] = ()) -> Tables:
    """Decode a block with these transactions."""
    transactions, receipts, logged = [], [], 0
    for index, it in enumerate(sent):
        to = None if it.receiver is None else hexed(it.receiver)
        facts = {"from": hexed(it.sender), "to": to, "value": hex(it.value), "input": it.input}
        transactions.append(answers.transaction(index, **{**facts, **it.more}))
        logs = [answers.log(logged + at, index, **each) for at, each in enumerate(it.events)]
        receipts.append(answers.receipt(index, *logs, **it.receipt))
        logged += len(logs)
    drawn = [
        {"index": hex(at), "validatorIndex": "0x1", "address": hexed(address), "amount": hex(gwei)}
        for at, (address, gwei) in enumerate(withdrawals)
    ]
    block = answers.block(transactions=transactions, withdrawals=drawn)
    return answers.decoded(block, receipts)


def moved(
    rows: Mapping[str, pa.Table], *addresses: bytes, network: EvmNetwork = ETHEREUM
) -> list[Movement]:
    return RULES.movements(rows, network, addresses or (ANN, BOB, CAT, ROUTER, COIN, ART))


def brief(movements: Collection[Movement]) -> list[tuple[str, bytes, bytes, int]]:
    return [(it.kind.value, it.sender, it.receiver, it.amount) for it in movements]


def looked_up(rows: Mapping[str, pa.Table], addresses: Collection[bytes]) -> dict[str, pa.Table]:
    """Return only what the lookups of the rules find, as a store would."""
    found = {name: [False] * table.num_rows for name, table in rows.items()}
    for each in RULES.lookups:
        found[each.table] = [
            before or is_named
            for before, is_named in zip(
                found[each.table], _naming(rows, each, addresses), strict=True
            )
        ]
    places = {
        place
        for name, kept in found.items()
        if "transaction_index" in rows[name].column_names
        for place, is_kept in zip(_places(rows[name]), kept, strict=True)
        if is_kept
    }
    transactions = rows[RULES.transactions]
    found[RULES.transactions] = [place in places for place in _places(transactions)]
    found[RULES.tables[0]] = [True] * rows[RULES.tables[0]].num_rows
    return {name: rows[name].filter(pa.array(kept, pa.bool_())) for name, kept in found.items()}


def _naming(
    rows: Mapping[str, pa.Table], lookup: Lookup, addresses: Collection[bytes]
) -> list[bool]:
    wanted = {lookup.padding + each for each in addresses}
    return [each in wanted for each in rows[lookup.table][lookup.column].to_pylist()]


def _places(table: pa.Table) -> list[tuple[int, int]]:
    columns = (table[name].to_pylist() for name in ("block_number", "transaction_index"))
    return [*zip(*columns, strict=True)]
