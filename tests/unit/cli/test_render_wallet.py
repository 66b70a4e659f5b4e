"""What is said about wallets: exact, in one line each, and never what is not known."""

from __future__ import annotations

import csv
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.movements import NOBODY, Coin, MovementKey, MovementKind, TokenFacts
from gapless.cli import render_wallet
from gapless.cli.suggestions import Commands
from gapless.core.errors import UsageError
from gapless.core.ranges import Span
from gapless.ledger.records import ChunkCounts
from gapless.ledger.syncs import Sync, SyncKey, SyncProgress, SyncState, Trouble
from gapless.views.wallets import (
    BalanceView,
    PassView,
    SearchView,
    WalletDetails,
    balance_view,
    item_view,
    sync_view,
)
from gapless.wallets.categories import Category, WalletEntry
from gapless.wallets.history import LONGEST_SYMBOL, DisplayNames
from gapless.wallets.places import movement_text, page_text, parse_movement, parse_page
from gapless.wallets.records import Balance, HistoryItem, HistoryPlace
from tests.unit.wallets.moves import ANN, GOLD, SHOP, hexed, token

NAMES = DisplayNames(Coin("ETH", 18), {GOLD: TokenFacts("ERC-20", "GLD", "Gold", 6)}, hexed, hexed)
NOW = 1_700_000_000.0
WALLET = "0x" + "aa" * 20


