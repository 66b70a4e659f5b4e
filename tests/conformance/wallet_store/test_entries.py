"""Entries and balances: listed, replaced and summed."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest
from msgspec.structs import replace as with_

from gapless.chains.movements import Movement, MovementKind, TokenFacts
from gapless.core.errors import FencedOff
from gapless.core.ranges import Span
from gapless.sinks import AccompaniedSink
from gapless.wallets.records import Balance, HistoryFilter, HistoryItem, HistoryPlace, Page
from gapless.wallets.store import Settled, WalletStore
from tests.conformance.sink.stage import CHAIN_ID
from tests.conformance.wallet_store.stage import (
    ALL,
    NETWORK,
    RULES,
    WALLETS,
    entries_of,
    moved,
    scan,
)

US = WALLETS[:3]
FACTS = moved(ALL, US)


@pytest.fixture
async def filled(store: WalletStore) -> WalletStore:
    """A store with a group whose movements are interpreted."""
    await store.write(scan(0, 40), frozenset(US), FACTS)
    await store.add_members("home", NETWORK, RULES, US, 40)
    new = entries_of(FACTS, US)
    assert await store.replace_entries("home", CHAIN_ID, ALL, FACTS, new, 1)
    return store


def summed(facts: list[Movement], wallet: bytes) -> dict[tuple[bytes, int | None], int]:
    found: defaultdict[tuple[bytes, int | None], int] = defaultdict(int)
    for it in facts:
        if (it.sender == wallet) != (it.receiver == wallet):
            found[it.token, it.token_id] += it.amount if it.receiver == wallet else -it.amount
    return dict(found)


def shown(balances: list[Balance]) -> dict[tuple[bytes, int | None], int]:
    return {(it.token, it.token_id): it.amount for it in balances}


async def test_balances_are_the_sums_of_entries(filled: WalletStore) -> None:
    for wallet in US:
        assert shown(await filled.balances("home", [wallet])) == summed(FACTS, wallet)
        assert await filled.balances("home", [wallet], CHAIN_ID + 1) == []
    everything = await filled.balances("home")
    assert sum(it.entries for it in everything) == sum(
        1 for it in entries_of(FACTS, US) if it.direction
    )
    assert await filled.balances("work") == []


@pytest.mark.parametrize("height", [0, 7, 20, 40])
async def test_balances_at_a_block_are_the_sums_until_then(
    filled: WalletStore, height: int
) -> None:
    facts = [it for it in FACTS if it.block_number <= height]
    time = max((it.block_timestamp for it in facts), default=0)
    for wallet in US:
        expected = summed(facts, wallet)
        found = await filled.balances_at("home", wallet, CHAIN_ID, height=height)
        assert shown(found) == expected
        assert {it.as_of for it in found} <= {height}
        assert shown(await filled.balances_at("home", wallet, CHAIN_ID, time=time)) == expected


async def test_sums_have_any_size_and_sign(store: WalletStore) -> None:
    wallet, huge = US[0], 2**256 - 1
    sent = [it for it in FACTS if it.sender == wallet != it.receiver and it.token_id is None]
    facts = [with_(it, amount=huge, token=b"", receiver=WALLETS[5]) for it in sent]
    assert len(facts) > 3
    await store.write(scan(0, 40), frozenset({wallet}), facts)
    await store.add_members("home", NETWORK, RULES, [wallet], 40)
    assert await store.replace_entries("home", CHAIN_ID, ALL, facts, entries_of(facts, [wallet]), 1)
    (only,) = await store.balances("home")
    assert only.amount == -huge * len(facts)
    await store.retract(CHAIN_ID, ALL, 2)
    assert await store.balances("home") == []


async def test_a_new_interpretation_replaces_the_old_one(filled: WalletStore) -> None:
    span = Span(10, 20)
    facts = moved(span, US)
    before = await filled.balances("home")
    some = entries_of(facts[::2], US, "swap")
    assert await filled.replace_entries("home", CHAIN_ID, span, facts, some, 2)
    left = [it for it in FACTS if it not in facts[1::2]]
    for wallet in US:
        assert shown(await filled.balances("home", [wallet])) == summed(left, wallet)
    new = entries_of(facts, US)
    assert await filled.replace_entries("home", CHAIN_ID, span, facts, new, 2)
    assert [(it.wallet, it.token, it.amount) for it in await filled.balances("home")] == [
        (it.wallet, it.token, it.amount) for it in before
    ]


async def test_an_older_epoch_is_refused(filled: WalletStore) -> None:
    await filled.replace_entries("home", CHAIN_ID, ALL, FACTS, entries_of(FACTS, US), 5)
    before = await filled.entries("home", page=Page(1000))
    with pytest.raises(FencedOff):
        await filled.replace_entries("home", CHAIN_ID, ALL, FACTS, [], 4)
    with pytest.raises(FencedOff):
        await filled.settle("home", CHAIN_ID, {US[0]: Settled(True, 9)}, 4)
    assert await filled.entries("home", page=Page(1000)) == before


async def test_what_has_changed_meanwhile_must_be_read_again(filled: WalletStore) -> None:
    await filled.retract(CHAIN_ID, Span(30, 40), 2)
    assert not await filled.replace_entries("home", CHAIN_ID, ALL, FACTS, [], 2)
    now = moved(Span(0, 29), US)
    assert {it.entry for it in await filled.entries("home", page=Page(1000))} == {
        *entries_of(now, US)
    }
    assert await filled.replace_entries("home", CHAIN_ID, ALL, now, [], 2)


async def test_an_entry_must_be_of_a_member_that_moved_something(filled: WalletStore) -> None:
    stranger = next(it for it in entries_of(FACTS, WALLETS) if it.wallet not in US)
    idle = with_(next(it for it in entries_of(FACTS, US) if it.wallet == US[0]), wallet=US[1])
    for wrong in (stranger, idle):
        with pytest.raises(ValueError, match="not a wallet"):
            await filled.replace_entries("home", CHAIN_ID, ALL, FACTS, [wrong], 2)


async def test_settling_says_how_far_balances_go(filled: WalletStore) -> None:
    await filled.settle("home", CHAIN_ID, {US[0]: Settled(True, 40), US[1]: Settled(False, 7)}, 1)
    found = {
        (it.wallet, it.is_complete, it.as_of, it.epoch) for it in await filled.balances("home")
    }
    assert found == {(US[0], True, 40, 1), (US[1], False, 7, 1), (US[2], False, -1, 1)}


CONDITIONS = [
    HistoryFilter(),
    HistoryFilter(since=FACTS[5].block_timestamp),
    HistoryFilter(until=FACTS[-5].block_timestamp, kinds=(MovementKind.NATIVE,)),
    HistoryFilter(tokens=(b"",)),
    HistoryFilter(tokens=tuple({it.token for it in FACTS if it.token})[:2]),
    HistoryFilter(counterparties=(WALLETS[4], WALLETS[5])),
    HistoryFilter(kinds=(MovementKind.TOKEN, MovementKind.NFT), since=FACTS[3].block_timestamp),
    HistoryFilter(chains=(CHAIN_ID + 1,)),
]


def passes(it: Movement, wallet: bytes, wanted: HistoryFilter) -> bool:
    other = it.receiver if it.sender == wallet else it.sender
    return (
        (wanted.since is None or it.block_timestamp >= wanted.since)
        and (wanted.until is None or it.block_timestamp <= wanted.until)
        and (not wanted.chains or it.chain_id in wanted.chains)
        and (not wanted.tokens or it.token in wanted.tokens)
        and (not wanted.kinds or it.kind in wanted.kinds)
        and (not wanted.counterparties or other in wanted.counterparties)
    )


@pytest.mark.parametrize("newest", [True, False])
async def test_pages_have_everything_that_was_asked_for_in_order(
    filled: WalletStore, newest: bool
) -> None:
    for wanted, wallets in product(CONDITIONS, ((US[0],), US[:2], None)):
        expected = sorted(
            (
                HistoryItem(it, entry)
                for it in FACTS
                for entry in entries_of([it], US if wallets is None else wallets)
                if passes(it, entry.wallet, wanted)
            ),
            key=lambda item: item.place,
            reverse=newest,
        )
        listed: list[HistoryItem] = []
        while page := await filled.entries(
            "home", wallets, wanted, Page(30, listed[-1].place if listed else None, newest)
        ):
            listed += page
        assert listed == expected


@pytest.mark.parametrize("newest", [True, False])
async def test_pages_of_movements_need_no_entries(filled: WalletStore, newest: bool) -> None:
    for wanted, wallets in product(CONDITIONS, (US[:1], US[:2])):
        expected = sorted(
            (it for it in FACTS if any(passes(it, each, wanted) for each in parties(it, wallets))),
            key=HistoryPlace.of,
            reverse=newest,
        )
        listed: list[Movement] = []
        while page := await filled.movements(
            CHAIN_ID,
            wallets,
            wanted,
            Page(20, HistoryPlace.of(listed[-1]) if listed else None, newest),
        ):
            listed += page
        assert listed == expected


def parties(it: Movement, among: tuple[bytes, ...]) -> set[bytes]:
    return {it.sender, it.receiver} & {*among}


async def test_categories_are_a_filter_too(filled: WalletStore) -> None:
    facts = moved(Span(10, 20), US)
    await filled.replace_entries(
        "home", CHAIN_ID, Span(10, 20), facts, entries_of(facts, US, "swap"), 1
    )
    swaps = await filled.entries("home", None, HistoryFilter(categories=("swap",)), Page(1000))
    assert {it.entry for it in swaps} == {*entries_of(facts, US, "swap")}


async def test_tokens_may_say_anything(store: WalletStore) -> None:
    hostile = TokenFacts("ERC-20", "US\0DC\ud800\x1b[31m" + "x" * 5000, "\n", 2**256 - 1)
    await store.put_tokens(CHAIN_ID, {b"a" * 20: hostile, b"b" * 20: TokenFacts("TRC-10")})
    found = await store.tokens(CHAIN_ID, [b"a" * 20, b"b" * 20, b"c" * 20])
    assert found[b"b" * 20] == TokenFacts("TRC-10")
    told = found[b"a" * 20]
    assert (told.symbol or "").startswith("US\ufffdDC\ufffd\ufffd[31m")
    assert (len(told.symbol or ""), told.name, told.decimals) == (64, "\ufffd", None)
    await store.put_tokens(CHAIN_ID, {b"b" * 20: TokenFacts("TRC-10", "B", "Bee", 6)})
    assert await store.tokens(CHAIN_ID, [b"b" * 20]) == {
        b"b" * 20: TokenFacts("TRC-10", "B", "Bee", 6)
    }


async def test_people_can_read_the_views(filled: WalletStore, sink: AccompaniedSink) -> None:
    token = next(it.token for it in FACTS if it.kind is MovementKind.TOKEN)
    await filled.put_tokens(CHAIN_ID, {token: TokenFacts("ERC-20", "USDC", "Dollar", 6)})
    rows = await sink.consult(
        lambda tx: tx.execute(
            "SELECT wallet, counterparty, amount_in_units, symbol, block_time FROM {wallet_history}"
            " WHERE token = $1 ORDER BY block_number",
            f"0x{token.hex()}",
        )
    )
    expected = [it for it in FACTS if it.token == token]
    assert len(rows) == len(entries_of(expected, US))
    for wallet, _, amount, symbol, time in rows:
        assert wallet in {f"0x{it.hex()}" for it in US}
        assert symbol == "USDC"
        assert str(time).startswith("2023-11-14")
        assert any(float(amount) == pytest.approx(it.amount / 10**6) for it in expected)
    rows = await sink.consult(
        lambda tx: tx.execute("SELECT wallet, token_id, amount, entries FROM {wallet_balances}")
    )
    assert sorted((wallet, int(amount)) for wallet, _, amount, _ in rows) == sorted(
        (f"0x{it.wallet.hex()}", it.amount) for it in await filled.balances("home")
    )
