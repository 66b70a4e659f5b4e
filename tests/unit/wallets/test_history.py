"""Histories as people and other tools read them."""

from __future__ import annotations

import csv
import doctest
import importlib
import io
from collections import Counter
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.movements import NOBODY, NOWHERE, Coin, Movement, MovementKind, TokenFacts
from gapless.wallets.categories import Category, Flag
from gapless.wallets.forms import FORMS, header, write_csv
from gapless.wallets.history import LONGEST_NAME, LONGEST_SYMBOL, DisplayNames, decimal, harmless
from tests.unit.wallets.moves import (
    ANN,
    BOB,
    FAKE,
    GOLD,
    IRON,
    MALLORY,
    ROUTER,
    SHOP,
    SHOP_LIKE,
    classified,
    hexed,
    histories,
    move,
    paired,
    token,
)

K = MovementKind
TOKENS = {
    GOLD: TokenFacts("ERC-20", "GLD", "Gold", 6),
    IRON: TokenFacts("ERC-20", "IRN", "Iron", 0),
    FAKE: TokenFacts("ERC-20", '=HYPERLINK("http://evil")', "a\nb\u202e", 6),
}
NAMES = DisplayNames(Coin("ETH", 18), TOKENS, hexed, hexed)
ZERO = "0x" + "00" * 20
HASH = "0x" + "ab" * 32
TIME = "2023-11-14 22:13:21"
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def written(
    form: str, *movements: Movement, wallet: bytes = ANN, names: DisplayNames = NAMES
) -> list[list[str]]:
    """The rows of a file, read again."""
    pairs = [it for it in paired(movements, classified(movements)) if it[1].wallet == wallet]
    file = io.StringIO(newline="")
    write_csv(FORMS[form], pairs, names, file)
    first, *rows = csv.reader(io.StringIO(file.getvalue(), newline=""))
    assert first == header(FORMS[form], names)
    assert all(len(row) == len(first) for row in rows)
    return rows


def cells(form: str, *movements: Movement, names: DisplayNames = NAMES) -> list[dict[str, str]]:
    """The values of a file by column, without those that are empty."""
    columns = header(FORMS[form], names)
    rows = written(form, *movements, names=names)
    return [{k: v for k, v in zip(columns, row, strict=True) if v} for row in rows]


@pytest.mark.parametrize("name", ["past", "history", "forms"])
def test_the_examples_are_right(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"gapless.wallets.{name}"))
    assert found.attempted
    assert not found.failed


@given(st.integers(-(2**300), 2**300), st.integers(0, 255))
def test_decimals_are_exact(amount: int, decimals: int) -> None:
    text = decimal(amount, decimals)
    assert Decimal(text).scaleb(decimals, Context(prec=400)) == amount
    assert "." not in text or not text.endswith(("0", "."))


@given(st.text(max_size=200))
def test_hostile_text_is_harmless(text: str) -> None:
    found = harmless(text, 24)
    assert len(found) <= 24
    assert found.isprintable()
    assert harmless(found, 24) == found or "  " in found


def test_a_line_has_what_people_read() -> None:
    (pair,) = paired(
        [it := token(SHOP, ANN, 1_500_000, transaction_hash=b"\xab" * 32)], classified([it])
    )
    line = NAMES.line(*pair)
    assert (line.time, line.block_number) == (datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC), 1)
    assert (line.amount, line.symbol, line.token) == ("1.5", "GLD", hexed(GOLD))
    assert (line.category, line.direction, line.counterparty) == (Category.IN, 1, hexed(SHOP))
    assert (line.transaction, line.flags) == (HASH, ())


def test_the_counterparty_is_the_other_side() -> None:
    found = [
        *(move(K.NATIVE, ANN, SHOP, block=1), move(K.NATIVE, ANN, ANN, 0, block=2)),
        move(K.WITHDRAWAL, NOBODY, ANN, block=3, transaction_index=NOWHERE, transaction_hash=b""),
    ]
    lines = [NAMES.line(*it) for it in paired(found, classified(found))]
    assert [it.counterparty for it in lines] == [hexed(SHOP), hexed(ANN), ""]
    assert [it.flags for it in lines] == [(), (Flag.SELF, Flag.ZERO_VALUE), ()]
    assert lines[2].transaction == ""


