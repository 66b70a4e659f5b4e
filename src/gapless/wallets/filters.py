"""The entries of a history that somebody wants, as people write them."""

from __future__ import annotations

from typing import TypedDict

from gapless.chains.movements import NOBODY, MovementKind
from gapless.core.errors import UsageError
from gapless.core.heights import Moment
from gapless.core.remedies import ListBalances
from gapless.core.similar import known_names
from gapless.wallets.categories import parse_category
from gapless.wallets.finding import FoundWallet
from gapless.wallets.parameters import listed
from gapless.wallets.records import HistoryFilter
from gapless.wallets.request import rules_of


class Filters(TypedDict, total=False):
    """Which entries to list; what is left out matches any."""

    since: str | None  # the first day or second, in UTC
    until: str | None  # the last day or second, in UTC
    tokens: str | list[str] | tuple[str, ...]
    kinds: str | list[str] | tuple[str, ...]
    categories: str | list[str] | tuple[str, ...]
    counterparties: str | list[str] | tuple[str, ...]


def history_filter(wallet: FoundWallet, wanted: Filters) -> HistoryFilter:
    """Parses filters for the history of a wallet; raise `UsageError` if one makes no sense."""
    since, until = wanted.get("since"), wanted.get("until")
    return HistoryFilter(
        since=None if since is None else Moment.parse(since).begins,
        until=None if until is None else Moment.parse(until).ends - 1,
        tokens=tuple(_token(wallet, text) for text in listed(wanted.get("tokens", ()))),
        kinds=tuple(map(_kind, listed(wanted.get("kinds", ())))),
        counterparties=tuple(
            _party(wallet, text) for text in listed(wanted.get("counterparties", ()))
        ),
        categories=tuple(map(parse_category, listed(wanted.get("categories", ())))),
    )


def _token(wallet: FoundWallet, text: str) -> bytes:
    """A token as people name it: the symbol of the coin, a contract, or the id of an asset."""
    networks = [wallet.network(chain_id) for chain_id in wallet.chains]
    coins = {rules_of(each).coin(each).symbol.casefold() for each in networks}
    if text.casefold() in coins:
        return NOBODY
    if text.isdecimal():
        return text.encode()
    try:
        return _party(wallet, text)
    except UsageError as error:
        raise UsageError(
            f"{error}; several tokens may have one symbol, so a token is named by its contract",
            remedy=ListBalances(wallet.key.address),
        ) from error


def _kind(text: str) -> MovementKind:
    try:
        return MovementKind(text)
    except ValueError:
        hint = known_names(text, [*MovementKind])
        raise UsageError(f"`{text}` is not a kind of movement", hint=hint) from None


def _party(wallet: FoundWallet, text: str) -> bytes:
    return rules_of(wallet.network(wallet.chains[0])).parse_address(text)