def sync(
    state: SyncState = SyncState.COMPLETE, done: int = 100, trouble: Trouble | None = None
) -> Sync:
    progress = SyncProgress(
        state=state,
        segments=ChunkCounts(10, 10, 10 - done // 10, 0, done // 10, 0, 0, 0),
        done=done,
        total=100,
        processed_to=99 + done if done else None,
        trouble=trouble,
        failed_runs=0,
        next_retry_at=NOW + 60 if trouble else None,
        changed_at=NOW,
    )
    return Sync(
        key=SyncKey("own", WALLET, 1, "sink"),
        label=None,
        network="ethereum",
        sink="w.db",
        heights=Span(100, 199),
        passes=("bf_1",),
        progress=progress,
        created_at=NOW,
        updated_at=NOW,
    )


def balance(amount: int, on_chain: int | None = None, **more: Any) -> BalanceView:
    values = {"token": NOBODY, "token_id": None, "entries": 1, "as_of": 199, "is_complete": True}
    held = Balance(group="own", wallet=ANN, chain_id=1, amount=amount, **(values | more))
    return balance_view(held, "ethereum", NAMES, on_chain)


def details(**more: Any) -> WalletDetails:
    values: dict[str, Any] = {
        "group": "own",
        "address": WALLET,
        "label": None,
        "syncs": (sync_view(sync()),),
        "searched": (),
        "known_to": {},
        "followed_to": {},
        "balances": (),
        "last_activity": None,
    }
    return WalletDetails(**(values | more))


@given(st.integers(-(2**256), 2**256), st.none() | st.integers(0, 2**256))
def test_what_is_computed_and_unexplained_is_what_is_on_chain(
    amount: int, on_chain: int | None
) -> None:
    shown = balance(amount, on_chain)
    assert shown.computed_raw == str(amount)
    assert shown.overdrawn == (amount < 0)
    if on_chain is None:
        assert (shown.on_chain, shown.unexplained, shown.unexplained_raw) == (None, None, None)
    else:
        assert shown.unexplained_raw is not None
        assert int(shown.computed_raw) + int(shown.unexplained_raw) == on_chain


def test_a_balance_that_nobody_compared_is_unknown() -> None:
    rows = render_wallet.balance_table([balance(10**18), balance(5, 7)]).splitlines()
    assert rows[1].split() == ["ethereum", "ETH", "1", "unknown", "unknown", "199"]
    head, row = render_wallet.balance_table([balance(10**18)]).splitlines()
    assert "on-chain" not in head, "if nothing was compared"
    assert row.split() == ["ethereum", "ETH", "1", "199"]
    _, row = render_wallet.balance_table([balance(10**18)], is_asked=True).splitlines()
    assert row.split() == ["ethereum", "ETH", "1", "unknown", "unknown", "199"]
    _, row = render_wallet.balance_table([balance(5, 7, is_complete=False)]).splitlines()
    assert row.endswith("0.000000000000000002  199, incomplete")


@pytest.mark.parametrize(
    ("balances", "source", "said"),
    [
        ([balance(1, 1)], "tables", None),
        ([balance(1)], "tables", "1 balance not compared with the chain"),
        ([balance(1, 2), balance(1, 1)], "blocks", "1 balance with an unexplained part (ETH): "),
        ([balance(1, 1)], "events", "coins that moved without an event were not looked for"),
    ],
)
def test_what_remains_unknown_is_said(
    balances: list[BalanceView], source: str, said: str | None
) -> None:
    searched = SearchView(network="ethereum", source=source, blocks=1, proven=(), unproven=())
    found = render_wallet.what_is_unknown(balances, [searched])
    assert found is None if said is None else (found or "").startswith(said)


def test_the_sources_of_a_history_are_named_with_their_proofs() -> None:
    one = SearchView(
        network="ethereum", source="tables", blocks=1, proven=("header_hash",), unproven=("bloom",)
    )
    two = SearchView(network="ethereum", source="events", blocks=2, proven=("agreed",), unproven=())
    first, second = render_wallet.searches([one, two])
    assert first == "ethereum: 1 block from stored tables (proven: header_hash; unproven: bloom)"
    assert second.startswith("ethereum: 2 blocks from events by address; coins that moved without")
    assert second.endswith("were not looked for (proven: agreed)")


def test_trouble_is_shown_with_its_retry_and_without_secrets() -> None:
    trouble = Trouble(3, "Unavailable", "HTTP 503 from https://node.example/v2/KEY")
    shown = sync_view(sync(SyncState.FAILED, 50, trouble))
    assert (shown.attempts, shown.progress_pct, shown.last_processed_block) == (3, 50.0, 149)
    _, row = render_wallet.sync_table([shown]).splitlines()
    assert "attempt 3, again at 2023-11-14T22:14:20Z" in row
    line = render_wallet.SyncSnapshot([sync(SyncState.FAILED, 50, trouble)])
    for text in (row, line.text(200), render_wallet.failure([shown])):
        assert "HTTP 503 from https://node.example/…" in text
        assert "KEY" not in text


@given(st.integers(20, 300))
def test_the_live_line_fits(width: int) -> None:
    snapshot = render_wallet.SyncSnapshot([sync(), sync(SyncState.RUNNING, 40)])
    text = snapshot.text(width)
    assert len(text) <= width
    assert snapshot.fields() == {
        "syncs": 2,
        "states": {"COMPLETE": 1, "RUNNING": 1},
        "blocks_done": 140,
        "blocks_total": 200,
    }


def test_a_wallet_says_how_old_it_is() -> None:
    page = render_wallet.page(details(), NOW + 7_200)
    assert "2h00m ago" in page
    assert "last activity: none is known" in page
    ends = {"ethereum": 1_234}
    assert "stored to block 1,234" in render_wallet.page(details(known_to=ends), NOW)
    followed = render_wallet.page(details(known_to=ends, followed_to=ends), NOW)
    assert "followed to block 1,234" in followed
    many = render_wallet.page(details(balances=(balance(1),) * 25), NOW)
    assert many.endswith("… and 5 more")


@pytest.mark.parametrize("source", ["accounts", "traces", "tables", "events"])
def test_a_wallet_says_what_is_not_visible_in_later_blocks(source: str) -> None:
    searched = SearchView(network="ethereum", source=source, blocks=100, proven=(), unproven=())
    page = render_wallet.page(details(searched=(searched,), known_to={"ethereum": 201}), NOW)
    assert "added: ethereum: 2 later blocks from stored tables" in page
    assert ("stay unexplained" in page) is (source in ("accounts", "traces"))
    its = (searched, msgspec.structs.replace(searched, source="tables"))
    nothing = render_wallet.page(details(searched=its[:1], known_to={"ethereum": 199}), NOW)
    assert "added: " not in nothing
    assert "stay unexplained" not in nothing
    both = render_wallet.page(details(searched=its), NOW)
    assert ("stay unexplained" in both) is (source in ("accounts", "traces"))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (SyncState.ABANDONED, "retries what is missing"),
        (SyncState.PENDING, "or a worker completes it"),
        (SyncState.COMPLETE, "continues to the latest final block"),
    ],
)
def test_the_next_step_of_a_wallet(state: SyncState, said: str) -> None:
    wallet = details(syncs=(sync_view(sync(state)),))
    assert said in (render_wallet.next_step(wallet, Commands()) or "")


