"""Removing wallets cancels what nobody else needs, and leaves everything else."""

from __future__ import annotations

import asyncio

import pytest

from gapless.core.errors import NotFound
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.syncs import WalletKey
from tests.support import claim, fail, finish, state
from tests.wallets import ALICE, BOB, add, states, sync_of


async def test_concurrent_adding_and_removing_leaves_whole_syncs(
    ledger: Ledger, other: Ledger
) -> None:
    await add(ledger, ALICE, BOB, retry=RetryPolicy())
    for each in await claim(ledger, 4):
        await fail(ledger, each, permanent=True)
    (pass_id,) = (await sync_of(ledger, ALICE)).passes
    results = await asyncio.gather(
        add(ledger, ALICE),
        other.remove_wallets([WalletKey("own", ALICE)]),
        ledger.retry_dead(pass_id, "by hand", [0]),  # unless it is too late
        add(other, BOB),
        return_exceptions=True,
    )
    for result in (results[0], results[1], results[3]):
        assert not isinstance(result, BaseException), result
    assert await ledger.check() == []


async def test_removing_a_wallet_cancels_what_only_it_needed(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE, heights=(0, 99))
    await add(ledger, ALICE, BOB, heights=(0, 149))
    shared = (await sync_of(ledger, BOB)).passes
    cancelled = await ledger.remove_wallets([WalletKey("own", ALICE)])
    assert alice.passes[0] in {each.id for each in cancelled}
    assert shared[0] not in {each.id for each in cancelled}
    assert await state(ledger, alice.passes[0]) == "CANCELLED"
    assert await states(ledger) == {BOB: "PENDING"}
    assert [each.address for each in await ledger.wallets()] == [BOB]


async def test_a_shared_pass_goes_on_until_its_last_wallet_is_removed(ledger: Ledger) -> None:
    (alice, _) = await add(ledger, ALICE, BOB)
    assert await ledger.remove_wallets([WalletKey("own", ALICE)]) == []
    (cancelled,) = await ledger.remove_wallets([WalletKey("own", BOB)])
    assert (cancelled.id,) == alice.passes
    assert await ledger.syncs() == []


async def test_a_removed_wallet_can_be_added_again(ledger: Ledger) -> None:
    (before,) = await add(ledger, ALICE)
    await finish(ledger)
    assert await ledger.remove_wallets([WalletKey("own", ALICE)]) == []
    (after,) = await add(ledger, ALICE)
    assert before.passes != after.passes
    assert (after.state, after.progress.done) == ("PENDING", 0)


async def test_a_wallet_moves_by_being_added_to_the_other_group_first(ledger: Ledger) -> None:
    (here,) = await add(ledger, ALICE, label="mine")
    (there,) = await add(ledger, ALICE, group="other")
    assert here.passes != there.passes
    await ledger.remove_wallets([WalletKey("own", ALICE)])
    assert await state(ledger, here.passes[0]) == "CANCELLED"
    moved = await sync_of(ledger, ALICE)
    assert (moved.key.group, moved.label, moved.state) == ("other", None, "PENDING")


async def test_an_unknown_wallet_cannot_be_removed(ledger: Ledger) -> None:
    await add(ledger, ALICE)
    with pytest.raises(NotFound, match=f"no wallet `{BOB}` in the group `own`"):
        await ledger.remove_wallets([WalletKey("own", ALICE), WalletKey("own", BOB)])
    assert await states(ledger) == {ALICE: "PENDING"}
