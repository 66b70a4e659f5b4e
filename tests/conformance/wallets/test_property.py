"""Whatever is stored, asked for, and in which order: sums are what the chain shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import gapless
from gapless.devnode import DevNode, simulated
from gapless.devnode.evm.drafts import World
from gapless.ledger import open_ledger
from tests.conformance.wallets.stage import PARAMETERS, amounts, balances, truth

HEAD = 120


@pytest.mark.parametrize("seed", range(4))
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
    assert amounts(await balances(target)) == truth(chain, HEAD, wallets)
    book = await open_ledger(ledger)
    assert await book.check() == []
    await book.close()
