"""What a person says about a movement is kept, and lets the hook of its group run once more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.core.errors import NotFound
from gapless.ledger import Ledger
from gapless.ledger.syncs import Override, WalletKey
from tests.support import Clock, finish
from tests.wallets import ALICE, BOB, Target, add

BASE = Target(network="base", chain_id=8453)
PLACE = (1, 17, "token", 3, 9, -1)
SPOOF = Override(group="own", address=ALICE, movement=PLACE, category="spoof", note="a scam")
ELSEWHERE = replace(SPOOF, movement=(8453, *PLACE[1:]))


async def drained(ledger: Ledger) -> list[str]:
    found = [hook.id for hook in await ledger.close_epochs()]
    await finish(ledger, jobs=(("balances", 1),))
    return sorted(found)


async def synced(ledger: Ledger) -> None:
    await add(ledger, ALICE, BOB, targets=[Target(), BASE])
    await finish(ledger)
    assert len(await drained(ledger)) == 2


async def test_overrides_are_listed_by_group_wallet_and_chain(ledger: Ledger, clock: Clock) -> None:
    await synced(ledger)
    other = replace(SPOOF, address=BOB, category="in", note=None)
    await ledger.set_overrides([other, ELSEWHERE, SPOOF])
    kept = [replace(each, at=clock.now) for each in (SPOOF, ELSEWHERE, other)]
    assert await ledger.overrides("own") == kept
    assert await ledger.overrides("own", ALICE) == kept[:2]
    assert await ledger.overrides("own", ALICE, 8453) == [kept[1]]
    assert await ledger.overrides("own", chain_id=1) == [kept[0], kept[2]]
    assert await ledger.overrides("other") == []


async def test_the_last_word_counts(ledger: Ledger, clock: Clock) -> None:
    await synced(ledger)
    await ledger.set_overrides([SPOOF])
    clock.now += 5
    corrected = replace(SPOOF, category="in", note=None)
    await ledger.set_overrides([SPOOF, corrected])
    assert await ledger.overrides("own") == [replace(corrected, at=clock.now)]


async def test_the_hook_of_the_group_and_chain_runs_once_more(ledger: Ledger) -> None:
    await synced(ledger)
    await ledger.set_overrides([SPOOF])
    assert await drained(ledger) == ["drained-wallets-own-1-sink-1-2"]
    assert await drained(ledger) == []
    assert await ledger.remove_overrides(WalletKey("own", ALICE), [PLACE]) == 1
    assert await drained(ledger) == ["drained-wallets-own-1-sink-1-3"]
    assert await ledger.remove_overrides(WalletKey("own", ALICE), [PLACE]) == 0
    assert await drained(ledger) == []


async def test_overrides_that_are_set_one_by_one_share_an_epoch(
    ledger: Ledger, clock: Clock
) -> None:
    await add(ledger, ALICE, quiet_seconds=30.0)
    await finish(ledger)
    clock.now += 30
    assert len(await drained(ledger)) == 1
    for position in range(3):
        clock.now += 20
        await ledger.set_overrides([replace(SPOOF, movement=(*PLACE[:5], position))])
        assert await drained(ledger) == []
    clock.now += 30
    assert len(await drained(ledger)) == 1


async def test_the_wallet_must_be_known(ledger: Ledger) -> None:
    await add(ledger, BOB)
    with pytest.raises(NotFound, match=f"no wallet `{ALICE}` in the group `own`"):
        await ledger.set_overrides([replace(SPOOF, address=BOB), SPOOF])
    assert await ledger.overrides("own") == []


async def test_overrides_survive_the_removal_of_their_wallet(ledger: Ledger) -> None:
    await synced(ledger)
    await ledger.set_overrides([SPOOF, replace(SPOOF, address=BOB)])
    await ledger.remove_wallets([WalletKey("own", ALICE)])
    assert len(await ledger.overrides("own")) == 2
    await ledger.remove_wallets([WalletKey("own", BOB)], with_overrides=True)
    assert [each.address for each in await ledger.overrides("own")] == [ALICE]
