"""New blocks change the history and the balances of wallets in their own transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import gapless
from gapless.chains.opening import open_sink
from gapless.config import load
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode
from gapless.following import follower, service
from gapless.following.spec import FollowSpec
from gapless.ledger import open_ledger
from gapless.runtime.engine import Engine
from gapless.sinks import Access
from gapless.wallets.finding import WalletChoice, find_wallet, opened_wallet
from gapless.wallets.holdings import holdings
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    HEAD,
    LAST,
    WALLETS,
    amounts,
    balances,
    history,
    tokens_only,
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


@BOTH
async def test_the_known_end_does_not_jump_over_blocks_that_a_follow_has_not_stored(
    add: Add, node: DevNode, chain: Chain, ledger: str, target: str
) -> None:
    """Whatever is stored when somebody looks, complete balances are those of their block."""
    await add(*OWN, scan=True)
    async with Engine(ledger, slots=gapless.FOLLOW_SLOTS) as engine:
        start = LAST + 1
        async with gapless.follow(engine, "custom", rpc=node.url, to=target, start=start) as handle:
            while (await _checked(ledger, target, chain, OWN[:3])) < HEAD:
                assert (await handle.status()).phase != "stopped"
    assert await _checked(ledger, target, chain, OWN) == HEAD


@BOTH
@pytest.mark.parametrize(
    "options",
    [{"start": 180}, {"start": LAST + 1, "datasets": "blocks,transactions"}],
    ids=["hole", "datasets"],
)
async def test_a_follow_that_lacks_blocks_or_tables_does_not_extend_a_history(
    add: Add, node: DevNode, chain: Chain, ledger: str, target: str, options: dict[str, Any]
) -> None:
    await add(*OWN, scan=True)
    async with Engine(ledger, slots=gapless.FOLLOW_SLOTS) as engine:
        following = gapless.follow(engine, "custom", rpc=node.url, to=target, **options)
        async with following as handle:

            async def has_stored_the_head() -> bool:
                return (await handle.status()).stored == HEAD

            await eventually(has_stored_the_head)
            assert await _checked(ledger, target, chain, OWN) == LAST


@BOTH
async def test_a_fetch_extends_a_history_up_to_the_first_hole(
    add: Add, fetch: Add, chain: Chain, ledger: str, target: str
) -> None:
    await add(*OWN)
    await fetch("180:190", confirmations=0)
    assert await _checked(ledger, target, chain, OWN) == LAST
    await fetch(f"{LAST + 1}:160", confirmations=0)
    assert await _checked(ledger, target, chain, OWN) == 160
    await fetch(f"{LAST + 1}:{HEAD}", confirmations=0)
    assert await _checked(ledger, target, chain, OWN) == HEAD


@BOTH
async def test_blocks_are_watched_whose_tables_are_written_one_after_the_other(
    add: Add, fetch: Add, chain: Chain, ledger: str, target: str
) -> None:
    """A batch may have the last table of some of its blocks only."""
    await add(*OWN, scan=True)
    await fetch(f"{LAST + 1}:160", confirmations=0, datasets="blocks,transactions,logs")
    await fetch(f"{LAST + 1}:{HEAD}", confirmations=0, datasets="blocks,withdrawals")
    assert await _checked(ledger, target, chain, OWN) == 160
    await fetch(f"{LAST + 1}:{HEAD}", confirmations=0)
    assert await _checked(ledger, target, chain, OWN) == HEAD


async def _checked(ledger: str, target: str, chain: Chain, wallets: Sequence[str]) -> int:
    """The block up to which wallets are known; what is shown of them must be true there."""
    ends = set[int]()
    for address in wallets:
        book = await open_ledger(ledger, create=False)
        found = await find_wallet(book, WalletChoice(address))
        await book.close()
        async with opened_wallet(load({}), found, target) as reader:
            held = await holdings(reader)
        at = held.known_to[1337]
        assert all(it.as_of == at for it in held.balances)
        assert all(it.is_complete for it in held.balances if it.token)
        shown, wanted = amounts(held.balances), truth(chain, at, [address])
        if not all(it.is_complete for it in held.balances):
            shown, wanted = tokens_only(shown), tokens_only(wanted)
        assert shown == wanted, (address, at)
        ends.add(at)
    return min(ends)
