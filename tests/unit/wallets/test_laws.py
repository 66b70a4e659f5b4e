"""What holds for the classification of any history, however it is cut."""

from __future__ import annotations

from copy import deepcopy
from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.chains.movements import NOBODY, Movement
from gapless.wallets.balances import Asset, Sums
from gapless.wallets.categories import Category, Flag, Overrides, WalletEntry, overridden
from gapless.wallets.classify import Classifier
from gapless.wallets.past import Past, face
from tests.unit.wallets.moves import (
    ANN,
    BOB,
    FAKE,
    GOLD,
    MALLORY,
    OWN,
    SHOP,
    SHOP_LIKE,
    classified,
    hexed,
    histories,
    paired,
    token,
)


def blocks(movements: list[Movement]) -> list[list[Movement]]:
    return [[*group] for _, group in groupby(movements, lambda it: it.block_number)]


def after(movements: list[Movement]) -> Past:
    past = Past()
    classified(movements, past)
    return past


@given(histories())
def test_each_own_side_of_each_movement_has_exactly_one_entry(movements: list[Movement]) -> None:
    found = [(it.movement, it.wallet, it.direction) for it in classified(movements)]
    expected = []
    for it in movements:
        if it.sender == it.receiver:
            expected.append((it.key, it.sender, 0))
        else:
            expected += [(it.key, it.sender, -1)] if it.sender in OWN else []
            expected += [(it.key, it.receiver, 1)] if it.receiver in OWN else []
    assert sorted(found) == sorted(expected)


@given(histories(), st.lists(st.integers(0, 20), max_size=6))
def test_pages_of_any_size_give_the_same(movements: list[Movement], sizes: list[int]) -> None:
    past, left, entries = Past(), movements, list[WalletEntry]()
    classifier = Classifier(OWN, past, hexed)
    for size in [*sizes, len(movements)]:
        entries += classifier.add(left[:size])
        left = left[size:]
    entries += classifier.finish()
    whole = Past()
    assert entries == classified(movements, whole)
    assert past == whole


@given(histories())
def test_block_by_block_from_stored_state_gives_the_same(movements: list[Movement]) -> None:
    """The store need only answer for the tokens and faces of a block."""
    past, entries = Past(), list[WalletEntry]()
    for block in blocks(movements):
        tokens = {(it.token, it.token_id) for it in block}
        faces = {
            face(hexed(it)) for movement in block for it in (movement.sender, movement.receiver)
        }
        loaded = Past(
            Sums({it: amount for it, amount in past.sums.items() if it[1:] in tokens}),
            {
                wallet: {shown: it for shown, it in payees.items() if shown in faces}
                for wallet, payees in past.payees.items()
            },
        )
        entries += classified(block, loaded)
        classified(block, past)
    assert entries == classified(movements)


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_within_a_block_does_not_matter(
    movements: list[Movement], chance: object
) -> None:
    shuffled = []
    for block in blocks(movements):
        chance.shuffle(block)  # type: ignore[attr-defined]
        shuffled += block
    assert classified(shuffled) == classified(movements)


@given(histories(), st.integers(0, 8))
def test_pasts_of_parts_join_to_the_past_of_the_whole(movements: list[Movement], cut: int) -> None:
    parts = blocks(movements)
    joined = after([it for part in parts[:cut] for it in part])
    joined.append(after([it for part in parts[cut:] for it in part]))
    assert joined == after(movements)


@given(histories().filter(bool), st.data())
def test_a_retracted_block_leaves_no_trace(movements: list[Movement], data: st.DataObject) -> None:
    first = data.draw(st.sampled_from(movements)).block_number
    past = after([it for it in movements if it.block_number < first])
    before = deepcopy(past)
    gone = [it for it in movements if it.block_number >= first]
    entries = classified(gone, past)
    past.retract(first, paired(gone, entries))
    assert past == before
    assert classified(gone, past) == entries
    assert past == after(movements)


