"""The columns of Koinly's universal file.

A row gives something, gets something, or both: the legs of a swap are netted per token and paired.
Spoofs, transfers to oneself and movements of the value 0 change nothing and are left out. Only
`reward` and `cost` are used as labels, because the others are decisions about taxes. The
description has the category, the flags and the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby, zip_longest
from typing import NamedTuple

from gapless.chains.movements import Movement, MovementKind
from gapless.wallets.categories import Category, WalletEntry
from gapless.wallets.history import DisplayNames, time

COLUMNS = (
    *("Date", "Sent Amount", "Sent Currency", "Received Amount", "Received Currency"),
    *("Fee Amount", "Fee Currency", "Net Worth Amount", "Net Worth Currency"),
    *("Label", "Description", "TxHash"),
)
_TRADES = frozenset({Category.SWAP, Category.WRAP})
_COSTS = frozenset({Category.FEE, Category.APPROVAL})
_NFT_BYTES = 5


class _Leg(NamedTuple):
    """What a wallet gave or got of one token."""

    movement: Movement  # one of those that it sums up
    entry: WalletEntry
    amount: int  # below zero if it was given

    @property
    def is_fee(self) -> bool:
        return self.movement.kind is MovementKind.FEE and self.amount < 0


class _Row(NamedTuple):
    given: _Leg | None
    got: _Leg | None


def rows(
    entries: Iterable[tuple[Movement, WalletEntry]], names: DisplayNames
) -> Iterator[tuple[str, ...]]:
    """The rows of one wallet. The fee of a transaction is in its first row."""
    for _, group in groupby(entries, lambda it: (it[0].block_number, it[0].transaction_index)):
        legs = [
            _Leg(movement, entry, movement.amount * entry.direction)
            for movement, entry in group
            if entry.category is not Category.SPOOF and movement.amount * entry.direction
        ]
        fee = next(iter(_netted([it for it in legs if it.is_fee])), None)
        found = _rows([it for it in legs if not it.is_fee])
        if fee is not None and not found:
            found, fee = [_Row(fee, None)], None
        for row in found:
            yield _written(row, fee, names)
            fee = None


def _rows(legs: Sequence[_Leg]) -> list[_Row]:
    found = [
        _Row(it, None) if it.amount < 0 else _Row(None, it)
        for it in legs
        if it.entry.category not in _TRADES
    ]
    for category in sorted(_TRADES):
        netted = _netted([it for it in legs if it.entry.category is category])
        given, got = ([it for it in netted if (it.amount < 0) is sent] for sent in (True, False))
        found += (_Row(*pair) for pair in zip_longest(given, got))
    return found


def _netted(legs: Sequence[_Leg]) -> list[_Leg]:
    """One leg per token, without those that add up to 0."""
    found: dict[tuple[bytes, int | None], _Leg] = {}
    for leg in legs:
        token = (leg.movement.token, leg.movement.token_id)
        amount = found[token].amount if token in found else 0
        found[token] = leg._replace(amount=amount + leg.amount)
    return [it for it in found.values() if it.amount]


def _written(row: _Row, fee: _Leg | None, names: DisplayNames) -> tuple[str, ...]:
    main = row.given or row.got
    assert main is not None
    movement, entry = main.movement, main.entry
    amounts = (*_amount(row.given, names), *_amount(row.got, names), *_amount(fee, names))
    tokens = [names.token(it.movement) for it in row if it is not None]
    description = " ".join([entry.category, *sorted(entry.flags), *filter(None, tokens)])
    when = f"{time(movement):%Y-%m-%d %H:%M:%S} UTC"
    return (when, *amounts, "", "", _label(main), description, names.transaction(movement))


def _label(leg: _Leg) -> str:
    if leg.entry.category in _COSTS and leg.amount < 0:
        return "cost"
    return "reward" if leg.entry.category is Category.REWARD else ""


def _amount(leg: _Leg | None, names: DisplayNames) -> tuple[str, str]:
    if leg is None:
        return "", ""
    return names.amount(leg.movement, abs(leg.amount)), _currency(leg.movement, names)


def _currency(movement: Movement, names: DisplayNames) -> str:
    """A symbol; for a token with an id, a placeholder that is always the same for it."""
    if movement.token_id is None:
        return names.symbol(movement)
    named = b"%s %d" % (movement.token, movement.token_id)
    return f"NFT{int.from_bytes(sha256(named).digest()[:_NFT_BYTES])}"
