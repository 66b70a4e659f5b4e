"""What a store says about wallets, and what the simulated chain says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from gapless.chains import find_network
from gapless.chains.evm.family import EVM
from gapless.chains.movements import Movement, WalletNode
from gapless.chains.opening import open_sink
from gapless.core.ranges import RangeSet
from gapless.devnode import Chain, DevNode, Parameters
from gapless.devnode.evm.accounts import Explained
from gapless.devnode.evm.contracts import REVERTING
from gapless.devnode.evm.dialect import accounts_of
from gapless.devnode.evm.drafts import World
from gapless.devnode.evm.postings import COINS, VISIBLE, Cause, PostedAsset
from gapless.providers import EndpointSpec, Pool
from gapless.sinks import Access
from gapless.wallets.reconcile import ReconciledToken
from gapless.wallets.records import Balance, HistoryItem, Page
from gapless.wallets.request import rules_of
from gapless.wallets.store import WalletStore
from gapless.wallets.store.changing import is_remainder, is_traced
from gapless.wallets.ways import Evidence, knows_coins

HEAD = 200
LAST = HEAD - 64  # the last final block
PARAMETERS = Parameters(blocks=HEAD, txs=8, fewest=0, empty_every=9, seed=7, economy=True)
SEEN = VISIBLE - {Cause.WRAPPING}  # the network of the tests has no wrapping contract
CALLS = SEEN | {Cause.CALL, Cause.WRAPPING}
WALLETS = World(PARAMETERS.seed).wallets
ALICE, BOB, CAROL = WALLETS[:3]

Amounts = dict[PostedAsset, int]


@asynccontextmanager
async def opened(target: str) -> AsyncIterator[WalletStore]:
    async with await open_sink(target, Access.READ) as sink:
        yield WalletStore.of(sink)


async def balances(target: str, group: str = "default", chain_id: int = 1337) -> list[Balance]:
    async with opened(target) as store:
        return await store.balances(group, chain_id=chain_id)


async def history(target: str, group: str = "default") -> list[HistoryItem]:
    async with opened(target) as store:
        return await store.entries(group, page=Page(limit=100_000, newest_first=False))


@asynccontextmanager
async def accounts(node: DevNode) -> AsyncIterator[WalletNode]:
    """What a node knows about accounts."""
    network = replace(find_network("custom"), chain_id=1337)
    async with Pool([EndpointSpec("node", node.url)], EVM.queries) as pool:
        yield rules_of(network).node(pool, network)


def octets(address: str) -> bytes:
    return bytes.fromhex(address[2:])


def asset_of(token: bytes, token_id: int | None) -> PostedAsset:
    return PostedAsset(f"0x{token.hex()}" if token else "", token_id)


def amounts(found: Iterable[Balance]) -> dict[str, Amounts]:
    """Balances other than 0, by address."""
    sums: dict[str, Amounts] = defaultdict(dict)
    for it in found:
        if it.amount:
            sums[f"0x{it.wallet.hex()}"][asset_of(it.token, it.token_id)] = it.amount
    return dict(sums)


def truth(chain: Chain, height: int, wallets: Iterable[str]) -> dict[str, Amounts]:
    """What blocks and receipts show of wallets, by address."""
    explained = {wallet: explanation(chain, height, wallet) for wallet in wallets}
    found = {
        wallet: {asset: it.visible for asset, it in its.items() if it.visible}
        for wallet, its in explained.items()
    }
    return {wallet: its for wallet, its in found.items() if its}


def explanation(chain: Chain, height: int, wallet: str) -> dict[PostedAsset, Explained]:
    return accounts_of(chain).at(chain, height).explained(wallet, visible=SEEN)


def tokens_only(sums: dict[str, Amounts]) -> dict[str, Amounts]:
    """What events show: all but coins."""
    found = {
        wallet: {asset: amount for asset, amount in its.items() if asset.token}
        for wallet, its in sums.items()
    }
    return {wallet: its for wallet, its in found.items() if its}


def assert_unexplained(
    found: Iterable[ReconciledToken], explained: Mapping[PostedAsset, Explained], seed: int
) -> None:
    """Compares what is unexplained with what the chain did not show.

    One contract answers nothing, so its balances are unknown, and contracts answer nothing about
    NFTs that were burnt.
    """
    silent = World(seed).tokens[REVERTING].lower()
    for it in found:
        asset = asset_of(it.token, it.token_id)
        expected = explained.get(asset, Explained(0, 0))
        is_burnt = it.token_id is not None and it.balance.on_chain is None
        if asset.token == silent or is_burnt:
            assert it.balance.on_chain is None, asset
            assert not (is_burnt and expected.balance), asset
            continue
        assert it.balance.on_chain == expected.balance, asset
        assert it.balance.unexplained == expected.hidden, asset


def assert_coins(
    chain: Chain,
    head: int,
    wallet: str,
    known: Mapping[str, RangeSet],
    moved: Sequence[Movement],
) -> Counter[str]:
    """Compares the coins of each block with what happened in it; counts the comparisons.

    `known` are the heights that were searched, by where. A remainder is exact wherever there is
    one: a scan of every block does not refute what an earlier one has found.
    """
    coins = RangeSet(
        span for source, heights in known.items() if knows_coins(source) for span in heights.spans
    )
    nowhere, checked, own = RangeSet(), Counter[str](), octets(wallet)
    sums: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for it in moved:
        kind = "traced" if is_traced(it) else "rest" if is_remainder(it) else "visible"
        change = it.amount * ((it.receiver == own) - (it.sender == own))
        sums[it.block_number][kind] += change
    before = Explained(0, 0), Explained(0, 0)
    for height in range(head + 1):
        state = accounts_of(chain).at(chain, height)
        nothing = Explained(0, 0)
        now = (
            state.explained(wallet, visible=SEEN).get(COINS, nothing),
            state.explained(wallet, visible=CALLS).get(COINS, nothing),
        )
        shown, hidden = (now[0][at] - before[0][at] for at in (0, 1))
        called = now[1].visible - before[1].visible - shown
        before, its = now, sums[height]
        if height in coins:
            checked["visible"] += 1
            assert its["visible"] == shown, (wallet, height)
        if height in known.get(Evidence.TRACES, nowhere):
            checked["traced"] += 1
            assert its["traced"] == called, (wallet, height)
        if height in known.get(Evidence.ACCOUNTS, nowhere) or its["rest"]:
            checked["rest"] += 1
            assert its["traced"] + its["rest"] == hidden, (wallet, height)
    return checked
