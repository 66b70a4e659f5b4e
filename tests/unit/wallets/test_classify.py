"""Each category and flag, by example; and what attackers do to a history."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.chains.movements import NOBODY, NOWHERE, Movement, MovementKind
from gapless.wallets.categories import Category, Flag, WalletEntry
from gapless.wallets.classify import Classifier
from gapless.wallets.past import MOST_PAYEES, Past, Payee, face
from tests.unit.wallets.moves import (
    ANN,
    BOB,
    BOB_LIKE,
    FAKE,
    GOLD,
    IRON,
    MALLORY,
    OWN,
    ROUTER,
    SHOP,
    SHOP_LIKE,
    WETH,
    classified,
    hexed,
    move,
    token,
)

K, C = MovementKind, Category


def read(entries: list[WalletEntry]) -> list[tuple[bytes, int, str]]:
    return [(it.wallet, it.direction, it.category.value) for it in entries]


def categories(*movements: Movement, past: Past | None = None) -> list[str]:
    return [it.category.value for it in classified(movements, past)]


def fee(payer: bytes, **more: object) -> Movement:
    return move(K.FEE, payer, NOBODY, 21, **more)


def test_coins_come_in_and_go_out() -> None:
    assert read(classified([move(K.NATIVE, SHOP, ANN, 5)])) == [(ANN, 1, "in")]
    assert read(classified([move(K.NATIVE, ANN, SHOP, 5)])) == [(ANN, -1, "out")]
    assert read(classified([move(K.INTERNAL, SHOP, ANN, 5, position=0)])) == [(ANN, 1, "in")]


def test_a_movement_between_own_wallets_has_an_entry_for_each() -> None:
    found = classified([move(K.NATIVE, ANN, BOB, 5)])
    assert read(found) == [(ANN, -1, "between"), (BOB, 1, "between")]
    assert not any(it.flags for it in found)


def test_a_transfer_to_oneself_has_one_entry_without_direction() -> None:
    (entry,) = classified([move(K.NATIVE, ANN, ANN, 5)])
    assert (entry.direction, entry.category) == (0, C.BETWEEN)
    assert entry.flags == {Flag.SELF}


def test_what_nobody_sent_was_minted_and_what_nobody_got_was_burned() -> None:
    assert categories(token(NOBODY, ANN, 5, initiator=MALLORY)) == ["mint"]
    assert categories(move(K.MINT, NOBODY, ANN, 5)) == ["mint"]
    assert categories(token(NOBODY, ANN, 5), token(ANN, NOBODY, 5, position=1, block=2)) == [
        "mint",
        "burn",
    ]


def test_withdrawals_and_rewards_have_categories_of_their_own() -> None:
    nowhere = {"transaction_index": NOWHERE, "initiator": NOBODY}
    found = [
        move(K.WITHDRAWAL, NOBODY, ANN, 5, position=0, **nowhere),
        move(K.REWARD, NOBODY, ANN, 5, position=1, **nowhere),
    ]
    assert categories(*found) == ["withdrawal", "reward"]


class TestSwap:
    def test_gives_one_token_and_gets_another(self) -> None:
        legs = [
            fee(ANN),
            token(ANN, ROUTER, 10, GOLD, position=0),
            token(ROUTER, ANN, 3, IRON, position=1, initiator=ANN),
        ]
        assert categories(*legs) == ["fee", "swap", "swap"]

    def test_has_several_legs_and_may_give_some_back(self) -> None:
        legs = [
            move(K.NATIVE, ANN, ROUTER, 10),
            move(K.INTERNAL, ROUTER, ANN, 2, position=0, initiator=ANN),
            token(ANN, ROUTER, 10, GOLD, position=1),
            token(NOBODY, ANN, 3, IRON, position=2, initiator=ANN),
        ]
        assert categories(*legs) == ["swap"] * 4

    def test_one_nft_for_another_of_the_same_contract(self) -> None:
        legs = [
            move(K.NFT, ANN, SHOP, position=0, token=GOLD, token_id=1),
            move(K.NFT, SHOP, ANN, position=1, token=GOLD, token_id=2, initiator=ANN),
        ]
        assert categories(*legs) == ["swap", "swap"]

    def test_may_pay_from_one_wallet_into_another(self) -> None:
        legs = [
            token(ANN, ROUTER, 10, GOLD, position=0),
            token(ROUTER, BOB, 3, IRON, position=1, initiator=ANN),
        ]
        assert categories(*legs) == ["swap", "swap"]

    def test_must_be_signed_by_the_group(self) -> None:
        legs = [
            token(NOBODY, ANN, 10, GOLD, block=1),
            token(ANN, ROUTER, 10, GOLD, position=0, block=2, initiator=MALLORY),
            token(ROUTER, ANN, 3, IRON, position=1, block=2, initiator=MALLORY),
        ]
        assert categories(*legs) == ["mint", "out", "in"]

    @pytest.mark.parametrize(
        "second",
        [
            token(ROUTER, ANN, 3, GOLD, position=1, initiator=ANN),  # the same token came back
            token(ROUTER, ANN, 0, IRON, position=1, initiator=ANN),  # nothing came
            token(ANN, ROUTER, 3, IRON, position=1),  # both were given
            token(ROUTER, ANN, 3, IRON, position=1, initiator=ANN, transaction_index=1),
        ],
    )
    def test_is_not_any_two_movements(self, second: Movement) -> None:
        assert "swap" not in categories(token(ANN, ROUTER, 10, GOLD, position=0), second)

    def test_leaves_other_movements_of_the_transaction_alone(self) -> None:
        legs = [
            token(ANN, ROUTER, 10, GOLD, position=0),
            token(ROUTER, ANN, 3, IRON, position=1, initiator=ANN),
            token(ANN, BOB, 1, IRON, position=2),
            token(ANN, SHOP, 0, IRON, position=3),
        ]
        assert categories(*legs) == ["swap", "swap", "between", "between", "out"]


class TestWrap:
    def test_has_a_leg_of_coins_and_a_leg_of_tokens(self) -> None:
        wrap = [
            fee(ANN),
            move(K.NATIVE, ANN, WETH, 10),
            move(K.WRAP, NOBODY, ANN, 10, token=WETH, position=0, initiator=ANN),
        ]
        assert categories(*wrap) == ["fee", "wrap", "wrap"]
        unwrap = [
            move(K.UNWRAP, ANN, NOBODY, 10, token=WETH, position=0),
            move(K.INTERNAL, WETH, ANN, 10, position=1, initiator=ANN),
        ]
        assert categories(*unwrap) == ["wrap", "wrap"]

    def test_is_apart_from_a_swap_in_the_same_transaction(self) -> None:
        legs = [
            move(K.NATIVE, ANN, WETH, 10),
            move(K.WRAP, NOBODY, ANN, 10, token=WETH, position=0, initiator=ANN),
            token(ANN, ROUTER, 10, WETH, position=1),
            token(ROUTER, ANN, 3, GOLD, position=2, initiator=ANN),
        ]
        assert categories(*legs) == ["wrap", "wrap", "swap", "swap"]

    def test_does_not_make_a_present_a_swap(self) -> None:
        legs = [
            move(K.NATIVE, ANN, WETH, 10),
            move(K.WRAP, NOBODY, ANN, 10, token=WETH, position=0, initiator=ANN),
            token(SHOP, ANN, 3, GOLD, position=1, initiator=ANN),
        ]
        assert categories(*legs) == ["wrap", "wrap", "in"]

    def test_is_not_coins_for_tokens_of_another_contract(self) -> None:
        legs = [move(K.NATIVE, ANN, ROUTER, 10), token(ROUTER, ANN, 10, WETH, initiator=ANN)]
        assert categories(*legs) == ["swap", "swap"]


class TestApproval:
    def test_is_the_fee_of_a_transaction_that_only_grants_an_allowance(self) -> None:
        assert categories(fee(ANN, is_approval=True)) == ["approval"]
        assert categories(fee(ANN)) == ["fee"]

    def test_is_a_fee_if_anything_moved(self) -> None:
        paid = [fee(ANN, is_approval=True), token(ANN, SHOP, 1, position=0, is_approval=True)]
        assert categories(*paid) == ["fee", "out"]

    def test_is_not_about_other_transactions(self) -> None:
        paid = [fee(ANN, is_approval=True), token(ANN, SHOP, 1, transaction_index=1)]
        assert categories(*paid) == ["approval", "out"]


class TestSpoof:
    def test_sends_nothing_in_the_name_of_a_wallet(self) -> None:
        (entry,) = classified([token(ANN, MALLORY, 0, initiator=MALLORY)])
        assert entry.category is C.SPOOF
        assert entry.flags == {Flag.ZERO_VALUE}

    def test_sends_more_than_the_wallet_has(self) -> None:
        past = Past()
        classified([token(SHOP, ANN, 10)], past)
        assert categories(token(ANN, MALLORY, 11, block=2, initiator=MALLORY), past=past) == [
            "spoof"
        ]

    def test_is_not_a_payment_that_the_wallet_has_allowed(self) -> None:
        past = Past()
        classified([token(SHOP, ANN, 10)], past)
        assert categories(token(ANN, SHOP, 10, block=2, initiator=MALLORY), past=past) == ["out"]

    def test_is_not_what_the_group_has_signed(self) -> None:
        assert categories(token(ANN, SHOP, 0)) == ["out"]
        assert categories(token(ANN, SHOP, 99, initiator=BOB)) == ["out"]

    def test_is_not_what_is_above_an_unknown_balance(self) -> None:
        past = Past(incomplete=frozenset({ANN}))
        assert categories(token(ANN, SHOP, 10, initiator=MALLORY), past=past) == ["out"]
        assert categories(token(ANN, SHOP, 0, block=2, initiator=MALLORY), past=past) == ["spoof"]

    def test_is_not_what_the_protocol_has_moved(self) -> None:
        internal = move(K.INTERNAL, ANN, SHOP, 10, position=0, initiator=MALLORY)
        assert categories(internal) == ["out"]

    def test_takes_an_nft_that_the_wallet_does_not_own(self) -> None:
        past = Past()
        classified([move(K.NFT, SHOP, ANN, token=GOLD, token_id=1)], past)
        stolen: dict[str, Any] = {"token": GOLD, "initiator": MALLORY, "block": 2}
        found = [move(K.NFT, ANN, SHOP, token_id=n, position=n, **stolen) for n in (1, 2)]
        assert categories(*found, past=past) == ["out", "spoof"]

    def test_is_a_spoof_for_both_own_wallets(self) -> None:
        found = classified([token(ANN, BOB, 5, FAKE, initiator=MALLORY)])
        assert read(found) == [(ANN, -1, "spoof"), (BOB, 1, "spoof")]

    def test_counts_what_came_earlier_in_a_batch(self) -> None:
        batch: dict[str, Any] = {"token": GOLD, "token_id": 1, "position": 0, "initiator": MALLORY}
        found = [
            move(K.MULTI_TOKEN, ANN, SHOP, 5, batch_position=1, **batch),
            move(K.MULTI_TOKEN, SHOP, ANN, 5, batch_position=0, **batch),
        ]
        assert categories(*found) == ["in", "out"]

    def test_counts_what_came_earlier_in_the_block(self) -> None:
        found = [
            token(ANN, SHOP, 5, position=7, transaction_index=2, initiator=MALLORY),
            token(SHOP, ANN, 5, position=3, transaction_index=1),
        ]
        assert categories(*found) == ["in", "out"]


class TestLookalike:
    def paid(self) -> Past:
        past = Past()
        classified([token(SHOP, ANN, 10, block=1), token(ANN, SHOP, 10, block=2)], past)
        return past

    @pytest.mark.parametrize(
        "poison",
        [
            token(SHOP_LIKE, ANN, 1, block=3),  # dust
            token(SHOP_LIKE, ANN, 0, block=3),
            token(ANN, SHOP_LIKE, 0, block=3, initiator=MALLORY),
            token(ANN, SHOP_LIKE, 10, FAKE, block=3, initiator=MALLORY),
            move(K.NATIVE, SHOP_LIKE, ANN, 1, block=3),
            move(K.NATIVE, ANN, SHOP_LIKE, 1, block=3),  # the victim was fooled
        ],
    )
    def test_resembles_an_address_that_the_wallet_has_paid(self, poison: Movement) -> None:
        (entry,) = classified([poison], self.paid())
        assert Flag.LOOKALIKE in entry.flags

    def test_stays_one_after_it_was_paid(self) -> None:
        past = self.paid()
        classified([token(ANN, SHOP_LIKE, 1, block=3)], past)
        again = classified([token(ANN, SHOP_LIKE, 1, block=4), token(ANN, SHOP, 1, block=5)], past)
        assert [Flag.LOOKALIKE in it.flags for it in again] == [True, False]

    def test_resembles_a_wallet_of_the_group(self) -> None:
        (entry,) = classified([token(BOB_LIKE, ANN, 1)])
        assert entry.flags == {Flag.LOOKALIKE}

    def test_is_not_one_for_a_wallet_that_paid_nobody(self) -> None:
        (entry,) = classified([token(SHOP_LIKE, BOB, 1, block=3)], self.paid())
        assert not entry.flags

    @pytest.mark.parametrize(
        "claimed",
        [
            token(ANN, SHOP_LIKE, 0, block=3, initiator=MALLORY),
            token(ANN, SHOP_LIKE, 7, FAKE, block=3, initiator=MALLORY),
            token(ANN, SHOP_LIKE, 0, block=3),
        ],
    )
    def test_an_attacker_cannot_make_an_address_a_known_one(self, claimed: Movement) -> None:
        past = Past()
        found = classified([claimed, token(ANN, SHOP, 1, block=4)], past)
        assert not found[-1].flags
        assert past.payees == {ANN: {face(hexed(SHOP)): Payee(SHOP, 4)}}


def test_movements_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="order of their blocks"):
        classified([token(SHOP, ANN, block=2), token(SHOP, ANN, block=1)])


def test_a_block_is_not_classified_twice() -> None:
    classifier = Classifier(OWN, Past(), hexed)
    assert len(classifier.add([token(SHOP, ANN, block=2)]) + classifier.finish()) == 1
    assert not classifier.finish()
    with pytest.raises(ValueError, match="order of their blocks"):
        classifier.add([token(SHOP, ANN, block=2, position=1)])
    assert len(classifier.add([token(SHOP, ANN, block=3)]) + classifier.finish()) == 1


def test_the_number_of_remembered_payees_is_bounded() -> None:
    past = Past()
    for number in range(MOST_PAYEES + 2):
        past.pay(ANN, str(number), Payee(b"%d" % number, number))
    assert len(past.payees[ANN]) == MOST_PAYEES
    later = Past()
    later.pay(ANN, "later", Payee(SHOP, MOST_PAYEES + 2))
    past.append(later)
    assert len(past.payees[ANN]) == MOST_PAYEES
    past.retract(10, [])
    assert [*past.payees[ANN]] == [str(number) for number in range(10)]


def test_an_address_is_known_by_its_ends() -> None:
    assert face(hexed(SHOP)) == face(hexed(SHOP_LIKE)) == face(hexed(SHOP).upper()[2:])
    assert face("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t") == "tr7nlj6t"
