"""A history as people read it: amounts with a decimal point, names of tokens, addresses as text.

Amounts are exact. What a token says about itself is hostile text: it is shortened, characters that
a terminal or a page would obey are escaped, and a token that calls itself like the coin of the
network is named by its contract instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from gapless.chains.movements import NOBODY, Coin, Movement, MovementKind, TokenFacts
from gapless.core.text import head, plain
from gapless.wallets.categories import Category, Flag, WalletEntry

LONGEST_SYMBOL = 24
LONGEST_NAME = 64
MOST_DECIMALS = 255  # that a contract can return
_ADDRESS = 20  # bytes of a contract; the name of an asset is shorter
_LAST_SECOND = 253_402_300_799  # of the calendar
_UNKNOWN = TokenFacts(standard="")


class Held(Protocol):
    """What has moved, or is held: the coin of the network, a token, or one with an id."""

    @property
    def token(self) -> bytes: ...
    @property
    def token_id(self) -> int | None: ...


class HistoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a history."""

    time: datetime
    block_number: int
    transaction: str
    kind: MovementKind
    category: Category
    direction: int
    amount: str
    symbol: str
    token: str  # empty for the coin of the network
    token_id: int | None
    counterparty: str  # empty for nobody
    flags: tuple[Flag, ...]


@dataclass(frozen=True)
class DisplayNames:
    """How a network, its tokens and its addresses are written."""

    coin: Coin
    tokens: Mapping[bytes, TokenFacts]
    format_address: Callable[[bytes], str]
    format_hash: Callable[[bytes], str]

    def amount(self, movement: Movement, amount: int | None = None) -> str:
        """An amount of what moved; by default, that which moved."""
        return decimal(movement.amount if amount is None else amount, self.decimals(movement))

    def decimals(self, it: Held) -> int:
        """0 if they are unknown, so that the amount is in the smallest unit.

        Tokens with an id are counted in pieces, whatever the contract says about decimals.
        """
        if it.token == NOBODY:
            return self.coin.decimals
        decimals = self._facts(it).decimals
        if it.token_id is not None or decimals is None or not 0 <= decimals <= MOST_DECIMALS:
            return 0
        return decimals

    def symbol(self, it: Held) -> str:
        """The name by which it is traded; the contract, if it has none of its own."""
        if it.token == NOBODY:
            return self.coin.symbol
        symbol = harmless(self._facts(it).symbol or "", LONGEST_SYMBOL)
        is_taken = symbol.casefold() == self.coin.symbol.casefold()
        return self.token(it) if not symbol or is_taken else symbol

    def token_name(self, it: Held) -> str:
        return harmless(self._facts(it).name or "", LONGEST_NAME)

    def token(self, it: Held) -> str:
        """Its contract, or the id of an asset; empty for the coin."""
        if it.token == NOBODY:
            return ""
        if len(it.token) != _ADDRESS:
            return harmless(it.token.decode(errors="replace"), LONGEST_NAME)
        return self.format_address(it.token)

    def address(self, address: bytes) -> str:
        return "" if address == NOBODY else self.format_address(address)

    def transaction(self, movement: Movement) -> str:
        """The hash of its transaction; empty if it has none."""
        found = movement.transaction_hash
        return self.format_hash(found) if found else ""

    def line(self, movement: Movement, entry: WalletEntry) -> HistoryLine:
        other = movement.receiver if entry.direction < 0 else movement.sender
        return HistoryLine(
            time=time(movement),
            block_number=movement.block_number,
            transaction=self.transaction(movement),
            kind=movement.kind,
            category=entry.category,
            direction=entry.direction,
            amount=self.amount(movement),
            symbol=self.symbol(movement),
            token=self.token(movement),
            token_id=movement.token_id,
            counterparty=self.address(other),
            flags=tuple(sorted(entry.flags)),
        )

    def _facts(self, it: Held) -> TokenFacts:
        return self.tokens.get(it.token, _UNKNOWN)


def time(movement: Movement) -> datetime:
    """When its block was made; a time beyond the calendar becomes its last second."""
    return datetime.fromtimestamp(min(movement.block_timestamp, _LAST_SECOND), UTC)


def decimal(amount: int, decimals: int) -> str:
    """An amount of the smallest unit as an exact decimal number.

    >>> decimal(1_500_000_000_000_000_001, 18), decimal(-25, 1), decimal(0, 18), decimal(7, 0)
    ('1.500000000000000001', '-2.5', '0', '7')
    """
    whole, part = divmod(abs(amount), 10**decimals)
    digits = str(part).rjust(decimals, "0").rstrip("0") if part else ""
    return f"{'-' if amount < 0 else ''}{whole}{'.' if digits else ''}{digits}"


def harmless(text: str, limit: int) -> str:
    """A stranger's text on one line, short, with its control and bidi characters escaped.

    >>> harmless("USD\\u202etiB", 24), harmless("x" * 99, 5)
    ('USD\\\\x202etiB', 'xxxx…')
    """
    return head(plain(text[: limit + 1]), limit)
