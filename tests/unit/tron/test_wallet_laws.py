"""Laws of TRON's movements, for random blocks of a simulated world that keeps its own accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.movements import Movement
from gapless.chains.tron.protobuf import bytes_field
from gapless.chains.tron.tokens import TRANSFER
from gapless.schema.arrow import Tables
from tests.unit.tron.answers import Json, log, raw_data, word
from tests.unit.tron.wallet_stage import (
    ANN,
    ART,
    BOB,
    CAT,
    COIN,
    Done,
    calls,
    full,
    internal,
    moved,
    rows_of,
    transfers,
)

people = st.sampled_from((ANN, BOB, ART))
amounts = st.integers(0, 2**63 - 1) | st.integers(0, 3)
Holding = tuple[bytes, bytes, int | None]
Deed = Callable[["World", st.DataObject], Done]


@dataclass
class World:
    """What everybody has gained, nobody included."""

    holdings: Counter[Holding] = field(default_factory=Counter)

    def move(
        self,
        sender: bytes,
        receiver: bytes,
        amount: int,
        token: bytes = b"",
        id_: int | None = None,
    ) -> None:
        for party, change in ((sender, -amount), (receiver, amount)):
            self.holdings[b"" if party == bytes(20) else party, token, id_] += change


def pays(world: World, data: st.DataObject) -> Done:
    sender, receiver, amount = data.draw(people), data.draw(people), data.draw(amounts)
    world.move(sender, receiver, amount)
    return Done(transfers(amount, sender, receiver), _fee(world, data, sender))


def fails(world: World, data: st.DataObject) -> Done:
    facts = {"result": "FAILED", "internal_transactions": [internal(5)]}
    return Done(calls(data.draw(amounts)), {**facts, **_fee(world, data, ANN)}, "REVERT")


def acts(world: World, data: st.DataObject) -> Done:
    by, value, units = data.draw(people), data.draw(amounts), data.draw(amounts)
    world.move(by, CAT, value)
    world.move(by, CAT, units, b"1000001")
    inner, logs = list[Json](), list[Json]()
    for _ in range(data.draw(st.integers(0, 2))):
        receiver, amount = data.draw(people), data.draw(amounts)
        world.move(CAT, receiver, amount)
        inner.append(internal(amount, CAT, receiver))
    for _ in range(data.draw(st.integers(0, 2))):
        sender, receiver, number = data.draw(people), data.draw(people), data.draw(amounts)
        parties = TRANSFER.hex(), word(sender), word(receiver)
        if data.draw(st.booleans()):
            world.move(sender, receiver, number, COIN)
            logs.append(log(*parties, data=word(number)))
        else:
            world.move(sender, receiver, 1, COIN, number)
            logs.append(log(*parties, word(number)))
    facts = {"log": logs, "internal_transactions": inner, **_fee(world, data, by)}
    return Done(calls(value, units, by=by), facts)


def withdraws(world: World, data: st.DataObject) -> Done:
    amount = data.draw(amounts)
    world.move(bytes(20), ANN, amount)
    facts = {"withdraw_amount": amount, **_fee(world, data, ANN)}
    return Done(raw_data(13, bytes_field(1, full(ANN))), facts)


def _fee(world: World, data: st.DataObject, payer: bytes) -> Json:
    fee = data.draw(amounts)
    world.move(payer, bytes(20), fee)
    return {"fee": fee}


DEEDS: Sequence[Deed] = (pays, fails, acts, withdraws)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, Tables]:
    world, data = World(), draw(st.data())
    deeds = draw(st.lists(st.sampled_from(DEEDS), min_size=1, max_size=4))
    return world, rows_of(*(deed(world, data) for deed in deeds))


def gains(movements: Sequence[Movement]) -> Counter[Holding]:
    found = Counter[Holding]()
    for it in movements:
        found[it.sender, it.token, it.token_id] -= it.amount
        found[it.receiver, it.token, it.token_id] += it.amount
    return found


def changed(holdings: Counter[Holding]) -> dict[Holding, int]:
    return {key: amount for key, amount in holdings.items() if amount}


@given(worlds())
def test_movements_of_everybody_are_what_happened(found: tuple[World, Tables]) -> None:
    world, rows = found
    everything = moved(rows)
    assert changed(gains(everything)) == changed(world.holdings)
    keys = [it.key for it in everything]
    assert keys == sorted({*keys})


@given(worlds(), st.sets(people, min_size=1))
def test_who_else_is_looked_for_changes_nothing(
    found: tuple[World, Tables], addresses: set[bytes]
) -> None:
    _, rows = found
    theirs = [it for it in moved(rows) if {it.sender, it.receiver} & addresses]
    assert moved(rows, *addresses) == theirs
