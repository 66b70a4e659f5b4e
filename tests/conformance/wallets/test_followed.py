"""New blocks change the history and the balances of wallets in their own transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gapless
from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode
from gapless.following import follower, service
from gapless.following.spec import FollowSpec
from gapless.runtime.engine import Engine
from gapless.sinks import Access
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    HEAD,
    LAST,
    WALLETS,
    amounts,
    balances,
    history,
    truth,
)
from tests.waiting import eventually

BOTH = pytest.mark.parametrize("target", ["sqlite", "postgres"], indirect=True)
OWN = WALLETS[:30]


@BOTH
async def test_blocks_above_the_plan_are_watched(
    add: Add, fetch: Add, chain: Chain, target: str
) -> None:
    await fetch(f"0:{LAST}")
    await add(*OWN)
    planned = await history(target)
    await fetch(f"{LAST + 1}:{HEAD}", confirmations=0, chunk_size=20, batch_size=7)
    followed = await history(target)
    assert followed[: len(planned)] == planned
    assert len(followed) > len(planned)
    assert amounts(await balances(target)) == truth(chain, HEAD, OWN)
    await add(*OWN, confirmations=0)
    assert await history(target) == followed, "the hook classifies as a followed block does"


async def test_blocks_that_were_stored_before_are_not_missed(
    add: Add, fetch: Add, node: DevNode, chain: Chain, target: str
) -> None:
    await fetch(f"0:{HEAD}", confirmations=0)
    before = node.calls["eth_getBlockReceipts"]
    await add(*OWN)
    assert node.calls["eth_getBlockReceipts"] == before
    assert amounts(await balances(target)) == truth(chain, HEAD, OWN)


async def test_retracted_blocks_take_their_entries_along(
    add: Add, fetch: Add, chain: Chain, target: str
) -> None:
    await fetch(f"0:{HEAD}", confirmations=0)
    await add(*OWN)
    async with await open_sink(target, Access.WRITE) as sink:
        await sink.retract(1337, Span(LAST + 11, HEAD), await sink.highest_fence())
    assert amounts(await balances(target)) == truth(chain, LAST + 10, OWN)
    await fetch(f"0:{HEAD}", confirmations=0)
    assert amounts(await balances(target)) == truth(chain, HEAD, OWN)


async def test_blocks_below_the_end_of_a_pass_may_leave_the_chain(
    add: Add, fetch: Add, chain: Chain, target: str
) -> None:
    """A sink may hold blocks of a branch that its follow has not retracted yet."""
    await fetch(f"0:{HEAD}", confirmations=0)
    await add(*OWN)
    lost = Span(LAST - 40, LAST - 20)
    async with await open_sink(target, Access.WRITE) as sink:
        await sink.retract(1337, lost, await sink.highest_fence())
    assert amounts(await balances(target)) != truth(chain, HEAD, OWN)
    await add(*OWN, confirmations=10)  # which plans later blocks only
    assert not any(each.is_complete for each in await balances(target))
    await fetch(f"0:{HEAD}", confirmations=0)
    assert amounts(await balances(target)) == truth(chain, HEAD, OWN)
    await add(*OWN, confirmations=0)
    assert all(each.is_complete for each in await balances(target))


async def test_a_follower_keeps_wallets_in_step_through_reorganisations(
    add: Add,
    node: DevNode,
    chain: Chain,
    ledger: str,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower, "_SOON", 0.1)
    monkeypatch.setattr(FollowSpec, "poll_seconds", 0.1)
    monkeypatch.setattr(service, "_LOOK_EVERY", 0.2)
    await add(*OWN, scan=True)
    async with Engine(ledger, slots=gapless.FOLLOW_SLOTS) as engine:
        following = gapless.follow(engine, "custom", rpc=node.url, to=target, start=LAST + 1)
        async with following:
            await eventually(_holds(target, chain, HEAD))
            node.advance(3)
            await eventually(_holds(target, chain, HEAD + 3))
            node.reorg(12, length=14)
            await eventually(_holds(target, chain, HEAD + 5))
    entries = await history(target)
    await add(*OWN, scan=True)
    assert await history(target) == entries


def _holds(target: str, chain: Chain, height: int) -> Callable[[], Any]:
    async def holds() -> bool:
        return amounts(await balances(target)) == truth(chain, height, OWN)

    return holds
