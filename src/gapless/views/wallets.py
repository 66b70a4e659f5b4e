"""Wallets: `wallet ls`, `wallet show`, `wallet history` and `wallet balances`.

Amounts are exact. Each is shown twice, both times as text: as a decimal number, and in the smallest
unit of its token. JSON readers round numbers of that size. What contracts say about themselves is
shortened and escaped, see `wallets.history`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from msgspec import Struct, field

from gapless.chains import network_name
from gapless.chains.movements import MovementKey, MovementKind
from gapless.core.redaction import redact
from gapless.ledger.records import ChunkCounts
from gapless.ledger.syncs import Override, Sync, SyncState, WalletKey
from gapless.views.moments import utc, utc_or_none
from gapless.wallets.balances import Reconciled
from gapless.wallets.categories import Category, Flag
from gapless.wallets.finding import FoundWallet, Searched, network_of
from gapless.wallets.history import DisplayNames, decimal
from gapless.wallets.places import movement_text
from gapless.wallets.preview import PassPreview
from gapless.wallets.records import Balance, HistoryItem


class SyncView(Struct, frozen=True, kw_only=True):
    """A wallet on a network, and how far its history is."""

    group: str
    address: str
    label: str | None
    network: str
    chain_id: int
    sink: str
    state: SyncState
    first: int = field(name="from")
    last: int = field(name="to")
    progress_pct: float
    segments: ChunkCounts
    blocks_done: int
    blocks_total: int
    last_processed_block: int | None
    attempts: int
    error_class: str | None
    error_message: str | None
    next_retry_after: datetime | None
    backfills: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


class PassView(Struct, frozen=True, kw_only=True):
    """A part of a plan to add wallets, and what it costs."""

    network: str
    chain_id: int
    addresses: tuple[str, ...]
    first: int = field(name="from")
    last: int = field(name="to")
    segments: int
    stored: int
    unstored: int
    source: str
    calls: dict[str, int]
    calls_per_change: int | None


class MatrixRow(Struct, frozen=True, kw_only=True):
    """A wallet, and the state of its sync on each network."""

    group: str
    address: str
    label: str | None
    networks: dict[str, MatrixCell]


class MatrixCell(Struct, frozen=True):
    """A sync in short."""

    state: SyncState
    progress_pct: float


class BalanceView(Struct, frozen=True, kw_only=True):
    """How much of a token a wallet holds: computed, on-chain, and the difference."""

    network: str
    chain_id: int
    symbol: str
    token: str | None
    token_id: str | None
    decimals: int
    computed: str
    computed_raw: str
    on_chain: str | None
    on_chain_raw: str | None
    unexplained: str | None
    unexplained_raw: str | None
    overdrawn: bool
    complete: bool
    as_of_block: int | None


class HistoryItemView(Struct, frozen=True, kw_only=True):
    """A movement, and what it means to the wallet."""

    id: str
    time: datetime
    network: str
    chain_id: int
    block: int
    transaction: str | None
    kind: str
    category: Category
    direction: int
    amount: str
    amount_raw: str
    symbol: str
    token: str | None
    token_id: str | None
    counterparty: str | None
    flags: tuple[Flag, ...]


class HistoryView(Struct, frozen=True, kw_only=True):
    """A page of a history. `next` continues it; None on the last page."""

    items: tuple[HistoryItemView, ...]
    next: str | None


class OverrideView(Struct, frozen=True, kw_only=True):
    """The category of a movement that a person has set."""

    movement: str
    chain_id: int
    category: str
    note: str | None
    at: datetime


class ActivityView(Struct, frozen=True, kw_only=True):
    """When something last moved."""

    time: datetime
    network: str
    block: int


class SearchView(Struct, frozen=True, kw_only=True):
    """Blocks that were searched for a wallet: where, and what is proven of that."""

    network: str
    source: str
    blocks: int
    proven: tuple[str, ...]
    unproven: tuple[str, ...]


class WalletDetails(Struct, frozen=True, kw_only=True):
    """A wallet: how far its history is, what it holds, and when something last moved."""

    group: str
    address: str
    label: str | None
    syncs: tuple[SyncView, ...]
    searched: tuple[SearchView, ...]
    known_to: dict[str, int]
    followed_to: dict[str, int]
    balances: tuple[BalanceView, ...]
    last_activity: ActivityView | None


def sync_view(sync: Sync) -> SyncView:
    progress, trouble = sync.progress, sync.progress.trouble
    return SyncView(
        group=sync.key.group,
        address=sync.key.address,
        label=sync.label,
        network=shown_network(sync),
        chain_id=sync.key.chain_id,
        sink=redact(sync.sink),
        state=sync.state,
        first=sync.heights.first,
        last=sync.heights.last,
        progress_pct=progress.segments_pct,
        segments=progress.segments,
        blocks_done=progress.done,
        blocks_total=progress.total,
        last_processed_block=progress.processed_to,
        attempts=0 if trouble is None else trouble.attempts,
        error_class=None if trouble is None else trouble.error_class,
        error_message=None if trouble is None else redact(trouble.error_message),
        next_retry_after=utc_or_none(progress.next_retry_at),
        backfills=sync.passes,
        created_at=utc(sync.created_at),
        updated_at=utc(sync.updated_at),
    )


def shown_network(sync: Sync) -> str:
    """The name of its network; an unlisted chain is named by its id."""
    return network_name(network_of(sync))


def pass_view(found: PassPreview) -> PassView:
    wanted, chain = found.planned, found.chain
    network = replace(chain.wallets.network, chain_id=chain.chain_id)
    return PassView(
        network=network_name(network),
        chain_id=chain.chain_id,
        addresses=wanted.addresses.addresses,
        first=wanted.heights.first,
        last=wanted.heights.last,
        segments=wanted.backfill.chunk_total,
        stored=found.stored,
        unstored=found.unstored,
        source=found.source,
        calls=found.calls,
        calls_per_change=found.calls_per_change,
    )


def matrix_row(key: WalletKey, syncs: Mapping[str, Sync]) -> MatrixRow:
    return MatrixRow(
        group=key.group,
        address=key.address,
        label=next((each.label for each in syncs.values()), None),
        networks={
            shown_network(each): MatrixCell(each.state, each.progress.segments_pct)
            for each in syncs.values()
        },
    )


OnChain = Mapping[tuple[int, bytes, int | None], int | None]
"""What nodes report, by chain, token and token id."""


def balance_views(
    wallet: FoundWallet,
    balances: Iterable[Balance],
    names: Mapping[int, DisplayNames],
    on_chain: OnChain = MappingProxyType({}),
) -> list[BalanceView]:
    return [
        balance_view(
            each,
            wallet.network_name(each.chain_id),
            names[each.chain_id],
            on_chain.get((each.chain_id, each.token, each.token_id)),
        )
        for each in balances
    ]


def balance_view(
    balance: Balance, network: str, names: DisplayNames, on_chain: int | None = None
) -> BalanceView:
    decimals = names.decimals(balance)
    found = Reconciled(balance.amount, on_chain)

    def both(amount: int | None) -> tuple[str | None, str | None]:
        return (None, None) if amount is None else (decimal(amount, decimals), str(amount))

    on_chain_text, on_chain_raw = both(on_chain)
    unexplained, unexplained_raw = both(found.unexplained)
    return BalanceView(
        network=network,
        chain_id=balance.chain_id,
        symbol=names.symbol(balance),
        token=names.token(balance) or None,
        token_id=None if balance.token_id is None else str(balance.token_id),
        decimals=decimals,
        computed=decimal(balance.amount, decimals),
        computed_raw=str(balance.amount),
        on_chain=on_chain_text,
        on_chain_raw=on_chain_raw,
        unexplained=unexplained,
        unexplained_raw=unexplained_raw,
        overdrawn=balance.amount < 0,
        complete=balance.is_complete,
        as_of_block=balance.as_of if balance.as_of >= 0 else None,
    )


def item_views(
    wallet: FoundWallet, items: Iterable[HistoryItem], names: Mapping[int, DisplayNames]
) -> list[HistoryItemView]:
    found = ((each, each.movement.chain_id) for each in items)
    return [
        item_view(each, wallet.network_name(chain_id), names[chain_id]) for each, chain_id in found
    ]


def item_view(item: HistoryItem, network: str, names: DisplayNames) -> HistoryItemView:
    movement, line = item.movement, names.line(*item)
    return HistoryItemView(
        id=movement_text(movement.key),
        time=line.time,
        network=network,
        chain_id=movement.chain_id,
        block=line.block_number,
        transaction=line.transaction or None,
        kind=line.kind.value,
        category=line.category,
        direction=line.direction,
        amount=line.amount,
        amount_raw=str(movement.amount),
        symbol=line.symbol,
        token=line.token or None,
        token_id=None if line.token_id is None else str(line.token_id),
        counterparty=line.counterparty or None,
        flags=line.flags,
    )


def override_view(override: Override) -> OverrideView:
    chain_id, block, kind, *positions = override.movement
    key = MovementKey(chain_id, block, MovementKind(kind), *positions)
    return OverrideView(
        movement=movement_text(key),
        chain_id=chain_id,
        category=override.category,
        note=override.note,
        at=utc(override.at),
    )


def search_views(syncs: Iterable[Sync], searched: Iterable[Searched]) -> list[SearchView]:
    names = {each.key.chain_id: shown_network(each) for each in syncs}
    return [
        SearchView(
            network=names[each.chain_id],
            source=each.source,
            blocks=each.blocks,
            proven=tuple(sorted(each.proven)),
            unproven=tuple(sorted(each.unproven)),
        )
        for each in searched
    ]


def wallet_details(
    wallet: FoundWallet,
    searched: Iterable[Searched],
    balances: Sequence[BalanceView],
    last: HistoryItemView | None,
    known_to: Mapping[int, int],
    followed: Container[tuple[int, str]],
) -> WalletDetails:
    """What is known of a wallet, with the known end on each chain.

    `followed` has the chain and the sink of each follow. One that has stored nothing that continues
    the history does not count.
    """
    known = {wallet.network_name(chain_id): end for chain_id, end in known_to.items()}
    followed_on = {
        shown_network(each)
        for each in wallet.syncs
        if (each.key.chain_id, each.key.sink_id) in followed
        and known_to.get(each.key.chain_id, -1) > each.heights.last
    }
    activity = None
    if last is not None:
        activity = ActivityView(time=last.time, network=last.network, block=last.block)
    return WalletDetails(
        group=wallet.key.group,
        address=wallet.key.address,
        label=wallet.syncs[0].label,
        syncs=tuple(map(sync_view, wallet.syncs)),
        searched=tuple(search_views(wallet.syncs, searched)),
        known_to=known,
        followed_to={name: end for name, end in known.items() if name in followed_on},
        balances=tuple(balances),
        last_activity=activity,
    )
