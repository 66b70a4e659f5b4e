"""What Python programs are told about wallets is what the commands print."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gapless
from gapless.core.errors import NotFound, UsageError
from gapless.views.wallets import HistoryView
from tests.acceptance.commands import Commands
from tests.acceptance.wallet_stage import fill
from tests.acceptance.wallet_stage import text as text_of
from tests.unit.wallets.moves import ANN as ANN_
from tests.unit.wallets.moves import BOB as BOB_

ANN, BOB = map(text_of, (ANN_, BOB_))


@pytest.fixture
def filled(sqlite_gapless: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    asyncio.run(fill(tmp_path, sqlite_gapless.home))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GAPLESS_LEDGER", sqlite_gapless.home.url)
    return sqlite_gapless


def plain(found: Any) -> Any:
    return json.loads(msgspec.json.encode(found))


CASES: list[tuple[Sequence[str], Any]] = [
    (["ls"], gapless.list_wallets),
    (["ls", "--state", "complete"], lambda: gapless.list_wallets(state="complete")),
    (["ls", "--network", "polygon"], lambda: gapless.list_wallets(network="polygon")),
    (["show", ANN], lambda: gapless.show_wallet(ANN)),
    (["show", BOB], lambda: gapless.show_wallet(BOB.lower(), group="own", network="ethereum")),
    (["history", ANN], lambda: gapless.wallet_history("Ann's")),
    (
        ["history", ANN, "--token", "eth", "--kind", "native", "--kind", "fee", "--oldest-first"],
        lambda: gapless.wallet_history(
            ANN, tokens="ETH", kinds=["native", "fee"], oldest_first=True
        ),
    ),
    (
        ["history", ANN, "--until", "2023-11-14T22:16:00Z", "--counterparty", BOB],
        lambda: gapless.wallet_history(ANN, until="2023-11-14T22:16:00Z", counterparties=BOB),
    ),
    (["history", ANN, "--limit", "2"], lambda: gapless.wallet_history(ANN, limit=2)),
    (["balances", ANN], lambda: gapless.wallet_balances(ANN)),
    (["balances", ANN, "--at", "130"], lambda: gapless.wallet_balances(ANN, at=130)),
    (
        ["balances", ANN, "--at", "2023-11-14", "--all"],
        lambda: gapless.wallet_balances(ANN, at="2023-11-14", every_token=True),
    ),
    (["override", ANN], lambda: gapless.wallet_overrides(ANN)),
]


@pytest.mark.parametrize(("arguments", "call"), CASES, ids=[" ".join(it[0]) for it in CASES])
def test_a_function_returns_what_its_command_prints(
    filled: Commands, arguments: Sequence[str], call: Any
) -> None:
    assert plain(asyncio.run(call())) == filled.json("wallet", *arguments)


def test_a_history_is_read_page_by_page(filled: Commands) -> None:
    async def pages() -> list[str]:
        found, page = list[str](), HistoryView(items=(), next=None)
        while True:
            page = await gapless.wallet_history(ANN, limit=3, after=page.next)
            found += [it.id for it in page.items]
            if page.next is None:
                return found

    whole = filled.json("wallet", "history", ANN)
    assert asyncio.run(pages()) == [it["id"] for it in whole["items"]]


def test_wallets_are_named_and_categories_are_set(filled: Commands) -> None:
    (named,) = asyncio.run(gapless.label_wallet(BOB, "Savings"))
    assert named.label == filled.json("wallet", "show", BOB)["label"] == "Savings"
    wanted = ("130:token:0:2", "reward")
    (told,) = asyncio.run(gapless.override_movement(ANN, *wanted, note="airdrop"))
    assert plain([told]) == filled.json("wallet", "override", ANN)
    assert asyncio.run(gapless.override_movement(ANN, wanted[0], None)) == []
    with pytest.raises(NotFound, match="has no override"):
        asyncio.run(gapless.override_movement(ANN, wanted[0], None))


@pytest.mark.parametrize(
    "filters",
    [{"kinds": "gift"}, {"categories": "gift"}, {"tokens": "gold"}, {"kind": "fee"}],
)
def test_filters_that_make_no_sense_are_refused(filled: Commands, filters: Any) -> None:
    with pytest.raises(UsageError, match=r"gift|gold|no option `kind`"):
        asyncio.run(gapless.wallet_history(ANN, **filters))


def test_states_and_ranges_that_make_no_sense_are_refused(filled: Commands) -> None:
    with pytest.raises(UsageError, match="is not a state"):
        asyncio.run(gapless.list_wallets(state="done"))
    with pytest.raises(gapless.GaplessError, match="is a range"):
        asyncio.run(gapless.wallet_balances(ANN, at="1:2"))
