"""What wallets hold, and what is left to explain."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.movements import MovementKind
from gapless.wallets.balances import Asset, Reconciled, Sums, TokenHolding
from gapless.wallets.past import Past
from tests.unit.wallets.moves import (
    ANN,
    BOB,
    FAKE,
    GOLD,
    MALLORY,
    SHOP,
    classified,
    move,
    token,
)


def test_amounts_are_exact() -> None:
    most = 2**256 - 1
    past = Past()
    classified([token(SHOP, ANN, most, position=n) for n in range(3)], past)
    assert past.sums[Asset(ANN, GOLD, None)] == 3 * most


def test_what_adds_up_to_zero_is_not_a_holding() -> None:
    past = Past()
    classified([token(SHOP, ANN, 5), token(ANN, SHOP, 5, position=1)], past)
    assert not past.sums.holdings()
    assert Sums({Asset(ANN, GOLD, None): 0}) == Sums() == past.sums
    assert len(past.sums) == 0


def test_an_nft_is_owned_by_the_wallet_that_received_it_last() -> None:
    nft: dict[str, Any] = {"token": GOLD, "token_id": 7}
    past = Past()
    classified([move(MovementKind.NFT, SHOP, ANN, **nft)], past)
    assert past.sums.holdings() == [TokenHolding(wallet=ANN, token=GOLD, token_id=7, amount=1)]
    classified([move(MovementKind.NFT, ANN, BOB, block=2, **nft)], past)
    assert past.sums.holdings() == [TokenHolding(wallet=BOB, token=GOLD, token_id=7, amount=1)]
    classified([move(MovementKind.NFT, BOB, SHOP, block=3, **nft)], past)
    assert past.sums.holdings() == []


def test_holdings_are_ordered() -> None:
    assets = [
        Asset(wallet, held, number)
        for wallet in (BOB, ANN)
        for held in (GOLD, FAKE)
        for number in (2, None, 0)
    ]
    found = Sums(dict.fromkeys(assets, 1)).holdings()
    assert [(it.wallet, it.token, it.token_id) for it in found] == [
        (wallet, held, number)
        for wallet in (ANN, BOB)
        for held in (GOLD, FAKE)
        for number in (None, 0, 2)
    ]


def test_a_token_that_lies_is_overdrawn() -> None:
    past = Past()
    classified([token(ANN, SHOP, 5, FAKE, initiator=MALLORY), token(SHOP, ANN, 5, GOLD)], past)
    holdings = {it.token: it for it in past.sums.holdings()}
    assert holdings[FAKE].is_overdrawn
    assert not holdings[GOLD].is_overdrawn


def test_a_rebasing_token_is_explained_but_for_its_rebases() -> None:
    """10 became 12 without an event, and somebody with an allowance took all 12."""
    past = Past()
    classified([token(SHOP, ANN, 10), token(ANN, SHOP, 12, block=2, initiator=MALLORY)], past)
    reconciled = Reconciled(past.sums[Asset(ANN, GOLD, None)], 0)
    assert reconciled.unexplained == 2


@given(st.integers(), st.none() | st.integers(0))
def test_computed_and_unexplained_are_what_the_chain_says(
    computed: int, on_chain: int | None
) -> None:
    unexplained = Reconciled(computed, on_chain).unexplained
    assert (unexplained is None) == (on_chain is None)
    if unexplained is not None:
        assert computed + unexplained == on_chain