def test_a_followed_wallet_needs_nothing() -> None:
    assert render_wallet.next_step(details(followed_to={"ethereum": 1}), Commands()) is None


def test_a_plan_says_what_it_costs() -> None:
    plan = PassView(
        network="ethereum",
        chain_id=1,
        addresses=(WALLET,),
        first=0,
        last=999,
        segments=1,
        stored=400,
        unstored=600,
        source="events",
        calls={"eth_getBlockByNumber": 600},
        calls_per_change=None,
    )
    assert render_wallet.plan([plan], may_scan=True).splitlines() == [
        "ethereum: 1 wallet, blocks 0-999 in 1 segment",
        "  400 blocks from stored tables: no request",
        "  600 blocks by a search for events, then every block that has some",
        "  coins that moved without an event stay unknown; `--scan`: 600 eth_getBlockByNumber",
    ]
    assert "600 blocks to fetch" in render_wallet.plan([plan], may_scan=False)
    archive = msgspec.structs.replace(plan, calls_per_change=20)
    assert "in about 20 calls per block" in render_wallet.plan([archive], may_scan=True)
    assert "nothing to do" in render_wallet.plan([], may_scan=True)


def item(symbol: str | None, amount: int = 5) -> HistoryItem:
    movement = token(SHOP, ANN, amount, GOLD, position=1)
    entry = WalletEntry(wallet=ANN, movement=movement.key, direction=1, category=Category.IN)
    return HistoryItem(movement, entry)


@given(st.text(max_size=40))
def test_no_symbol_breaks_a_table_or_a_file(symbol: str) -> None:
    names = DisplayNames(
        Coin("ETH", 18), {GOLD: TokenFacts("ERC-20", symbol, None, 0)}, hexed, hexed
    )
    shown = item_view(item(symbol), "ethereum", names)
    assert len(shown.symbol) <= max(LONGEST_SYMBOL * 8, len(hexed(GOLD)))
    assert len(render_wallet.history_table([shown]).splitlines()) == 2
    head, row = csv.reader(render_wallet.history_csv([shown]))
    cells = dict(zip(head, row, strict=True))
    assert not cells["symbol"].startswith(("=", "+", "-", "@"))
    assert (cells["amount"], cells["direction"]) == ("5", "1")


keys = st.builds(
    MovementKey,
    st.just(1),
    st.integers(0, 2**62),
    st.sampled_from(MovementKind),
    *[st.integers(-1, 1000)] * 3,
)


@given(keys)
def test_a_movement_is_found_by_its_name(key: MovementKey) -> None:
    assert parse_movement(1, movement_text(key)) == key


@given(
    st.builds(
        HistoryPlace, *[st.integers(0, 2**62)] * 6, st.text(max_size=9), st.binary(max_size=20)
    )
)
def test_a_page_is_continued_where_it_ended(place: HistoryPlace) -> None:
    assert parse_page(page_text(place)) == place


@pytest.mark.parametrize("text", ["", "130", "x:token", "130:gift", "1:fee:0:0:0:0", "1:fee:-2"])
def test_what_is_not_a_movement_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a movement") as refused:
        parse_movement(1, text)
    assert refused.value.hint


@given(st.text(max_size=60))
def test_any_text_is_a_page_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert isinstance(parse_page(text), HistoryPlace)
