"""A wallet store beside a model of it: whatever is asked of both, they hold the same."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gapless.chains.movements import Movement
from gapless.chains.opening import open_sink
from gapless.core.errors import BrokenSeam, FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import AccompaniedSink
from gapless.wallets.records import Page
from gapless.wallets.store import WalletStore
from gapless.wallets.store.coverage import folded
from tests.conformance.sink.model import Refusal, hash_at, on
from tests.conformance.sink.stage import CHAIN_ID
from tests.conformance.wallet_store.model import Model, Placed, Scanned, heights
from tests.conformance.wallet_store.stage import (
    NEEDED,
    NETWORK,
    RULES,
    WALLETS,
    blocks,
    entries_of,
    moved,
    scan,
)

T = TypeVar("T")

LOWEST = 12  # the branches part at 20
EVERYTHING = Page(limit=10_000)
SETS = {
    "one": frozenset(WALLETS[:2]),
    "two": frozenset(WALLETS[1:4]),
    "three": frozenset(WALLETS[4:5]),
}
CELL = 4
cells = st.tuples(st.integers(0, 3), st.integers(1, 2)).map(
    lambda it: Span(LOWEST + CELL * it[0], LOWEST + CELL * (it[0] + it[1]) - 1)
)
spans = cells | st.tuples(st.integers(LOWEST, LOWEST + 14), st.integers(1, 10)).map(
    lambda it: Span(it[0], it[0] + it[1] - 1)
)
"""Often neighbours, which can be folded."""
fences = st.integers(1, 6)
branches = st.sampled_from([0, 0, 1])
groups = st.sampled_from(["home", "work"])
some_wallets = st.lists(st.sampled_from(WALLETS), min_size=1, max_size=3, unique=True)


class StoreMachine(RuleBasedStateMachine):
    name: ClassVar[str] = "wallets.db"

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    @property
    def target(self) -> str:
        return f"{self.folder.name}/{self.name}"

    @initialize()
    def open(self) -> None:
        opened = self.run(open_sink(self.target))
        assert isinstance(opened, AccompaniedSink)
        self.sink, self.store = opened, WalletStore.of(opened)
        self.run(self.store.put_tokens(CHAIN_ID, {}))

    @rule()
    def reopen(self) -> None:
        self.run(self.sink.close())
        self.open()

    @rule(
        span=spans,
        branch=branches,
        fence=fences,
        names=st.sampled_from([NEEDED, NEEDED, ("blocks",), ("blocks", "transactions")]),
    )
    def write_blocks(self, span: Span, branch: int, fence: int, names: tuple[str, ...]) -> None:
        expected = self.model.sink.refusal_of_write(span, branch, fence, names)
        batch = blocks(*span, branch=branch, names=names)
        assert self._refusal(self.sink.write(batch, fence)) == expected
        if expected is None:
            self.model.write_blocks(span, branch, fence, names)

    @rule(span=spans, fence=fences)
    def retract_blocks(self, span: Span, fence: int) -> None:
        expected = self.model.sink.refusal_of_fence(span, fence, ("blocks",))
        assert self._refusal(self.sink.retract(CHAIN_ID, span, fence)) == expected
        if expected is None:
            self.model.retract_blocks(span, fence)

    @rule(
        set_=st.sampled_from([*SETS]),
        span=spans,
        branch=branches,
        fence=fences,
        proven=st.sampled_from([("agreed",), ("agreed",), ()]),
        missed=st.just(set()) | st.sets(st.integers(0, 20), max_size=3),
    )
    def scan(
        self,
        set_: str,
        span: Span,
        branch: int,
        fence: int,
        proven: tuple[str, ...],
        missed: set[int],
    ) -> None:
        """A scan may miss something: the next one finds it, or forgets what this one found."""
        addresses = SETS[set_]
        truth = moved(span, addresses, branch)
        found = [it for at, it in enumerate(truth) if at not in missed]
        expected = self.model.refusal_of_scan(set_, addresses, span, fence)
        is_other = self.model.is_other_branch(span, branch, found)
        about = scan(*span, set_=set_, fence=fence, branch=branch, proven=proven)
        refusal = self._refusal(self.store.write(about, addresses, found))
        if expected is None and is_other:
            assert refusal is not None
            assert refusal.error is BrokenSeam
        else:
            assert refusal == expected
        if refusal is None:
            how = Scanned(fence, about.proven)
            self.model.scan(set_, addresses, span, branch, how, found)

    @rule(span=spans, fence=fences)
    def retract(self, span: Span, fence: int) -> None:
        expected = self.model.refusal_of_retraction(span, fence)
        assert self._refusal(self.store.retract(CHAIN_ID, span, fence)) == expected
        if expected is None:
            self.model.retract(span, fence)

    @rule(
        group=groups,
        addresses=some_wallets,
        above=st.integers(LOWEST - 1, LOWEST + 20),
        searched=st.none() | st.integers(1, 20),
    )
    def add_members(
        self, group: str, addresses: list[bytes], above: int, searched: int | None
    ) -> None:
        first = None if searched is None else max(above + 1 - searched, 0)
        adding = self.store.add_members(
            group, NETWORK, RULES, addresses, above, searched_from=first
        )
        self.run(adding)
        self.model.add_members(group, addresses, above, first)

    @rule(group=groups, addresses=some_wallets, purge=st.booleans())
    def remove_members(self, group: str, addresses: list[bytes], purge: bool) -> None:
        self.run(self.store.remove_members(group, CHAIN_ID, addresses, purge=purge))
        self.model.remove_members(group, addresses)
        if purge:
            self.model.purge(group, addresses)

    @rule(
        group=groups,
        span=spans,
        epoch=st.integers(1, 4),
        category=st.sampled_from(["in", "swap"]),
        is_stale=st.booleans(),
    )
    def interpret(self, group: str, span: Span, epoch: int, category: str, is_stale: bool) -> None:
        members = {it.address for it in self.run(self.store.members(CHAIN_ID, group))}
        facts = self._streamed(members, span)
        new = entries_of(facts, members, category)
        stale = facts[1:] if is_stale else facts
        asked = self.store.replace_entries(group, CHAIN_ID, span, stale, new, epoch)
        if epoch < self.model.latest_epoch(group):
            assert self._refusal(asked) == Refusal(FencedOff, RangeSet())
            return
        is_replaced = self.run(asked)
        assert is_replaced == (stale == facts)
        self.model.begin_epoch(group, epoch)
        if is_replaced:
            self.model.interpret(group, span, category)

    @invariant()
    def both_know_the_same_facts(self) -> None:
        assert {it.key: it for it in self._streamed(WALLETS)} == self.model.facts
        found = self.run(self.store.movements(CHAIN_ID, WALLETS, page=EVERYTHING))
        assert found == [*reversed(self._streamed(WALLETS))]
        for height, held in self.model.sink.tables["blocks"].items():
            hashes = {it.block_hash for it in found if it.block_number == height}
            assert hashes <= {hash_at(height, held.branch)}

    @invariant()
    def both_scanned_the_same(self) -> None:
        for set_, addresses in SETS.items():
            found = self.run(self.store.scans(CHAIN_ID, set_))
            assert folded(found) == found
            known = self.model.scanned[set_]
            assert RangeSet(it.span for it in found) == RangeSet.from_members(known)
            for it in found:
                before = {at: known[at] for at in heights(it.span)}
                assert it.fence == max(each.fence for each in before.values())
                assert {each.proven for each in before.values()} == {it.proven}
                for at, each in before.items():
                    assert at + 1 not in before or each.branch == on(before[at + 1].branch, at)
                    known[at] = each._replace(fence=it.fence)
            is_whole = self.model.sets.get(set_) == addresses
            whole = self.run(self.store.scans(CHAIN_ID, set_, addresses))
            assert whole == (found if is_whole else [])

    @invariant()
    def both_have_the_same_members(self) -> None:
        found = self.run(self.store.members(CHAIN_ID))
        assert {(it.group, it.address): it.above for it in found} == self.model.members
        epochs = {(it.group, it.address): it.epoch for it in found}
        assert epochs == {it: self.model.epochs[it] for it in self.model.members}

    @invariant()
    def both_have_the_same_entries_and_balances(self) -> None:
        found = {}
        sums = {}
        for group in ("home", "work"):
            for it, entry in self.run(self.store.entries(group, page=EVERYTHING)):
                assert it == self.model.facts[entry.movement]
                found[Placed(group, entry.wallet, entry.movement)] = entry
            for each in self.run(self.store.balances(group)):
                sums[group, each.wallet, each.token, each.token_id] = each.amount, each.entries
        assert found == self.model.entries
        assert sums == self.model.balances()

    def teardown(self) -> None:
        if hasattr(self, "sink"):
            self.run(self.sink.close())
        self.runner.close()
        self.folder.cleanup()

    def _streamed(self, addresses: Any, span: Span = Span(0, 100)) -> list[Movement]:  # noqa: B008
        async def read() -> list[Movement]:
            return [
                it async for piece in self.store.stream(CHAIN_ID, addresses, span) for it in piece
            ]

        return self.run(read())

    def _refusal(self, asked: Coroutine[Any, Any, Any]) -> Refusal | None:
        try:
            self.run(asked)
        except FencedOff as error:
            return Refusal(FencedOff, error.stored)
        except BrokenSeam as error:
            return Refusal(BrokenSeam, error.height)
        return None