@pytest.mark.parametrize(
    ("facts", "symbol", "amount"),
    [
        (TokenFacts("ERC-20", "GLD", None, 6), "GLD", "1.5"),
        (TokenFacts("ERC-20", None, None, None), hexed(GOLD), "1500000"),
        (TokenFacts("ERC-20", " \n ", None, 256), hexed(GOLD), "1500000"),
        (TokenFacts("ERC-20", "eth", None, -1), hexed(GOLD), "1500000"),  # it is not the coin
        (TokenFacts("ERC-20", "E\u200bTH", None, 6), "E\\x200bTH", "1.5"),
        (TokenFacts("ERC-20", "G" * 99, None, 6), "G" * (LONGEST_SYMBOL - 1) + "…", "1.5"),
    ],
)
def test_tokens_may_say_anything(facts: TokenFacts, symbol: str, amount: str) -> None:
    names = DisplayNames(Coin("ETH", 18), {GOLD: facts}, hexed, hexed)
    it = token(SHOP, ANN, 1_500_000)
    assert (names.symbol(it), names.amount(it)) == (symbol, amount)


def test_pieces_have_no_decimals() -> None:
    it = move(K.MULTI_TOKEN, SHOP, ANN, 5, token=GOLD, token_id=1)
    assert NAMES.amount(it) == "5"


def test_an_asset_is_named_by_its_id() -> None:
    it = move(K.ASSET, SHOP, ANN, 5, token=b"1002000")
    assert (NAMES.token(it), NAMES.symbol(it)) == ("1002000", "1002000")


def test_a_time_beyond_the_calendar_is_its_end() -> None:
    it = move(K.NATIVE, SHOP, ANN, block_timestamp=2**63)
    assert written("koinly", it)[0][0] == "9999-12-31 23:59:59 UTC"


