"""Scans: what they replace, what they share, and what refuses them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as with_

from gapless.chains.movements import NOBODY, Movement
from gapless.core.errors import BrokenSeam, FencedOff, SinkUnusable
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import AccompaniedSink
from gapless.wallets.records import Scan
from gapless.wallets.store import WalletStore
from tests.conformance.sink.stage import CHAIN_ID
from tests.conformance.wallet_store.stage import ALL, WALLETS, blocks, moved, scan

US, THEM = frozenset(WALLETS[:2]), frozenset(WALLETS[1:4])


async def stored(store: WalletStore, addresses: Any = WALLETS, span: Span = ALL) -> list[Movement]:
    return [it async for piece in store.stream(CHAIN_ID, addresses, span) for it in piece]


async def spans(store: WalletStore, set_: str = "one") -> list[tuple[int, int, int]]:
    return [(*it.span, it.fence) for it in await store.scans(CHAIN_ID, set_)]


async def look(store: WalletStore, about: Scan, addresses: frozenset[bytes] = US) -> None:
    """An honest scan, of the first branch unless its last block is of the other."""
    await store.write(about, addresses, moved(about.span, addresses))


async def test_what_was_found_is_stored_exactly(store: WalletStore) -> None:
    await look(store, scan(0, 40))
    found = await stored(store)
    assert sorted(found, key=lambda it: it.key) == moved(ALL, US)
    assert {it.kind for it in found} == {"native", "token", "nft"}
    assert await store.scans(CHAIN_ID, "one") == [scan(0, 40)]
    assert await store.scans(CHAIN_ID, "another") == []


async def test_an_amount_of_256_bits_is_exact(store: WalletStore) -> None:
    first, *_ = moved(ALL, US)
    large = with_(first, amount=2**256 - 1, token_id=2**256 - 1, receiver=NOBODY)
    at = first.block_number
    await store.write(scan(at, at), US, [large])
    assert await stored(store) == [large]


async def test_nothing_is_known_before_the_first_scan(store: WalletStore) -> None:
    assert await stored(store) == []
    assert await store.scans(CHAIN_ID, "one") == []
    assert await store.movements(CHAIN_ID, US) == []
    assert await store.members(CHAIN_ID) == []
    assert await store.entries("home") == []
    assert await store.balances("home") == []


async def test_the_same_scan_again_changes_nothing(store: WalletStore) -> None:
    for _ in range(3):
        await look(store, scan(5, 30))
    assert await stored(store) == await stored(store, US)
    assert await spans(store) == [(5, 30, 1)]


async def test_an_older_run_is_refused_and_told_what_is_done(store: WalletStore) -> None:
    await look(store, scan(10, 20, fence=5))
    before = await stored(store)
    with pytest.raises(FencedOff) as refusal:
        await store.write(scan(15, 30, fence=4), US, [])
    assert refusal.value.stored == RangeSet.of((15, 20))
    assert await stored(store) == before
    assert await spans(store) == [(10, 20, 5)]


async def test_an_older_run_for_another_set_is_not_refused(store: WalletStore) -> None:
    await look(store, scan(10, 20, fence=5))
    await look(store, scan(10, 20, fence=4, set_="two"), THEM)
    assert {it.key for it in await stored(store)} == {
        it.key for it in moved(Span(10, 20), US | THEM)
    }


async def test_a_retraction_refuses_older_runs_for_any_set(store: WalletStore) -> None:
    await look(store, scan(10, 20))
    await store.retract(CHAIN_ID, Span(15, 30), fence=7)
    assert await stored(store) == await stored(store, US, Span(10, 14))
    assert await spans(store) == [(10, 14, 1)]
    with pytest.raises(FencedOff) as refusal:
        await store.write(scan(30, 35, fence=6, set_="two"), THEM, [])
    assert refusal.value.stored == RangeSet()
    await look(store, scan(15, 20, fence=7))
    with pytest.raises(FencedOff):
        await store.write(scan(15, 16, fence=6, set_="two"), THEM, [])
    with pytest.raises(FencedOff):
        await store.retract(CHAIN_ID, Span(0, 15), fence=6)


async def test_the_sink_never_lowers_the_fence_of_a_retraction(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await store.retract(CHAIN_ID, Span(10, 12), fence=7)
    await sink.retract(CHAIN_ID, Span(8, 20), fence=3)
    for fence, refused in ((3, True), (6, True), (7, False)):
        if refused:
            with pytest.raises(FencedOff):
                await look(store, scan(11, 11, fence=fence))
        else:
            await look(store, scan(11, 11, fence=fence))
    with pytest.raises(FencedOff):
        await look(store, scan(8, 9, fence=2))
    await look(store, scan(8, 9, fence=3))


async def test_neighbours_are_one_scan_if_they_are_linked_and_equally_proven(
    store: WalletStore,
) -> None:
    await look(store, scan(10, 14, fence=3))
    await look(store, scan(20, 24, fence=2))
    assert await spans(store) == [(10, 14, 3), (20, 24, 2)]
    await look(store, scan(15, 19, fence=4))
    assert await spans(store) == [(10, 24, 4)]
    await look(store, scan(25, 26, fence=4, proven=()))
    await look(store, scan(8, 9, fence=4, source="stored"))
    assert await spans(store) == [(8, 9, 4), (10, 24, 4), (25, 26, 4)]


async def test_neighbours_on_two_branches_are_two_scans(store: WalletStore) -> None:
    await look(store, scan(20, 24))
    await store.write(scan(25, 27, branch=1), US, [])
    assert await spans(store) == [(20, 24, 1), (25, 27, 1)]


async def test_a_scan_that_was_cut_is_not_linked_at_the_cut(store: WalletStore) -> None:
    await look(store, scan(20, 30))
    await store.retract(CHAIN_ID, Span(25, 26), fence=1)
    await store.write(scan(25, 26, branch=1), US, [])
    assert await spans(store) == [(20, 24, 1), (25, 26, 1), (27, 30, 1)]


async def test_what_another_set_needs_stays(store: WalletStore) -> None:
    await look(store, scan(10, 30))
    await look(store, scan(10, 20, set_="two"), THEM)
    await store.write(scan(10, 30, fence=2), US, [])  # it finds nothing any more
    assert {it.key for it in await stored(store)} == {it.key for it in moved(Span(10, 20), THEM)}


async def test_what_two_sets_looked_for_stays_if_one_of_them_misses_it(store: WalletStore) -> None:
    await look(store, scan(10, 30))
    await look(store, scan(10, 30, set_="two"), THEM)
    shared = [it for it in await stored(store) if WALLETS[1] in (it.sender, it.receiver)]
    assert shared
    await store.write(scan(10, 30, fence=2), US, [])
    await store.write(scan(10, 30, fence=2, set_="two"), THEM, [])
    left = await stored(store)
    assert [it for it in left if it in shared] == shared
    await store.retract(CHAIN_ID, ALL, fence=3)
    assert await stored(store) == []


async def test_another_branch_replaces_what_all_sets_knew_of_a_block(store: WalletStore) -> None:
    await look(store, scan(18, 30))
    await look(store, scan(18, 30, set_="two"), THEM)
    found = moved(Span(25, 25), US, branch=1)
    assert found
    await store.write(scan(25, 25, fence=2, branch=1), US, found)
    there = [it for it in await stored(store) if it.block_number == 25]
    assert sorted(there, key=lambda it: it.key) == found
    assert await spans(store, "two") == [(18, 24, 1), (26, 30, 1)]


async def test_a_stored_block_refuses_movements_of_another_branch(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await sink.write(blocks(18, 26), 1)
    for about in (scan(22, 30, branch=1), scan(20, 26, branch=1), scan(27, 30, branch=1)):
        with pytest.raises(BrokenSeam):
            await store.write(about, US, moved(about.span, US, branch=1))
    assert await stored(store) == []
    await look(store, scan(18, 30))


@pytest.mark.parametrize(
    "wrong",
    [
        {"chain_id": 1},
        {"block_number": 9},
        {"sender": WALLETS[5], "receiver": NOBODY},
        {"block_hash": bytes(32)},
    ],
)
async def test_what_a_scan_cannot_have_found_is_refused(
    store: WalletStore, wrong: dict[str, Any]
) -> None:
    first, *rest = moved(Span(10, 40), US)
    with pytest.raises(ValueError, match=r"movement|scan"):
        await store.write(scan(10, 40), US, [*rest, with_(rest[0], **wrong)])
    with pytest.raises(ValueError, match="twice"):
        await store.write(scan(10, 40), US, [first, first])
    assert await stored(store) == []


async def test_a_set_never_changes(store: WalletStore) -> None:
    await look(store, scan(10, 20))
    with pytest.raises(ValueError, match="other addresses"):
        await store.write(scan(10, 20), frozenset(WALLETS[1:2]), [])
    with pytest.raises(ValueError, match="addresses"):
        await store.write(scan(10, 20), frozenset({NOBODY}), [])


async def test_chains_are_apart(store: WalletStore) -> None:
    await look(store, scan(10, 20))
    there = [with_(it, chain_id=5) for it in moved(Span(10, 20), US)]
    await store.write(with_(scan(10, 20), chain_id=5), US, there)
    await store.retract(CHAIN_ID, ALL, fence=9)
    assert await stored(store) == []
    found = [it async for piece in store.stream(5, US) for it in piece]
    assert sorted(found, key=lambda it: it.key) == there


async def test_tables_of_other_programs_are_refused(
    store: WalletStore, sink: AccompaniedSink
) -> None:
    await sink.transact(0, lambda tx: tx.execute("CREATE TABLE {tokens} (a INTEGER)"))
    with pytest.raises(SinkUnusable, match="`tokens` that Gapless did not create"):
        await look(store, scan(10, 20))


async def test_a_stream_has_every_movement_once_however_it_is_cut(
    store: WalletStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write(scan(0, 40), frozenset(WALLETS), moved(ALL))
    for streamed, window in ((1, 1), (3, 2), (1000, 7), (4, 100)):
        monkeypatch.setattr("gapless.wallets.store.store._STREAMED", streamed)
        monkeypatch.setattr("gapless.wallets.store.store._FIRST_WINDOW", window)
        for span in (ALL, Span(7, 23), Span(40, 10**9), Span(50, 60)):
            found = [it async for piece in store.stream(CHAIN_ID, US, span) for it in piece]
            assert sorted(found, key=lambda it: it.key) == moved(span, US)
            heights = [it.block_number for it in found]
            assert heights == sorted(heights)


async def test_many_addresses_are_looked_up_in_portions(
    store: WalletStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.wallets.store.bindings.AT_ONCE", 2)
    await store.write(scan(0, 40), frozenset(WALLETS), moved(ALL))
    assert len(await stored(store)) == len(moved(ALL))
