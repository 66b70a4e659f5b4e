"""`gapless wallet …` as a person uses it: what is shown of wallets, and what is refused."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.commands import Commands
from tests.acceptance.wallet_stage import EVIL, LAST, fill
from tests.acceptance.wallet_stage import text as text_of
from tests.unit.wallets.moves import ANN as ANN_
from tests.unit.wallets.moves import BOB as BOB_
from tests.unit.wallets.moves import GOLD as GOLD_
from tests.unit.wallets.moves import SHOP as SHOP_

ANN, BOB, GOLD, SHOP = map(text_of, (ANN_, BOB_, GOLD_, SHOP_))
TRON = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
WRONG_CASE = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    return sqlite_gapless


@pytest.fixture
def filled(gapless: Commands, tmp_path: Path) -> Commands:
    asyncio.run(fill(tmp_path, gapless.home))
    return gapless


def ids(gapless: Commands, *arguments: str) -> list[str]:
    page = gapless.json("wallet", "history", ANN, *arguments)
    return [each["id"] for each in page["items"]]


def test_wallets_are_listed_by_group_network_and_state(filled: Commands) -> None:
    found = filled.json("wallet", "ls")
    assert {it["address"]: (it["label"], it["state"], it["progress_pct"]) for it in found} == {
        ANN: ("Ann's", "COMPLETE", 100.0),
        BOB: (None, "PENDING", 0.0),
    }
    (ann,) = filled.json("wallet", "ls", "--state", "complete", "--group", "own")
    assert (ann["from"], ann["to"], ann["last_processed_block"]) == (100, 199, 199)
    assert (ann["attempts"], ann["error_message"], ann["next_retry_after"]) == (0, None, None)
    assert filled.json("wallet", "ls", "--network", "polygon") == []
    assert filled.json("wallet", "ls", "--group", "theirs") == []
    assert "raise `--limit`" in filled("wallet", "ls", "--limit", "1").stderr


def test_the_matrix_has_a_row_for_each_wallet_and_a_column_for_each_network(
    filled: Commands,
) -> None:
    head, *rows = filled("wallet", "ls", "--matrix").stdout.splitlines()
    assert head.split() == ["wallet", "label", "group", "ethereum"]
    assert [row.split() for row in rows] == [
        [BOB, "own", "pending", "0.0%"],
        [ANN, "Ann's", "own", "complete"],
    ]
    (bob, _) = filled.json("wallet", "ls", "--matrix")
    assert bob["networks"] == {"ethereum": {"state": "PENDING", "progress_pct": 0.0}}


def test_a_wallet_is_shown_with_progress_balances_and_activity(filled: Commands) -> None:
    answer = filled("wallet", "show", ANN.lower())
    assert answer.stdout.startswith(f"{ANN} (Ann's)  group own\n")
    assert "last activity: 2023-11-14T22:16:00Z in block 160 of ethereum" in answer.stdout
    assert f"hint: `gapless wallet sync {ANN}` continues" in answer.stderr
    details = filled.json("wallet", "show", ANN)
    coin, gold, *_ = details["balances"]
    assert (coin["symbol"], coin["computed"], coin["token"]) == (
        "ETH",
        "3.999999999999978999",
        None,
    )
    assert (gold["computed"], gold["computed_raw"], gold["token"]) == ("1.5", "1500000", GOLD)
    assert all(it["complete"] and it["as_of_block"] == LAST for it in details["balances"])
    assert {it["on_chain"] for it in details["balances"]} == {None}
    bob = filled.json("wallet", "show", BOB)
    assert [(it["computed_raw"], it["complete"]) for it in bob["balances"]] == [
        ("1000000000000000001", False)
    ]


def test_a_history_is_filtered(filled: Commands) -> None:
    everything = ids(filled)
    assert everything == [
        *("160:nft:0:5", "150:token:0:4", "140:token:0:3", "130:token:0:2"),
        *("120:native:0", "120:fee:0", "110:native:0"),
    ]
    assert ids(filled, "--oldest-first") == everything[::-1]
    assert ids(filled, "--token", "eth") == ["120:native:0", "120:fee:0", "110:native:0"]
    assert ids(filled, "--token", GOLD) == ["150:token:0:4", "130:token:0:2"]
    assert ids(filled, "--kind", "fee", "--kind", "nft") == ["160:nft:0:5", "120:fee:0"]
    assert ids(filled, "--category", "spoof") == ["150:token:0:4"]
    assert ids(filled, "--counterparty", BOB) == ["120:native:0"]
    assert ids(filled, "--since", "2023-11-14T22:15:50Z") == everything[:2]
    assert ids(filled, "--until", "2023-11-14T22:15:10Z") == everything[-1:]
    assert ids(filled, "--since", "2023-11-15") == []


def test_a_history_has_pages(filled: Commands) -> None:
    found, arguments = list[str](), tuple[str, ...]()
    while True:
        page = filled.json("wallet", "history", ANN, "--limit", "3", *arguments)
        found += [each["id"] for each in page["items"]]
        if page["next"] is None:
            break
        arguments = ("--after", page["next"])
    assert found == ids(filled)
    answer = filled("wallet", "history", ANN, "--limit", "3")
    assert "hint: `--after " in answer.stderr


def rows(text: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(text, newline=""))]


def test_a_history_is_written_for_other_tools(filled: Commands) -> None:
    own = rows(filled("wallet", "history", ANN, "--format", "csv").stdout)
    assert [row["id"] for row in own] == ids(filled)[::-1]
    assert [(row["direction"], row["amount"]) for row in own][:2] == [
        ("1", "5"),
        ("-1", "0.000000000000021"),
    ]
    koinly = rows(filled("wallet", "history", ANN, "--format", "koinly").stdout)
    assert [row["Received Amount"] for row in koinly] == ["5", "", "1.5", "7", "1"]
    nfts = rows(filled("wallet", "history", ANN, "--format", "etherscan-nfts").stdout)
    assert [row["Token ID"] for row in nfts] == [str(2**200)]
    assert (
        len(rows(filled("wallet", "history", ANN, "--format", "csv", "--limit", "2").stdout)) == 2
    )


def test_names_of_tokens_cannot_harm(filled: Commands) -> None:
    """`Commands` refuses control characters everywhere; here they are in the names of a token."""
    for arguments in (
        ("show", ANN),
        ("history", ANN),
        ("balances", ANN),
        ("history", ANN, "--format", "csv"),
        ("history", ANN, "--format", "koinly"),
        ("history", ANN, "--json"),
    ):
        printed = filled("wallet", *arguments).stdout
        assert "USD" in printed or "NFT" in printed
        assert "\u202e" not in printed
        assert EVIL[:30] not in printed
        assert "y" * 40 not in printed


def test_balances_of_the_past(filled: Commands) -> None:
    def computed(*arguments: str) -> list[tuple[Any, ...]]:
        found = filled.json("wallet", "balances", ANN, *arguments)
        return [(it["symbol"], it["computed_raw"], it["as_of_block"]) for it in found]

    assert computed("--at", "110") == [("ETH", "5000000000000000000", 110)]
    assert computed("--at", "2023-11-13") == []
    assert len(computed("--at", "2023-11-14")) == 4
    answer = filled("wallet", "balances", ANN)
    assert "4 balances not compared with the chain" in answer.stderr
    assert "`--rpc URL`" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["show", SHOP], f"there is no wallet `{SHOP}`"),
        (["show", ANN, "--group", "theirs"], "in the group `theirs`"),
        (["show", "bob"], "`bob` is neither the label of a wallet nor an address"),
        (["show", WRONG_CASE], "nor an address of any network"),
        (["show", WRONG_CASE, "--network", "ethereum"], "its upper and lower case do not match"),
        (["history", TRON, "--network", "ethereum"], "`T` is not a hex digit"),
        (["history", ANN, "--network", "polygon"], "is not watched on `polygon`, only on ethereum"),
        (["history", ANN, "--network", "ethereun"], "ethereun"),
        (
            ["history", ANN, "--token", "gold"],
            "` lists the contracts",
        ),
        (["history", ANN, "--counterparty", "0x12"], "it has 2 hex digits"),
        (["history", ANN, "--since", "yesterday"], "yesterday"),
        (["history", ANN, "--after", "nonsense"], "this is not the end of a page"),
        (["history", ANN, "--category", "gift"], "`gift` is not one of"),
        (["history", ANN, "--format", "xml"], "`xml` is not one of"),
        (["history", ANN, "--sink", "nowhere.db"], "there is no sink at `nowhere.db`"),
        (["balances", ANN, "--at", "1:5"], "`1:5` is a range"),
        (["balances", ANN, "--at", "2023-13-01"], "there is no day `2023-13-01`"),
        (["ls", "--state", "done"], "`done` is not one of"),
    ],
)
def test_wrong_words_are_refused(
    filled: Commands, arguments: Sequence[str], complaint: str
) -> None:
    assert complaint in filled.refused("wallet", *arguments)


def test_without_wallets(gapless: Commands) -> None:
    assert "gapless wallet add" in gapless.refused("wallet", "ls")  # there is no ledger
    gapless("backfill", "start", "--job", "jobs:copy", "--range", "0:1", "--detach")
    answer = gapless("wallet", "ls")
    assert answer.stdout == ""
    assert "gapless wallet add" in answer.stderr
    assert gapless.json("wallet", "ls") == []


def test_a_wallet_is_named(filled: Commands) -> None:
    assert "is now `Savings`" in filled("wallet", "label", BOB, "Savings").stderr
    assert filled.json("wallet", "show", BOB)["label"] == "Savings"
    assert filled.json("wallet", "show", "Savings")["address"] == BOB
    assert "is now `Ann's`" in filled("wallet", "label", "Savings", "Ann's").stderr
    assert "2 wallets have the label `Ann's`" in filled.refused("wallet", "show", "Ann's")
    assert "control characters" in filled.refused("wallet", "label", BOB, "a\x1b[31m")


def test_a_person_sets_and_removes_categories(filled: Commands) -> None:
    set_one = filled("wallet", "override", ANN, "130:token:0:2", "reward", "--note", "airdrop")
    assert set_one.stdout == "130:token:0:2  reward  airdrop\n"
    assert f"`gapless wallet sync {ANN}` or a worker applies it" in set_one.stderr
    (listed,) = filled.json("wallet", "override", ANN)
    assert (listed["movement"], listed["category"]) == ("130:token:0:2", "reward")
    assert filled("wallet", "override", ANN, "130:token:0:2", "--remove").stdout == ""
    refused = filled.refused("wallet", "override", ANN, "130:token:0:2", "--remove")
    assert "`130:token:0:2` has no override" in refused
    for wrong in ("130", "130:gift", "x:token:0", "130:token:0:1:2:3", "-1:token"):
        assert "is not a movement" in filled.refused("wallet", "override", ANN, "--", wrong, "in")
    assert "no category given" in filled.refused("wallet", "override", ANN, "130:token:0:2")
    refused = filled.refused("wallet", "override", ANN, "130:token:0:99", "in")
    assert f"`{ANN}` has no movement `130:token:0:99`" in refused