class TestEtherscan:
    def test_columns_are_those_of_its_files(self) -> None:
        place = "Transaction Hash,Blockno,UnixTimestamp,DateTime (UTC)"
        assert {name: ",".join(header(it, NAMES)) for name, it in FORMS.items()} == {
            "etherscan-transactions": f"{place},From,To,ContractAddress,Value_IN(ETH),"
            "Value_OUT(ETH),CurrentValue,TxnFee(ETH),TxnFee(USD),Historical $Price/Eth,"
            "Status,ErrCode,Method",
            "etherscan-internal": f"{place},ParentTxFrom,ParentTxTo,ParentTxETH_Value,From,TxTo,"
            "ContractAddress,Value_IN(ETH),Value_OUT(ETH),CurrentValue,Historical $Price/Eth,"
            "Status,ErrCode,Type",
            "etherscan-tokens": f"{place},From,To,TokenValue,USDValueDayOfTx,ContractAddress,"
            "TokenName,TokenSymbol",
            "etherscan-nfts": f"{place},From,To,ContractAddress,TokenName,TokenSymbol,Token ID,"
            "Type,Quantity",
            "koinly": "Date,Sent Amount,Sent Currency,Received Amount,Received Currency,Fee Amount,"
            "Fee Currency,Net Worth Amount,Net Worth Currency,Label,Description,TxHash",
        }

    def test_columns_name_the_coin(self) -> None:
        names = DisplayNames(Coin("POL", 18), {}, hexed, hexed)
        found = header(FORMS["etherscan-transactions"], names)
        assert {"Value_IN(POL)", "TxnFee(POL)", "Historical $Price/POL"} < {*found}

    def test_transactions_have_value_and_fee_in_one_row(self) -> None:
        paid = [move(K.FEE, ANN, NOBODY, 10**15), move(K.NATIVE, ANN, SHOP, 10**18)]
        got = move(K.NATIVE, SHOP, ANN, 5 * 10**17, block=2)
        only_fee = move(K.FEE, ANN, NOBODY, 10**15, block=3)
        first, second, third = cells("etherscan-transactions", *paid, got, only_fee)
        assert first == {
            "Transaction Hash": HASH,
            "Blockno": "1",
            "UnixTimestamp": "1700000001",
            "DateTime (UTC)": TIME,
            "From": hexed(ANN),
            "To": hexed(SHOP),
            "Value_IN(ETH)": "0",
            "Value_OUT(ETH)": "1",
            "TxnFee(ETH)": "0.001",
        }
        values = [second[it] for it in ("From", "Value_IN(ETH)", "Value_OUT(ETH)", "TxnFee(ETH)")]
        assert values == [hexed(SHOP), "0.5", "0", "0"]
        assert third["From"] == hexed(ANN)
        assert "To" not in third

    def test_internal_transactions_name_who_signed(self) -> None:
        (row,) = cells(
            "etherscan-internal", move(K.INTERNAL, ROUTER, ANN, 10**18, initiator=BOB, position=0)
        )
        assert row["ParentTxFrom"] == hexed(BOB)
        assert (row["From"], row["TxTo"]) == (hexed(ROUTER), hexed(ANN))
        assert (row["Value_IN(ETH)"], row["Value_OUT(ETH)"]) == ("1", "0")
        assert (row["Status"], row["Type"]) == ("0", "call")

    def test_tokens_have_their_names(self) -> None:
        (row,) = cells("etherscan-tokens", token(NOBODY, ANN, 1_500_000))
        del row["UnixTimestamp"], row["DateTime (UTC)"]
        assert row == {
            "Transaction Hash": HASH,
            "Blockno": "1",
            "From": ZERO,
            "To": hexed(ANN),
            "TokenValue": "1.5",
            "ContractAddress": hexed(GOLD),
            "TokenName": "Gold",
            "TokenSymbol": "GLD",
        }

    def test_nfts_have_their_ids(self) -> None:
        more: dict[str, Any] = {"token": IRON, "token_id": 2**255}
        one = move(K.NFT, SHOP, ANN, position=0, **more)
        five = move(K.MULTI_TOKEN, SHOP, ANN, 5, position=1, **more)
        found = cells("etherscan-nfts", one, five)
        assert [(it["Token ID"], it["Type"], it["Quantity"]) for it in found] == [
            (str(2**255), "ERC-721", "1"),
            (str(2**255), "ERC-1155", "5"),
        ]

    @given(histories())
    def test_each_token_movement_is_in_one_file(self, movements: list[Movement]) -> None:
        forms = ("etherscan-tokens", "etherscan-nfts", "etherscan-internal")
        rows = sum(len(written(form, *movements)) for form in forms)
        others = (K.NATIVE, K.FEE, K.MINT, K.WITHDRAWAL, K.REWARD)
        of_ann = [it for it in movements if ANN in (it.sender, it.receiver)]
        assert rows == len([it for it in of_ann if it.kind not in others])


