"""What was learned about endpoints is kept by network and name; the latest report wins."""

from __future__ import annotations

import asyncio

from gapless.ledger import Ledger
from tests.support import Clock, Home

PROFILE = {"batch_calls": 100, "earliest_block": None, "methods": {"eth_getLogs": {"range": 2000}}}


async def test_profiles_are_returned_by_name(ledger: Ledger, other: Ledger) -> None:
    assert await ledger.profiles("ethereum") == {}
    await ledger.keep_profiles("ethereum", {"alchemy": PROFILE, "own node": {}})
    await ledger.keep_profiles("base", {"alchemy": {"batch_calls": 7}})
    assert await other.profiles("ethereum") == {"alchemy": PROFILE, "own node": {}}
    assert await other.profiles("base") == {"alchemy": {"batch_calls": 7}}


async def test_a_profile_is_replaced_and_the_others_stay(
    ledger: Ledger, home: Home, clock: Clock
) -> None:
    await ledger.keep_profiles("ethereum", {"a": {"n": 1}, "b": {"n": 1}})
    clock.now += 5
    await ledger.keep_profiles("ethereum", {"b": {"n": 2}})
    assert await ledger.profiles("ethereum") == {"a": {"n": 1}, "b": {"n": 2}}
    rows = await home.run("SELECT name, updated_at FROM endpoints ORDER BY name")
    assert rows == [("a", clock.now - 5), ("b", clock.now)]


async def test_nothing_learned_means_nothing_stored(ledger: Ledger) -> None:
    await ledger.keep_profiles("ethereum", {})
    assert await ledger.profiles("ethereum") == {}


async def test_writers_in_any_order_do_not_block_each_other(ledger: Ledger, other: Ledger) -> None:
    names = [f"endpoint {n}" for n in range(20)]
    await asyncio.gather(
        *(
            each.keep_profiles("ethereum", {name: {"n": 1} for name in order})
            for _ in range(10)
            for each, order in ((ledger, names), (other, names[::-1]))
        )
    )
    assert set(await ledger.profiles("ethereum")) == set(names)
