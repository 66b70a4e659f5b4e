"""Reads the wallets of a ledger: finds a wallet by its address, and opens the store of its history.

The ledger knows a wallet's group, networks and sink. Its movements, entries and balances are in the
sink. A sink that was given as a URL has only a redacted name in the ledger; then the reader has to
give it again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from gapless.blocks.stores import target_of
from gapless.chains import families, family_of, find_network, network_name
from gapless.chains.movements import NOBODY, Movement
from gapless.chains.network import Network
from gapless.chains.opening import open_sink
from gapless.config import Config
from gapless.core.errors import NotFound, UsageError
from gapless.core.ranges import RangeSet
from gapless.core.redaction import STRUCK, redact
from gapless.core.remedies import ChooseOne, ListWallets
from gapless.ledger import Ledger
from gapless.ledger.syncs import Sync, SyncFilter, WalletKey
from gapless.sinks import Access, Sink
from gapless.wallets.history import DisplayNames
from gapless.wallets.reading import all_wallets
from gapless.wallets.records import Balance, HistoryFilter, HistoryItem, Member, Page
from gapless.wallets.request import rules_of
from gapless.wallets.store import WalletStore
from gapless.wallets.ways import strength


@dataclass(frozen=True)
class WalletChoice:
    """Which wallet is meant; whatever is None must be clear without it."""

    address: str
    group: str | None = None
    network: str | None = None
    sink: str | None = None


@dataclass(frozen=True)
class FoundWallet:
    """A wallet of a ledger, with its syncs into one sink."""

    key: WalletKey
    syncs: tuple[Sync, ...]

    @property
    def sink(self) -> str:
        return self.syncs[0].sink

    @property
    def address(self) -> bytes:
        return rules_of(network_of(self.syncs[0])).parse_address(self.key.address)

    def network(self, chain_id: int) -> Network:
        return next(network_of(each) for each in self.syncs if each.key.chain_id == chain_id)

    def network_name(self, chain_id: int) -> str:
        return network_name(self.network(chain_id))

    @property
    def chains(self) -> tuple[int, ...]:
        return tuple(each.key.chain_id for each in self.syncs)


def network_of(sync: Sync) -> Network:
    return replace(find_network(sync.network), chain_id=sync.key.chain_id)


async def find_wallet(ledger: Ledger, choice: WalletChoice) -> FoundWallet:
    """The one wallet that is meant; raise `NotFound` or `UsageError` if it is not clear."""
    network = None if choice.network is None else find_network(choice.network)
    found: list[Sync] = []
    for address in await _addresses(ledger, choice, network):
        found += await ledger.syncs(SyncFilter(group=choice.group, address=address))
    if not found:
        inside = "" if choice.group is None else f" in the group `{choice.group}`"
        raise NotFound(f"there is no wallet `{choice.address}`{inside}", remedy=ListWallets())
    if network is not None:
        names = sorted({each.network for each in found})
        found = [each for each in found if _is_of(each, network)]
        if not found:
            raise NotFound(
                f"`{choice.address}` is not watched on `{choice.network}`, only on"
                f" {', '.join(names)}",
                remedy=ListWallets(),
            )
    _refuse_several({each.key.group for each in found}, "is in several groups", "group")
    if choice.sink is not None:
        found = [each for each in found if each.sink == redact(choice.sink)] or found
    else:
        _refuse_several({each.sink for each in found}, "is stored in several sinks", "sink")
    return FoundWallet(found[0].key.wallet, tuple(found))


async def _addresses(ledger: Ledger, choice: WalletChoice, network: Network | None) -> list[str]:
    """The address that is meant, in all its spellings; it may be given by its label."""
    try:
        return _spellings(choice.address, network)
    except UsageError:
        wallets = await all_wallets(ledger, choice.group)
        found = sorted({it.address for it in wallets if it.label == choice.address})
        if not found:
            raise
    if len(found) > 1:
        raise UsageError(
            f"{len(found):,} wallets have the label `{choice.address}`",
            hint=f"give an address, such as `{found[0]}`",
        )
    return found


def _spellings(text: str, network: Network | None) -> list[str]:
    """The address as the families write it whose address it can be."""
    if network is not None:
        rules = rules_of(network)
        return [rules.format_address(rules.parse_address(text))]
    found = []
    for family in families():
        if family.wallets is not None:
            with suppress(UsageError):
                found.append(family.wallets.format_address(family.wallets.parse_address(text)))
    if not found:
        raise UsageError(
            f"`{text}` is neither the label of a wallet nor an address of any network",
            hint="copy it again; if you also name its network, the error says what is wrong",
        )
    return found


def _is_of(sync: Sync, network: Network) -> bool:
    same_chain = network.chain_id in (None, sync.key.chain_id)
    return same_chain and family_of(network_of(sync)).name == family_of(network).name


def _refuse_several(names: Collection[str], what: str, kind: str) -> None:
    if len(names) > 1:
        listed = ", ".join(f"`{name}`" for name in sorted(names))
        raise UsageError(f"the wallet {what}: {listed}", remedy=ChooseOne(kind))


class Searched(NamedTuple):
    """How many blocks of a chain were searched for a wallet, where, and what is proven of that."""

    chain_id: int
    source: str
    proven: frozenset[str]
    unproven: frozenset[str]
    blocks: int


async def searches(store: WalletStore, syncs: Iterable[Sync]) -> list[Searched]:
    """Where the blocks of some syncs were searched.

    Blocks that several share count once, and of several searches for a wallet that which found
    most.
    """
    found: dict[tuple[int, str, frozenset[str], frozenset[str]], RangeSet] = {}
    for sync in syncs:
        chain_id, left = sync.key.chain_id, RangeSet.of(sync.heights)
        address = rules_of(network_of(sync)).parse_address(sync.key.address)
        scans = await store.scans_of(chain_id, address)
        for scan in sorted(scans, key=lambda it: strength(it.source), reverse=True):
            kind = (chain_id, scan.source, scan.proven, scan.unproven)
            heights = RangeSet.of(scan.span) & left
            left -= heights
            found[kind] = found.get(kind, RangeSet()) | heights
    return [Searched(*kind, len(heights)) for kind, heights in found.items() if heights]


@dataclass(frozen=True)
class WalletReader:
    """A wallet, and the open sink with its history."""

    wallet: FoundWallet
    sink: Sink
    store: WalletStore

    async def members(self) -> dict[int, Member]:
        """How far the balances of the wallet go, by chain."""
        group, address = self.wallet.key.group, self.wallet.address
        return {
            each.chain_id: each
            for chain_id in self.wallet.chains
            for each in await self.store.members(chain_id, group, address)
        }

    async def history(self, wanted: HistoryFilter, page: Page) -> list[HistoryItem]:
        chosen = replace(wanted, chains=wanted.chains or self.wallet.chains)
        return await self.store.entries(self.wallet.key.group, [self.wallet.address], chosen, page)

    async def balances(self) -> list[Balance]:
        found = await self.store.balances(self.wallet.key.group, [self.wallet.address])
        return [each for each in found if each.chain_id in self.wallet.chains]

    async def names(self, held: Iterable[Balance | Movement]) -> dict[int, DisplayNames]:
        """How networks and tokens are written, by chain; one query for each chain."""
        tokens: dict[int, set[bytes]] = {chain_id: set() for chain_id in self.wallet.chains}
        for each in held:
            tokens[each.chain_id].add(each.token)
        found = {}
        for chain_id, wanted in tokens.items():
            network = self.wallet.network(chain_id)
            rules = rules_of(network)
            facts = await self.store.tokens(chain_id, wanted - {NOBODY})
            found[chain_id] = DisplayNames(
                rules.coin(network), facts, rules.format_address, rules.format_hash
            )
        return found


@asynccontextmanager
async def opened_wallet(
    config: Config, found: FoundWallet, sink: str | None = None
) -> AsyncIterator[WalletReader]:
    """The sink of a wallet, open for reading; `sink` is given if the ledger has no URL of it."""
    target = resolved_sink(config, sink or found.sink)
    async with await open_sink(target, Access.READ) as opened:
        yield WalletReader(found, opened, WalletStore.of(opened))


@asynccontextmanager
async def opened_wallets(config: Config, target: str) -> AsyncIterator[WalletStore]:
    """The wallets of a sink, open for reading."""
    async with await open_sink(resolved_sink(config, target), Access.READ) as opened:
        yield WalletStore.of(opened)


def resolved_sink(config: Config, target: str) -> str:
    """The location of a sink; raise `UsageError` if its URL is known to nobody."""
    if STRUCK in target and target not in config.sinks:
        raise UsageError(
            f"the ledger does not store the URL of the sink `{target}`", remedy=ChooseOne("sink")
        )
    return target_of(config, target)


def wallets_of(syncs: Sequence[Sync]) -> dict[WalletKey, dict[str, Sync]]:
    """Syncs as a matrix: of each wallet, its sync on each network; of several, the least done."""
    found: dict[WalletKey, dict[str, Sync]] = {}
    for each in syncs:
        row = found.setdefault(each.key.wallet, {})
        known = row.get(each.network)
        if known is None or each.progress.heights_pct < known.progress.heights_pct:
            row[each.network] = each
    return found