class TestKoinly:
    def test_a_swap_is_one_row_with_its_fee(self) -> None:
        legs = [
            move(K.FEE, ANN, NOBODY, 10**15),
            token(ANN, ROUTER, 2_000_000, GOLD, position=0),
            token(ROUTER, ANN, 3, IRON, position=1, initiator=ANN),
        ]
        assert cells("koinly", *legs) == [
            {
                "Date": f"{TIME} UTC",
                "Sent Amount": "2",
                "Sent Currency": "GLD",
                "Received Amount": "3",
                "Received Currency": "IRN",
                "Fee Amount": "0.001",
                "Fee Currency": "ETH",
                "Description": f"swap {hexed(GOLD)} {hexed(IRON)}",
                "TxHash": HASH,
            }
        ]

    def test_legs_of_a_swap_are_netted_and_paired(self) -> None:
        legs = [
            move(K.FEE, ANN, NOBODY, 10**15),
            move(K.NATIVE, ANN, ROUTER, 3 * 10**18),
            move(K.INTERNAL, ROUTER, ANN, 10**18, position=0, initiator=ANN),
            token(ROUTER, ANN, 5, IRON, position=1, initiator=ANN),
            token(ROUTER, ANN, 1_000_000, GOLD, position=2, initiator=ANN),
        ]
        first, second = cells("koinly", *legs)
        assert (first["Sent Amount"], first["Received Amount"]) == ("2", "5")
        assert (first["Fee Amount"], first["Fee Currency"]) == ("0.001", "ETH")
        assert not {"Sent Amount", "Fee Amount"} & {*second}
        assert (second["Received Amount"], second["Received Currency"]) == ("1", "GLD")

    def test_a_fee_alone_is_a_cost(self) -> None:
        (row,) = cells("koinly", move(K.FEE, ANN, NOBODY, 10**15, is_approval=True))
        assert (row["Sent Amount"], row["Sent Currency"]) == ("0.001", "ETH")
        assert (row["Label"], row["Description"]) == ("cost", "approval")

    def test_rewards_are_labelled(self) -> None:
        reward = move(K.REWARD, NOBODY, ANN, 10**18, transaction_index=NOWHERE)
        assert cells("koinly", reward)[0]["Label"] == "reward"

    def test_what_changes_nothing_is_left_out(self) -> None:
        nothing = [
            token(ANN, SHOP_LIKE, 0, position=0, initiator=MALLORY),
            token(ANN, SHOP_LIKE, 9, FAKE, position=1, initiator=MALLORY),
            token(SHOP, ANN, 0, position=2, block=2),
            move(K.NATIVE, ANN, ANN, 5, block=3),
        ]
        assert cells("koinly", *nothing) == []

    def test_an_nft_has_a_placeholder_of_its_own(self) -> None:
        nfts = [
            move(K.NFT, SHOP, ANN, position=number, token=GOLD, token_id=number % 2, block=number)
            for number in (1, 2, 3)
        ]
        first, second, third = (it["Received Currency"] for it in cells("koinly", *nfts))
        assert first == third != second
        assert first.startswith("NFT")
        assert first[3:].isdecimal()

    @given(histories())
    def test_rows_add_up_to_the_sums_without_spoofs(self, movements: list[Movement]) -> None:
        names = DisplayNames(Coin("ETH", 0), {}, hexed, hexed)
        left: Counter[str] = Counter()
        for it, entry in paired(movements, classified(movements)):
            if entry.wallet == ANN and entry.category is not Category.SPOOF:
                left["NFT" if it.token_id is not None else names.symbol(it)] += (
                    entry.direction * it.amount
                )
        for row in cells("koinly", *movements, names=names):
            for column, sign in (("Sent", -1), ("Received", 1), ("Fee", -1)):
                if currency := row.get(f"{column} Currency"):
                    currency = "NFT" if currency.startswith("NFT") else currency
                    left[currency] -= sign * int(row[f"{column} Amount"])
        assert not any(left.values())


@given(histories(), st.text(max_size=40), st.text(max_size=99))
def test_no_value_is_a_formula_or_obeyed(movements: list[Movement], symbol: str, name: str) -> None:
    facts = TokenFacts("ERC-20", symbol, name, 6)
    names = DisplayNames(Coin("ETH", 18), dict.fromkeys([GOLD, IRON], facts), hexed, hexed)
    for form in FORMS:
        for row in written(form, *movements, names=names):
            assert not any(value.startswith(FORMULA) for value in row)
            assert all(value.isprintable() for value in row)
            assert all(len(value) <= 200 for value in row)


def test_a_formula_is_quoted() -> None:
    (row,) = cells("etherscan-tokens", token(SHOP, ANN, 1, FAKE))
    assert row["TokenSymbol"] == "'" + '=HYPERLINK("http://evil")'[: LONGEST_SYMBOL - 1] + "…"
    assert row["TokenName"] == "a b\\x202e"
    assert len(row["TokenName"]) <= LONGEST_NAME
