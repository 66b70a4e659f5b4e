"""The hook of a group: what it writes follows from what is stored, and older ones give way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import gapless
from gapless.chains.movements import NOBODY
from gapless.chains.opening import open_sink
from gapless.core.backfill import State
from gapless.core.errors import Unavailable
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode
from gapless.ledger import open_ledger
from gapless.ledger.syncs import Override, Sync, SyncState
from gapless.providers import Absent, Pool
from gapless.runtime.engine import Engine
from gapless.sinks import Access
from gapless.wallets import naming
from gapless.wallets.categories import Category
from gapless.wallets.functions import sync
from gapless.wallets.plan import HOOK
from gapless.wallets.request import build_wallets
from gapless.wallets.running import SilentWalletObserver
from gapless.wallets.store import WalletStore
from gapless.wallets.store.members import Settled
from tests.conformance.wallets.conftest import Add
from tests.conformance.wallets.stage import (
    ALICE,
    BOB,
    LAST,
    WALLETS,
    amounts,
    balances,
    history,
    octets,
    opened,
    truth,
)


async def test_it_gives_way_to_a_later_epoch(
    add: Add, ledger: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(ALICE)
    begin = WalletStore.begin_epoch

    async def begin_and_lose(store: WalletStore, group: str, chain_id: int) -> int:
        epoch = await begin(store, group, chain_id)
        settled = {octets(ALICE): Settled(is_complete=False, as_of=7)}
        await store.settle(group, chain_id, settled, epoch + 1000)
        return epoch

    monkeypatch.setattr(WalletStore, "begin_epoch", begin_and_lose)
    await add(ALICE, BOB)
    assert {(it.epoch, it.as_of) for it in await balances(target)} == {(1002, 7)}
    book = await open_ledger(ledger)
    hooks = [each for each in await book.backfills() if each.job == HOOK]
    await book.close()
    assert [each.state for each in hooks] == [State.SUCCEEDED] * 2


async def test_two_ledgers_may_share_a_group(
    add: Add, fetch: Add, ledger: str, target: str, tmp_path: Path, chain: Chain
) -> None:
    every = WALLETS[:20]
    ours, theirs = every[:-1], every[-1:]
    await fetch(f"0:{LAST}")
    await add(ALICE)
    syncs = await add(*ours)
    chosen = next(it for it in await history(target) if it.entry.category is Category.IN)
    key, own = chosen.movement.key, f"0x{chosen.entry.wallet.hex()}"
    (address,) = {it.key.address for it in syncs if it.key.address.lower() == own}
    override = Override(
        group="default",
        address=address,
        movement=(*key[:2], str(key.kind), *key[3:]),
        category="reward",
    )
    book = await open_ledger(ledger)
    await book.set_overrides([override])
    await book.close()
    await add(*ours)  # so its hook has run more often than that of the other ledger will
    await add(*theirs, ledger=f"sqlite:///{tmp_path}/theirs.db")
    shared = await history(target)
    assert amounts(await balances(target)) == truth(chain, LAST, every)
    await add(*every, group="alone")
    alone = await history(target, "alone")
    assert [it.movement for it in shared] == [it.movement for it in alone]
    (ours_alone,) = (it for it in shared if it not in alone)
    assert ours_alone.movement == chosen.movement
    assert ours_alone.entry.category is Category.REWARD


async def test_it_repairs_what_was_lost(add: Add, chain: Chain, ledger: str, target: str) -> None:
    await add(ALICE, scan=True)
    whole = await history(target)
    async with await open_sink(target, Access.WRITE) as sink:
        store = WalletStore.of(sink)
        facts = await store.movements(1337, [octets(ALICE)])
        middle = facts[len(facts) // 2].block_number
        span = Span(middle, middle)
        here = [it for it in facts if it.block_number == middle]
        assert await store.replace_entries("default", 1337, span, here, [], 1)
    assert len(await history(target)) < len(whole)
    await add(ALICE, BOB, scan=True)
    assert amounts(await balances(target)) == truth(chain, LAST, [ALICE, BOB])
    assert [it.movement for it in await history(target) if it.entry.wallet == octets(ALICE)] == [
        it.movement for it in whole
    ]


class Impatient(SilentWalletObserver):
    """Interrupts as soon as something is done."""

    def __init__(self) -> None:
        self._interrupted = asyncio.Event()

    @asynccontextmanager
    async def running(self, engine: Engine) -> AsyncIterator[asyncio.Event]:
        async with engine:
            yield self._interrupted

    def show(self, syncs: Sequence[Sync]) -> None:
        if any(each.progress.done for each in syncs):
            self._interrupted.set()


async def test_an_interrupted_run_is_resumed(
    add: Add, node: DevNode, chain: Chain, ledger: str, target: str
) -> None:
    request, config = build_wallets(
        gapless.config.load(),
        [ALICE],
        ["custom"],
        [node.url],
        target,
        {"scan": True, "chunk_size": 5, "batch_size": 5, "max_concurrent": 1, "rps": 60},
    )
    (stopped,) = await sync(request, config, ledger, observer=Impatient())
    assert stopped.state is not SyncState.COMPLETE
    assert 0 < stopped.progress.done < LAST
    await add(ALICE, scan=True)
    assert node.calls["eth_getBlockReceipts"] == LAST + 1
    assert amounts(await balances(target)) == truth(chain, LAST, [ALICE])


async def test_it_asks_once_what_new_tokens_are_called(
    add: Add, fetch: Add, node: DevNode, target: str
) -> None:
    await fetch(f"0:{LAST}")
    await add(ALICE)
    async with opened(target) as store:
        tokens = {it.token for it in await store.balances("default")} - {NOBODY}
        named = await store.tokens(1337, tokens)
    assert len(named) > 1
    asked = node.calls["eth_call"]
    await add(ALICE, group="again")
    unnamed = tokens - named.keys()  # whose contracts say nothing
    assert (node.calls["eth_call"] > asked) == bool(unnamed)


async def test_it_succeeds_where_no_node_says_what_tokens_are_called(
    add: Add, target: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def nobody(_: Pool) -> list[Absent]:
        raise Unavailable("no endpoint can be used")

    with monkeypatch.context() as patched:
        patched.setattr(naming, "Pool", type("Unreached", (Pool,), {"meet": nobody}))
        (synced,) = await add(ALICE)
    assert synced.state is SyncState.COMPLETE
    assert all(it.is_complete for it in await balances(target) if it.token)
    assert "tokens_unnamed" in [getattr(it, "action", None) for it in caplog.records]
    await add(ALICE, BOB)
    async with opened(target) as store:
        assert await store.tokens(1337, {it.token for it in await balances(target)})


async def test_a_history_that_starts_later_is_not_complete(
    add: Add, fetch: Add, target: str
) -> None:
    await fetch(f"0:{LAST}")
    await add(ALICE, start=30)
    assert not any(it.is_complete for it in await balances(target))
    await add(ALICE, start=0)
    assert all(it.is_complete for it in await balances(target))
