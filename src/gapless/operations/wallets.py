"""The package's functions to read and to edit wallets; each command is one of them.

details = await gapless.show_wallet("0xAb58…")
page = await gapless.wallet_history("0xAb58…", since="2024-01-01", categories="swap")
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from gapless.blocks.functions import target_of
from gapless.chains.movements import MovementKey
from gapless.config import load
from gapless.core.errors import BadSelector, NotFound, UsageError
from gapless.core.heights import Heights, Moment
from gapless.core.ranges import Span
from gapless.core.remedies import ChooseOne, ListHistory
from gapless.core.similar import known_names
from gapless.following.status import followed_chains
from gapless.ledger.syncs import Override, Wallet, WalletPlan
from gapless.views.wallets import (
    BalanceView,
    HistoryView,
    OverrideView,
    SearchView,
    SyncView,
    WalletDetails,
    balance_views,
    item_views,
    override_view,
    search_views,
    sync_view,
    wallet_details,
)
from gapless.wallets.categories import parse_category
from gapless.wallets.filters import Filters, history_filter
from gapless.wallets.finding import (
    FoundWallet,
    WalletChoice,
    find_wallet,
    opened_wallet,
    searches,
)
from gapless.wallets.holdings import Comparison, holdings
from gapless.wallets.parameters import ledger_url, listed, opened_ledger
from gapless.wallets.places import page_text, parse_movement, parse_page
from gapless.wallets.reading import all_syncs, sync_filter
from gapless.wallets.records import HistoryFilter, Page
from gapless.wallets.request import checked_label

ON_A_PAGE = 50


async def list_wallets(
    *,
    group: str | None = None,
    network: str | None = None,
    state: str | None = None,
    ledger: str | None = None,
) -> list[SyncView]:
    """Lists the wallets of a ledger on their networks, and how far their history is."""
    async with opened_ledger(ledger_url(load(), ledger)) as book:
        return [sync_view(it) for it in await all_syncs(book, sync_filter(group, network, state))]


async def show_wallet(
    address: str,
    *,
    group: str | None = None,
    network: str | None = None,
    rpc: str | Sequence[str] = (),
    to: str | Path | None = None,
    ledger: str | None = None,
) -> WalletDetails:
    """Tells how far the history of a wallet is, and what it holds; with `rpc`, on the chain, too.

    The address may be the label of the wallet. A sink that was given as a URL when the wallet was
    added must be given again, as `to`.
    """
    config, choice = load(), _choice(address, group, network, to)
    url = ledger_url(config, ledger)
    async with opened_ledger(url) as book:
        found = await find_wallet(book, choice)
        followed = await followed_chains(book)
    async with opened_wallet(config, found, choice.sink) as reader:
        searched = await searches(reader.store, found.syncs)
        newest = await reader.history(HistoryFilter(), Page(limit=1))
        asked = Comparison(config, url, tuple(listed(rpc)), every_network=False)
        held = await holdings(reader, asked)
        names = await reader.names([*held.balances, *(it.movement for it in newest)])
    last = next(iter(item_views(found, newest, names)), None)
    balances = _with_amount(balance_views(found, held.balances, names, held.on_chain))
    return wallet_details(found, searched, balances, last, held.known_to, followed)


async def wallet_history(
    address: str,
    *,
    group: str | None = None,
    network: str | None = None,
    limit: int = ON_A_PAGE,
    after: str | None = None,
    oldest_first: bool = False,
    to: str | Path | None = None,
    ledger: str | None = None,
    **filters: Unpack[Filters],
) -> HistoryView:
    """Returns a page of what a wallet received and sent; pass its `next` as `after` to continue."""
    if unknown := sorted(filters.keys() - Filters.__annotations__.keys()):
        raise UsageError(
            f"`wallet_history` has no option `{unknown[0]}`",
            hint=known_names(unknown[0], Filters.__annotations__),
        )
    config, choice = load(), _choice(address, group, network, to)
    place = None if after is None else parse_page(after)
    page = Page(limit=limit, after=place, newest_first=not oldest_first)
    async with opened_ledger(ledger_url(config, ledger)) as book:
        found = await find_wallet(book, choice)
    wanted = history_filter(found, filters)
    async with opened_wallet(config, found, choice.sink) as reader:
        items = await reader.history(wanted, page)
        names = await reader.names(it.movement for it in items)
    following = page_text(items[-1].place) if len(items) == limit else None
    return HistoryView(items=tuple(item_views(found, items, names)), next=following)


async def wallet_balances(
    address: str,
    *,
    group: str | None = None,
    network: str | None = None,
    at: int | str | None = None,
    rpc: str | Sequence[str] = (),
    every_token: bool = False,
    to: str | Path | None = None,
    ledger: str | None = None,
) -> list[BalanceView]:
    """Returns what a wallet holds, compared with the chain if `rpc` or the configuration has nodes.

    `at` is a block, or a day in UTC. With `every_token`, tokens of which nothing is left are
    included.
    """
    given = tuple(listed(rpc))
    text = None if at is None else str(at)
    choice = _choice(address, group, network, to)
    found = await balances_of(choice, text, given, ledger, every_token=every_token)
    return found.balances


class FoundBalances(NamedTuple):
    """What a wallet holds, and where its movements were looked for."""

    balances: list[BalanceView]
    searched: list[SearchView]


async def balances_of(
    choice: WalletChoice,
    at_text: str | None,
    rpcs: tuple[str, ...],
    ledger: str | None,
    *,
    every_token: bool,
) -> FoundBalances:
    config, at = load(), _moment(at_text)
    url = ledger_url(config, ledger)
    async with opened_ledger(url) as book:
        found = await find_wallet(book, choice)
    if len(found.chains) > 1 and isinstance(at, int):
        raise UsageError(
            "a block is of one network, and the wallet is on several", remedy=ChooseOne("network")
        )
    async with opened_wallet(config, found, choice.sink) as reader:
        searched = search_views(found.syncs, await searches(reader.store, found.syncs))
        held = await holdings(reader, Comparison(config, url, rpcs, at))
        names = await reader.names(held.balances)
    shown = balance_views(found, held.balances, names, held.on_chain)
    return FoundBalances(shown if every_token else _with_amount(shown), searched)


async def label_wallet(
    address: str,
    label: str,
    *,
    group: str | None = None,
    network: str | None = None,
    to: str | Path | None = None,
    ledger: str | None = None,
) -> list[SyncView]:
    """Names a wallet."""
    choice = _choice(address, group, network, to)
    async with opened_ledger(ledger_url(load(), ledger)) as book:
        found = await find_wallet(book, choice)
        named = Wallet(*found.key, label=checked_label(label))
        await book.add_wallets([named], lambda _: WalletPlan(), str)
        # The wallet may have been given by its former label.
        found = await find_wallet(book, _choice(found.key.address, group, network, to))
    return [sync_view(each) for each in found.syncs]


async def wallet_overrides(
    address: str,
    *,
    group: str | None = None,
    network: str | None = None,
    to: str | Path | None = None,
    ledger: str | None = None,
) -> list[OverrideView]:
    """Lists the categories of movements that were set by hand."""
    async with opened_ledger(ledger_url(load(), ledger)) as book:
        key = (await find_wallet(book, _choice(address, group, network, to))).key
        return [override_view(each) for each in await book.overrides(key.group, key.address)]


async def override_movement(
    address: str,
    movement: str,
    category: str | None,
    *,
    note: str | None = None,
    group: str | None = None,
    network: str | None = None,
    to: str | Path | None = None,
    ledger: str | None = None,
) -> list[OverrideView]:
    """Sets the category of a movement; None takes it back. Returns all that were set.

    The movement is the `id` of an entry of the history. The next sync applies it.
    """
    choice = _choice(address, group, network, to)
    async with opened_ledger(ledger_url(load(), ledger)) as book:
        found = await find_wallet(book, choice)
        key, wallet = _movement(found, movement), found.key
        place = (*key[:2], key.kind.value, *key[3:])
        if category is None:
            if not await book.remove_overrides(wallet, [place]):
                raise NotFound(
                    f"`{movement}` has no override", hint="leave it out to list those there are"
                )
        else:
            chosen = parse_category(category)
            await _refuse_unknown(found, key, movement, choice.sink)
            said = Override(
                group=wallet.group,
                address=wallet.address,
                movement=place,
                category=chosen,
                note=note,
            )
            await book.set_overrides([said])
        return [override_view(each) for each in await book.overrides(wallet.group, wallet.address)]


def _choice(
    address: str, group: str | None, network: str | None, to: str | Path | None
) -> WalletChoice:
    return WalletChoice(address, group, network, None if to is None else target_of(to))


def _with_amount(balances: Sequence[BalanceView]) -> list[BalanceView]:
    """Balances of which something is left, by the movements or by the chain."""
    return [it for it in balances if it.computed_raw != "0" or it.on_chain_raw not in (None, "0")]


def _moment(text: str | None) -> int | Moment | None:
    if text is None:
        return None
    found = Heights.parse(text)
    if found.first != found.last:
        raise BadSelector(f"`{text}` is a range", hint="give one block or day")
    return found.first


def _movement(wallet: FoundWallet, text: str) -> MovementKey:
    if len(wallet.chains) > 1:
        raise UsageError(
            "a movement is on one network, and the wallet is on several",
            remedy=ChooseOne("network"),
        )
    return parse_movement(wallet.chains[0], text)


async def _refuse_unknown(
    wallet: FoundWallet, key: MovementKey, text: str, sink: str | None
) -> None:
    """Raise `NotFound` if the wallet has no such movement: it would never have an effect."""
    async with opened_wallet(load(), wallet, sink) as reader:
        block = Span(key.block_number, key.block_number)
        found = reader.store.stream(key.chain_id, [wallet.address], block)
        if not any(it.key == key for page in [page async for page in found] for it in page):
            raise NotFound(
                f"`{wallet.key.address}` has no movement `{text}`",
                remedy=ListHistory(wallet.key.address),
            )
