"""Laws of movements, for random blocks of a simulated world that keeps its own accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.evm.wallet_tokens import BATCH, DEPOSIT, SINGLE, WITHDRAWAL
from gapless.chains.movements import Movement
from gapless.schema.arrow import Tables
from tests.unit.evm.answers import Json
from tests.unit.evm.test_wallet_tokens import WETH, batch
from tests.unit.evm.wallet_stage import (
    ANN,
    ART,
    BOB,
    CAT,
    COIN,
    FEE,
    NOBODY,
    ROUTER,
    Sent,
    event,
    hexed,
    looked_up,
    moved,
    padded,
    rows_of,
    transfer,
    word,
)

PEOPLE = (ANN, BOB, CAT, ROUTER)
EVERYBODY = (*PEOPLE, COIN, ART, WETH, NOBODY)
ONE_NFT, COINS = 1, b""

people = st.sampled_from(PEOPLE)
parties = st.sampled_from((*PEOPLE, NOBODY))
amounts = st.integers(0, 2**256 - 1) | st.integers(0, 3)
Holding = tuple[bytes, bytes, int | None]  # owner, token, id


@dataclass
class World:
    """What everybody has gained, nobody included, and the transactions that caused it."""

    holdings: Counter[Holding] = field(default_factory=Counter)
    sent: list[Sent] = field(default_factory=list)
    withdrawals: list[tuple[bytes, int]] = field(default_factory=list)

    def move(
        self,
        sender: bytes,
        receiver: bytes,
        amount: int,
        token: bytes = COINS,
        id_: int | None = None,
    ) -> None:
        for party, change in ((sender, -amount), (receiver, amount)):
            self.holdings[b"" if party == NOBODY else party, token, id_] += change

    def rows(self) -> Tables:
        return rows_of(*self.sent, withdrawals=self.withdrawals)


Deed = Callable[[World, st.DataObject, bytes], list[Json]]
"""Changes holdings; returns the logs. The last argument is what the transaction calls."""


def tokens(world: World, data: st.DataObject, to: bytes) -> list[Json]:
    sender, receiver, amount = data.draw(parties), data.draw(parties), data.draw(amounts)
    world.move(sender, receiver, amount, COIN)
    return [transfer(sender, receiver, amount)]


def nft(world: World, data: st.DataObject, to: bytes) -> list[Json]:
    sender, receiver, id_ = data.draw(parties), data.draw(parties), data.draw(amounts)
    world.move(sender, receiver, ONE_NFT, ART, id_)
    return [event(ART, [TRANSFER, padded(sender), padded(receiver), word(id_)])]


def multi_tokens(world: World, data: st.DataObject, to: bytes) -> list[Json]:
    operator, sender, receiver = (padded(data.draw(parties)) for _ in range(3))
    pairs = data.draw(st.lists(st.tuples(amounts, amounts), max_size=3))
    for id_, amount in pairs:
        world.move(sender[12:], receiver[12:], amount, ART, id_)
    if len(pairs) == 1 and data.draw(st.booleans()):
        return [event(ART, [SINGLE, operator, sender, receiver], b"".join(map(word, pairs[0])))]
    lists = [[each[at] for each in pairs] for at in (0, 1)]
    return [event(ART, [BATCH, operator, sender, receiver], batch(*lists))]


def wrap(world: World, data: st.DataObject, to: bytes) -> list[Json]:
    owner, amount = data.draw(people), data.draw(amounts)
    world.move(NOBODY, owner, amount, WETH)
    if to != WETH:  # else the value of the transaction pays
        world.move(owner, WETH, amount)
    twin = [transfer(NOBODY, owner, amount, WETH)] if data.draw(st.booleans()) else []
    return [*twin, event(WETH, [DEPOSIT, padded(owner)], word(amount))]


def unwrap(world: World, data: st.DataObject, to: bytes) -> list[Json]:
    owner, amount = data.draw(people), data.draw(amounts)
    world.move(owner, NOBODY, amount, WETH)
    world.move(WETH, owner, amount)
    return [event(WETH, [WITHDRAWAL, padded(owner)], word(amount))]


def noise(world: World, data: st.DataObject, to: bytes) -> list[Json]:
    """A log that means nothing, whatever its topic."""
    topic = data.draw(st.sampled_from((TRANSFER, SINGLE, BATCH, DEPOSIT, WITHDRAWAL)))
    more = data.draw(st.lists(people.map(padded), max_size=3))
    return [event(ROUTER, [topic, *more], data.draw(st.binary(min_size=1, max_size=31)))]


DEEDS: tuple[Deed, ...] = (tokens, nft, multi_tokens, wrap, unwrap, noise)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world, data = World(), draw(st.data())
    for _ in range(draw(st.integers(0, 4))):
        sender, to = draw(people), draw(st.sampled_from((*PEOPLE, WETH, None)))
        value, minted = draw(amounts), draw(st.none() | amounts)
        is_done, is_deposit = draw(st.booleans()), minted is not None
        if is_deposit:
            world.move(NOBODY, sender, minted or 0)
        else:
            world.move(sender, NOBODY, FEE)
        if is_done:
            world.move(sender, to or CAT, value)
        deeds = draw(st.lists(st.sampled_from(DEEDS), max_size=3)) if is_done else []
        events = [log for deed in deeds for log in deed(world, data, to or CAT)]
        receipt = {"status": hex(is_done), "contractAddress": None if to else hexed(CAT)}
        more = {"type": "0x7e", "mint": hex(minted or 0)} if is_deposit else {}
        world.sent.append(Sent(sender, to, value, events, "0x", receipt, more))
    for _ in range(draw(st.integers(0, 2))):
        address, gwei = draw(people), draw(st.integers(0, 2**64 - 1))
        world.move(NOBODY, address, gwei * 10**9)
        world.withdrawals.append((address, gwei))
    return world


def gains(movements: list[Movement]) -> Counter[Holding]:
    found = Counter[Holding]()
    for it in movements:
        found[it.sender, it.token, it.token_id] -= it.amount
        found[it.receiver, it.token, it.token_id] += it.amount
    return found


def changed(holdings: Counter[Holding]) -> dict[Holding, int]:
    return {key: amount for key, amount in holdings.items() if amount}


@given(worlds())
def test_movements_of_everybody_are_what_happened(world: World) -> None:
    assert changed(gains(moved(world.rows(), *EVERYBODY))) == changed(world.holdings)


@given(worlds())
def test_every_token_is_conserved(world: World) -> None:
    """What everybody gained of a token is what was created of it, and nothing else."""
    movements = moved(world.rows(), *EVERYBODY)
    for token in {(it.token, it.token_id) for it in movements}:
        own = [it for it in movements if (it.token, it.token_id) == token]
        held = sum(amount for (owner, _, _), amount in gains(own).items() if owner in EVERYBODY)
        created = sum(it.amount for it in own if not it.sender)
        destroyed = sum(it.amount for it in own if not it.receiver)
        assert held == created - destroyed


@given(worlds(), st.sets(people))
def test_who_else_is_looked_for_changes_nothing(world: World, addresses: set[bytes]) -> None:
    rows = world.rows()
    everything = moved(rows, *EVERYBODY)
    theirs = [it for it in everything if {it.sender, it.receiver} & addresses]
    assert (moved(rows, *addresses) if addresses else []) == theirs


@given(worlds(), st.sets(people, min_size=1))
def test_rows_that_were_looked_up_say_the_same(world: World, addresses: set[bytes]) -> None:
    rows = world.rows()
    assert moved(looked_up(rows, addresses), *addresses) == moved(rows, *addresses)


@given(worlds())
def test_keys_are_unique_and_sorted(world: World) -> None:
    keys = [it.key for it in moved(world.rows(), *EVERYBODY)]
    assert keys == sorted({*keys})


hostile_logs = st.builds(
    event,
    st.sampled_from((WETH, ART, ANN)),
    st.lists(
        st.sampled_from((TRANSFER, SINGLE, BATCH, DEPOSIT, WITHDRAWAL, padded(ANN), word(1)))
        | st.binary(min_size=32, max_size=32),
        max_size=4,
    ),
    st.lists(
        st.sampled_from((word(0), word(1), word(32), word(64), word(2**255), padded(ANN))),
        max_size=8,
    ).map(b"".join)
    | st.binary(max_size=200),
)


@given(st.lists(hostile_logs, max_size=6))
def test_no_log_is_an_error(logs: list[Json]) -> None:
    for it in moved(rows_of(Sent(events=logs)), *EVERYBODY):
        assert 0 <= it.amount < 2**256
