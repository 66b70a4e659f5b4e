"""Whatever is stored, asked for, in which way and order: sums are what the chain shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import gapless
from gapless.chains.movements import NOBODY
from gapless.core.ranges import RangeSet
from gapless.devnode import DevNode, Limits, simulated
from gapless.devnode.evm.drafts import World
from gapless.ledger import open_ledger
from gapless.wallets.reconcile import reconcile
from tests.conformance.wallets.stage import (
    PARAMETERS,
    accounts,
    amounts,
    assert_coins,
    assert_unexplained,
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
        async with opened(target) as store, accounts(node) as asked:
            for wallet in wallets:
                found = await reconcile(
                    store, asked, "default", octets(wallet), chain.chain_id, HEAD
                )
                assert_unexplained(found, explanation(chain, HEAD, wallet), seed)
    assert amounts(await balances(target)) == truth(chain, HEAD, wallets)
    book = await open_ledger(ledger)
    assert await book.check() == []
    await book.close()


LISTED, CHAIN = "base-goerli", 84_531


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
            known = {
                source: RangeSet(it.span for it in scans if it.source == source)
                for source in {it.source for it in scans}
            }
            checked += assert_coins(chain, HEAD, wallet, known, moved)
    assert checked.keys() == {"visible", "traced", "rest"}
    book = await open_ledger(ledger)
    assert await book.check() == []
    await book.close()