@given(histories())
def test_entries_between_own_wallets_add_up_to_zero(movements: list[Movement]) -> None:
    sums = Sums()
    for movement, entry in paired(movements, classified(movements)):
        if entry.category is Category.BETWEEN:
            sums.add(movement, entry)
    totals: dict[tuple[bytes, int | None], int] = {}
    for asset, amount in sums.items():
        totals[asset[1:]] = totals.get(asset[1:], 0) + amount
    assert not any(totals.values())


@given(histories(), st.randoms(use_true_random=False))
def test_sums_do_not_depend_on_the_order(movements: list[Movement], chance: object) -> None:
    past = Past()
    pairs = paired(movements, classified(movements, past))
    chance.shuffle(pairs)  # type: ignore[attr-defined]
    sums, others = Sums(), Sums()
    for at, pair in enumerate(pairs):
        (sums if at % 2 else others).add(*pair)
    sums.merge(others)
    assert sums == past.sums


@given(histories(), histories())
def test_adding_and_subtracting_is_nothing(kept: list[Movement], gone: list[Movement]) -> None:
    sums = after(kept).sums
    before = deepcopy(sums)
    pairs = paired(gone, classified(gone))
    for pair in pairs:
        sums.add(*pair)
    for pair in reversed(pairs):
        sums.subtract(*pair)
    assert sums == before


@given(histories(), st.data())
def test_an_override_wins_and_survives(movements: list[Movement], data: st.DataObject) -> None:
    entries = classified(movements)
    categories = st.sampled_from(Category)
    keys = [(it.movement, it.wallet) for it in entries]
    some = st.dictionaries(st.sampled_from(keys), categories) if keys else st.just({})
    overrides: Overrides = data.draw(some)
    found = [*overridden(entries, overrides)]
    for rule, entry in zip(entries, found, strict=True):
        key = (rule.movement, rule.wallet)
        is_set = key in overrides
        assert entry.category == (overrides[key] if is_set else rule.category)
        assert entry.flags == rule.flags | ({Flag.MANUAL} if is_set else set())
    assert found == [*overridden(classified(movements), overrides)]


honest = st.tuples(st.sampled_from([ANN, BOB, SHOP]), st.sampled_from([ANN, BOB, SHOP]))
steps = st.lists(st.tuples(honest, st.integers(0, 9), st.booleans(), st.booleans()), max_size=30)


@given(steps)
def test_poison_does_not_make_the_balance_of_an_honest_token_wrong(
    plan: list[tuple[tuple[bytes, bytes], int, bool, bool]],
) -> None:
    """The contract of `GOLD` sends only what its sender has; that of `FAKE` says anything."""
    held = {ANN: 10, BOB: 0, SHOP: 10}
    history = [token(NOBODY, ANN, 10, block=1)]
    for number, ((sender, receiver), wanted, is_signed, is_poisoned) in enumerate(plan, 2):
        amount = min(wanted, held[sender])
        held[sender] -= amount
        held[receiver] += amount
        signer = sender if is_signed else MALLORY  # who has an allowance, unless it is 0
        if OWN & {sender, receiver}:
            history.append(token(sender, receiver, amount, block=number, initiator=signer))
        if is_poisoned:
            for position, (poison, value) in enumerate([(GOLD, 0), (FAKE, amount + 1)], 1):
                more = {"block": number, "position": position, "transaction_index": 1}
                history.append(token(ANN, SHOP_LIKE, value, poison, initiator=MALLORY, **more))
    past = Past()
    entries = classified(history, past)
    assert all(past.sums[Asset(it, GOLD, None)] == held[it] for it in OWN)
    for movement, entry in paired(history, entries):
        if movement.receiver == SHOP_LIKE:
            assert entry.category is Category.SPOOF
        elif movement.amount:
            assert entry.category is not Category.SPOOF


def test_the_histories_have_everything() -> None:
    """The laws would be worth little if histories were all alike."""
    seen: set[str] = set()

    @settings(max_examples=300, derandomize=True)
    @given(histories())
    def look(movements: list[Movement]) -> None:
        for entry in classified(movements):
            seen.update([entry.category, *entry.flags])

    look()
    assert seen == {*Category, *Flag} - {Flag.MANUAL}
