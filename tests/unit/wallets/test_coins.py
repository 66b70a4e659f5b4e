"""Bisecting accounts finds every block that changed them, and claims nothing that it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.movements import (
    NOBODY,
    AccountAt,
    Coded,
    Movement,
    MovementKind,
    Snapshot,
    Snapshots,
    WalletNode,
)
from gapless.chains.wallet_rows import Place
from gapless.core.ranges import Span
from gapless.wallets.coins import CoinChanges, CoinSearch

ANN, BEN = b"\x0a" * 20, b"\x0b" * 20
LAST = 60
PLACES = {at: Place(1, at, bytes([at]) * 32, at) for at in range(LAST + 1)}


class Block(NamedTuple):
    """What a block does to an account."""

    spent: int = 0  # by transactions that it signs
    signed: int = 0
    hidden: int = 0  # what it gets without a trace
    authorized: int = 0  # how often its nonce grows without a transaction


class Archive:
    """A node that remembers everything, and what it was asked."""

    def __init__(
        self, blocks: Mapping[bytes, Mapping[int, Block]], signed_since: int | None = 0
    ) -> None:
        self.signed_since = signed_since
        self.coded: frozenset[AccountAt] = frozenset()
        self.is_agreed_on_code = self.is_agreed = False
        self.asked: list[AccountAt] = []
        self._blocks = blocks

    async def snapshots(self, wanted: Sequence[AccountAt]) -> Snapshots:
        self.asked += wanted
        return Snapshots([self._snapshot(it) for it in wanted], self.is_agreed)

    async def with_code(self, wanted: Sequence[AccountAt]) -> Coded:
        return Coded(self.coded & {*wanted}, self.is_agreed_on_code)

    def _snapshot(self, wanted: AccountAt) -> Snapshot:
        its = [it for at, it in self._blocks[wanted.address].items() if at <= wanted.height]
        balance = sum(it.hidden - it.spent for it in its)
        return Snapshot(balance, sum(it.signed + it.authorized for it in its))


class Outcome(NamedTuple):
    leaves: dict[bytes, list[int]]
    rests: dict[int, int]
    proven: frozenset[bytes]


def search(archive: Archive, blocks: Mapping[int, Block], span: Span, known: set[int]) -> Outcome:
    """Bisects ANN, who did what `blocks` say; some blocks are known beforehand."""

    def learn(changes: CoinChanges, heights: set[int]) -> None:
        its = {at: blocks[at] for at in heights & blocks.keys()}
        spent = [_fee(at, it.spent) for at, it in its.items()]
        changes.add(spent, [(at, ANN) for at, it in its.items() for _ in range(it.signed)])

    async def run() -> Outcome:
        coins = CoinSearch(cast(WalletNode, archive))
        ends = await coins.ends(span, [ANN], LAST)
        assert ends is not None
        changes = CoinChanges()
        learn(changes, known)
        found = await coins.bisect(ends, changes)
        assert found is not None
        learn(changes, found.heights - known)
        rests, proven = found.remainders(changes, PLACES)
        leaves = {it: sorted(leaf.height for leaf in its) for it, its in found.leaves.items()}
        return Outcome(leaves, {it.block_number: it.amount for it in rests}, proven)

    return asyncio.run(run())


def _fee(height: int, amount: int) -> Movement:
    return PLACES[height].movement(MovementKind.FEE, ANN, NOBODY, amount)


few = st.integers(0, 3)
busy = st.builds(Block, few, st.integers(1, 2), few, st.just(0))
quiet = st.builds(Block, st.just(0), st.just(0), few, st.just(0))
histories = st.dictionaries(st.integers(0, LAST), busy | quiet, max_size=12)


@given(histories, st.sets(st.integers(0, LAST)), st.tuples(*[st.integers(0, LAST)] * 2))
def test_every_hidden_coin_of_a_span_is_found(
    history: dict[int, Block], known: set[int], ends: tuple[int, int]
) -> None:
    span, signing = Span(*sorted(ends)), {**history, LAST: Block(signed=1)}
    archive = Archive({ANN: signing})
    inside = {at for at in known if span.first <= at <= span.last}
    found = search(archive, signing, span, inside)
    hidden = {at: it.hidden for at, it in signing.items() if it.hidden}
    assert found.proven == {ANN}
    assert found.rests == {at: it for at, it in hidden.items() if span.first <= at <= span.last}
    assert len(archive.asked) == len({*archive.asked}), "nothing is asked twice"


def test_what_is_known_is_not_looked_for() -> None:
    history = {at: Block(spent=1, signed=1) for at in range(10, 50)}
    archive = Archive({ANN: history})
    found = search(archive, history, Span(0, LAST), {*history})
    assert found == Outcome({ANN: []}, {}, frozenset({ANN}))
    assert len(archive.asked) == 2  # before and after


def test_equal_ends_hide_nothing_if_the_nonce_grew() -> None:
    """It got and spent the same."""
    history = {20: Block(hidden=5), 40: Block(spent=5, signed=1)}
    found = search(Archive({ANN: history}), history, Span(0, LAST), set())
    assert found == Outcome({ANN: [20, 40]}, {20: 5}, frozenset({ANN}))


def test_a_delegation_proves_nothing() -> None:
    """Its nonce grew without a transaction, so it may have had code for a while."""
    history = {20: Block(signed=1), 30: Block(authorized=2), 40: Block(hidden=5)}
    found = search(Archive({ANN: history}), history, Span(0, LAST), set())
    assert (found.rests, found.proven) == ({}, frozenset())


def test_a_nonce_that_no_signature_explains_proves_nothing() -> None:
    """It may be a contract that was created without code, and had some before."""
    history = {20: Block(authorized=1)}
    assert search(Archive({ANN: history}), history, Span(0, LAST), set()).proven == frozenset()
    before = search(Archive({ANN: history}), history, Span(0, 19), set())
    assert before.proven == {ANN}, "the other span decides"


def test_spending_without_a_signature_proves_nothing() -> None:
    history = {20: Block(signed=1, hidden=9), 30: Block(hidden=-1)}
    assert search(Archive({ANN: history}), history, Span(0, LAST), set()).proven == frozenset()


async def _accounts(archive: Archive, span: Span) -> Any:
    found = await CoinSearch(cast(WalletNode, archive)).ends(span, [ANN, BEN], LAST)
    return None if found is None else {*found.accounts}


def test_only_accounts_without_code_that_sign_are_bisected() -> None:
    archive = Archive({ANN: {30: Block(signed=1)}, BEN: {30: Block(hidden=1)}})
    assert asyncio.run(_accounts(archive, Span(10, 20))) == {ANN}
    archive.coded = frozenset({AccountAt(ANN, 9)})
    assert asyncio.run(_accounts(archive, Span(10, 20))) == set()


def test_ends_are_agreed_if_two_endpoints_know_the_same_code_too() -> None:
    archive = Archive({ANN: {30: Block(signed=1)}})
    archive.is_agreed = True
    for archive.is_agreed_on_code in (False, True):
        ends = asyncio.run(CoinSearch(cast(WalletNode, archive)).ends(Span(10, 20), [ANN], LAST))
        assert ends is not None
        assert ends.is_agreed is archive.is_agreed_on_code


def test_networks_that_are_not_listed_are_not_bisected() -> None:
    blocks = {ANN: {30: Block(signed=1)}, BEN: {30: Block(signed=1)}}
    assert asyncio.run(_accounts(Archive(blocks, None), Span(10, 20))) is None
    assert asyncio.run(_accounts(Archive(blocks, 11), Span(10, 20))) is None
    assert asyncio.run(_accounts(Archive(blocks, 10), Span(10, 20))) == {ANN, BEN}
