"""Whatever is stored, asked for, in which way and order: sums are what the chain shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import gapless
from gapless.chains.movements import NOBODY, Movement
from gapless.core.ranges import RangeSet
from gapless.devnode import Chain, DevNode, Limits, simulated
from gapless.devnode.evm.accounts import Explained
from gapless.devnode.evm.contracts import REVERTING
from gapless.devnode.evm.dialect import accounts_of
from gapless.devnode.evm.drafts import World
from gapless.devnode.evm.postings import COINS, Cause
from gapless.ledger import open_ledger
from gapless.wallets.reconcile import reconcile
from gapless.wallets.records import Scan
from gapless.wallets.store.changing import is_remainder, is_traced
from gapless.wallets.ways import Evidence
from tests.conformance.wallets.stage import (
    PARAMETERS,
    SEEN,
    accounts,
    amounts,
    asset_of,
    balances,
    explanation,
    octets,
    opened,
    truth,
)

HEAD = 120


@pytest.mark.parametrize(
    ("seed", "target"),
    [(0, "sqlite"), (1, "sqlite"), (2, "postgres"), (3, "postgres")],
    indirect=["target"],
)
async def test_any_chain_and_any_way(seed: int, ledger: str, target: str) -> None:
    rng = Random(seed)
    chain = simulated(replace(PARAMETERS, blocks=HEAD, seed=seed))
    wallets = rng.sample(World(seed).wallets, 24)
    async with DevNode(chain) as node:
        place: dict[str, Any] = {"rpc": node.url, "to": target, "ledger": ledger}

        async def fetch() -> None:
            first = rng.randrange(HEAD)
            heights = f"{first}:{rng.randrange(first, HEAD) + 1}"
            tables = rng.choice([None, None, "blocks", "blocks,transactions"])
            await gapless.fetch("custom", heights, confirmations=0, datasets=tables, **place)

        async def add() -> None:
            some = rng.sample(wallets, rng.randrange(1, 12))
            await gapless.add_wallets(
                some,
                "custom",
                scan=True,
                start=rng.choice([None, 0, 30]),
                confirmations=rng.randrange(40, 90),
                chunk_size=rng.randrange(5, 60),
                batch_size=rng.randrange(1, 30),
                max_concurrent=rng.randrange(1, 5),
                **place,
            )

        steps: list[Callable[[], Any]] = [fetch, add]
        for _ in range(5):
            await rng.choice(steps)()
        await gapless.add_wallets(wallets, "custom", scan=True, start=0, confirmations=10, **place)
        await gapless.fetch("custom", f"{HEAD - 30}:{HEAD}", confirmations=0, **place)
        await _check_remainders(seed, node, chain, wallets, target)
    assert amounts(await balances(target)) == truth(chain, HEAD, wallets)
    book = await open_ledger(ledger)
    assert await book.check() == []
    await book.close()


async def _check_remainders(
    seed: int, node: DevNode, chain: Chain, wallets: Sequence[str], target: str
) -> None:
    """Compares what is unexplained with what the chain did not show, for every token.

    One contract answers nothing, so its balances are unknown, and contracts answer nothing about
    NFTs that were burnt.
    """
    silent = World(seed).tokens[REVERTING].lower()
    async with opened(target) as store, accounts(node) as asked:
        for wallet in wallets:
            explained = explanation(chain, HEAD, wallet)
            found = await reconcile(store, asked, "default", octets(wallet), chain.chain_id, HEAD)
            for it in found:
                asset = asset_of(it.token, it.token_id)
                expected = explained.get(asset, Explained(0, 0))
                is_burnt = it.token_id is not None and it.balance.on_chain is None
                if asset.token == silent or is_burnt:
                    assert it.balance.on_chain is None
                    assert not (is_burnt and expected.balance)
                    continue
                assert it.balance.on_chain == expected.balance
                assert it.balance.unexplained == expected.hidden


LISTED, CHAIN = "base-goerli", 84_531
CALLS = SEEN | {Cause.CALL, Cause.WRAPPING}


@pytest.mark.parametrize("seed", [11, 15, 19])
async def test_what_remains_is_exact_in_every_block(seed: int, ledger: str, target: str) -> None:
    """Events, archives, scans, traces and stored tables, mixed in any order, for any wallets."""
    rng = Random(seed)
    chain = simulated(replace(PARAMETERS, blocks=HEAD, seed=seed, chain_id=CHAIN))
    wallets = rng.sample(World(seed).wallets, 16)
    async with (
        DevNode(chain, limits=Limits(traces=True)) as archive,
        DevNode(chain, limits=Limits(traces=True, state_blocks=5)) as pruned,
    ):
        place: dict[str, Any] = {"to": target, "ledger": ledger, "confirmations": 0}
        for at in range(6):
            url = rng.choice([archive.url, archive.url, pruned.url])
            first = rng.randrange(HEAD)
            if at and rng.random() < 0.3:
                await gapless.fetch(LISTED, f"{first}:{HEAD}", rpc=url, **place)
                continue
            way = rng.choice(["events", "events", "scan", "traces"])
            await gapless.add_wallets(
                rng.sample(wallets, rng.randrange(1, 9)),
                LISTED,
                rpc=url,
                start=rng.choice([None, 0, 30]),
                group=rng.choice(["one", "two"]),
                scan=way == "scan",
                traces=way == "traces",
                chunk_size=rng.randrange(10, 90),
                batch_size=rng.randrange(5, 40),
                max_concurrent=rng.randrange(1, 5),
                **place,
            )
    checked: Counter[str] = Counter()
    async with opened(target) as store:
        for wallet in wallets:
            scans = await store.scans_of(CHAIN, octets(wallet))
            found = [page async for page in store.stream(CHAIN, [octets(wallet)])]
            moved = [it for page in found for it in page if it.token == NOBODY]
            checked += _check(chain, wallet, scans, moved)
    assert checked.keys() == {"visible", "traced", "rest"}
    book = await open_ledger(ledger)
    assert await book.check() == []
    await book.close()


def _check(
    chain: Chain, wallet: str, scans: Sequence[Scan], moved: Sequence[Movement]
) -> Counter[str]:
    """Compares the movements of each block with what happened in it; counts the comparisons."""
    known = {
        source: RangeSet(it.span for it in scans if it.source == source)
        for source in {it.source for it in scans}
    }
    nowhere, checked, own = RangeSet(), Counter[str](), octets(wallet)
    before = Explained(0, 0), Explained(0, 0)
    for height in range(HEAD + 1):
        state = accounts_of(chain).at(chain, height)
        nothing = Explained(0, 0)
        now = (
            state.explained(wallet, visible=SEEN).get(COINS, nothing),
            state.explained(wallet, visible=CALLS).get(COINS, nothing),
        )
        shown, hidden = (now[0][at] - before[0][at] for at in (0, 1))
        called = now[1].visible - before[1].visible - shown
        before = now
        sums: Counter[str] = Counter()
        for it in moved:
            if it.block_number == height:
                kind = "traced" if is_traced(it) else "rest" if is_remainder(it) else "visible"
                sums[kind] += it.amount * ((it.receiver == own) - (it.sender == own))
        if any(height in heights for source, heights in known.items() if source != "events"):
            checked["visible"] += 1
            assert sums["visible"] == shown, (wallet, height)
        if height in known.get(Evidence.TRACES, nowhere):
            checked["traced"] += 1
            assert sums["traced"] == called, (wallet, height)
        if height in known.get(Evidence.ACCOUNTS, nowhere):
            checked["rest"] += 1
            assert sums["traced"] + sums["rest"] == hidden, (wallet, height)
    return checked
