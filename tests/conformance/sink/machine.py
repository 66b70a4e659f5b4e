"""A sink beside a model of it: whatever is asked of both, they hold the same."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from gapless.chains.opening import open_sink
from gapless.core.anchors import Anchor
from gapless.core.errors import BrokenSeam, FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import Access, Change, Request, Sink, Stored
from tests.conformance.sink.model import Model, Nature, Refusal
from tests.conformance.sink.stage import (
    CHAIN_ID,
    EVERYTHING,
    FORK,
    HEADERS,
    batch,
    examine,
    held,
)
from tests.evm import EVERY_TABLE

T = TypeVar("T")

LOWEST, MOST = 10, 12
heights = st.integers(LOWEST, LOWEST + 14)
sizes = st.integers(1, MOST)
fences = st.integers(1, 6)
some_tables = st.sampled_from(
    [EVERYTHING, EVERYTHING, HEADERS, ("blocks", "transactions"), ("blocks", "withdrawals")]
)


class Seen(NamedTuple):
    """Records that a reader saw, and what the model contained then."""

    records: list[Stored]
    span: Span
    held: object


natures = st.sampled_from(
    [
        Nature(frozenset(tables), frozenset(checks), frozenset(anchors))
        for tables in (HEADERS, EVERYTHING)
        for checks in ((), ("link", "hash"))
        for anchors in ((), (Anchor(FORK, bytes(32)),), (Anchor(FORK, bytes(32)), Anchor(12, b"")))
    ]
)


def datasets(records: list[Stored]) -> tuple[str, ...]:
    return tuple({it.dataset for it in records})


class SinkMachine(RuleBasedStateMachine):
    """Subclasses say where the sink is: the name of a file or folder, or the whole target."""

    name: ClassVar[str]
    folds: ClassVar[bool] = True
    looks = Bundle("looks")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()
        self.reader: Sink | None = None
        self.position: int | None = None  # of the reader of changes, if there is one
        self.changes: list[Change] = []  # that it has not acknowledged

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    @property
    def target(self) -> str:
        return f"{self.folder.name}/{self.name}"

    @initialize()
    def open(self) -> None:
        self.sink = self.run(open_sink(self.target))

    @rule()
    def reopen(self) -> None:
        before = self.sink.id
        self.run(self.sink.close())
        self.open()
        assert self.sink.id == before

    @rule()
    def open_a_reader(self) -> None:
        if self.reader is None:
            self.reader = self.run(open_sink(self.target, Access.READ))

    @rule(
        first=heights, size=sizes, branch=st.sampled_from([0, 1]), fence=fences, names=some_tables
    )
    def write(self, first: int, size: int, branch: int, fence: int, names: tuple[str, ...]) -> None:
        span = Span(first, first + size - 1)
        given = batch(*span, branch=branch, tables=names)
        expected = self.model.refusal_of_write(span, branch, fence, names)
        assert self._refusal(self.sink.write(given, fence)) == expected
        if expected is None:
            self._expect(self.model.change_of_write(span, branch, fence, names))
            self.model.write(span, branch, fence, names)

    @rule(first=heights, size=sizes, fence=fences)
    def retract(self, first: int, size: int, fence: int) -> None:
        span = Span(first, first + size - 1)
        expected = self.model.refusal_of_fence(span, fence, HEADERS)
        assert self._refusal(self.sink.retract(CHAIN_ID, span, fence)) == expected
        if expected is None:
            self._expect(self.model.change_of_retraction(span, fence))
            self.model.retract(span, fence)

    @rule()
    def read_changes(self) -> None:
        position = self.run(self.sink.add_change_reader(CHAIN_ID, "reader"))
        assert self.position in (None, position)
        self.position = position

    @rule(count=st.integers(0, 5))
    def acknowledge_changes(self, count: int) -> None:
        if self.position is not None:
            read = self.changes[:count]
            self.position, self.changes = self.position + len(read), self.changes[count:]
            self.run(self.sink.acknowledge_changes(CHAIN_ID, "reader", self.position))

    @rule()
    def stop_reading_changes(self) -> None:
        self.run(self.sink.remove_change_reader(CHAIN_ID, "reader"))
        self.position, self.changes = None, []

    @rule(first=heights, size=sizes, nature=natures)
    def request(self, first: int, size: int, nature: Nature) -> None:
        span = Span(first, first + size - 1)
        self.run(self.sink.request(CHAIN_ID, Request(span, *nature)))
        self.model.request(span, nature)

    @rule(first=heights, size=sizes)
    def withdraw(self, first: int, size: int) -> None:
        span = Span(first, first + size - 1)
        self.run(self.sink.withdraw(CHAIN_ID, span))
        self.model.withdraw(span)

    @rule(target=looks, first=heights, size=sizes, names=some_tables)
    def look_at_a_part(self, first: int, size: int, names: tuple[str, ...]) -> Seen:
        span = Span(first, first + size - 1)
        stored = self.run(self.sink.stored(CHAIN_ID, span))
        assert self._said(stored) == {
            name: {at: it[1:] for at, it in table.items() if span.first <= at <= span.last}
            for name, table in self.model.tables.items()
        }
        whole = self._said(self.run(self.sink.records(CHAIN_ID, span)))
        for name, found in self._said(stored).items():
            assert found.items() <= whole[name].items()
        seen = [it for it in stored if it.dataset in names]
        if not seen:
            return Seen([], span, None)
        hull = Span(min(it.span.first for it in seen), max(it.span.last for it in seen))
        return Seen(seen, hull, self.model.held(hull, datasets(seen)))

    @rule(seen=looks, fence=fences, proven=st.sampled_from(["hash", "roots"]))
    def endorse(self, seen: Seen, fence: int, proven: str) -> None:
        names, more = datasets(seen.records), frozenset({proven})
        expected = None
        if seen.records:
            expected = self.model.refusal_of_fence(seen.span, fence, names)
            if expected is None and self.model.held(seen.span, names) != seen.held:
                expected = Refusal(FencedOff, RangeSet())
        asked = self.sink.endorse(CHAIN_ID, seen.records, more, frozenset(), fence)
        assert self._refusal(asked) == expected
        if expected is None:
            self.model.endorse(seen.span, names, more)

    @rule(
        below=st.integers(LOWEST, LOWEST + 30),
        first=heights,
        size=st.integers(0, 5),
        limit=st.sampled_from([2, 4, 100]),
    )
    def fold(self, below: int, first: int, size: int, limit: int) -> None:
        keep = RangeSet.of((first, first + size - 1)) if size else RangeSet()
        self.run(self.sink.fold(CHAIN_ID, below, keep, limit))
        self.model.fold(self._fences(), below, keep)

    @rule()
    def fold_everything(self) -> None:
        merged_away = self.run(self.sink.fold(CHAIN_ID, 100))
        self.model.fold(self._fences(), 100, RangeSet())
        blocks = [it for it in self.run(self.sink.stored(CHAIN_ID)) if it.dataset == "blocks"]
        if self.folds:
            assert len(blocks) == self.model.runs("blocks")
        else:
            assert merged_away == 0
        assert self.run(self.sink.fold(CHAIN_ID, 100)) == 0

    @invariant()
    def each_commit_is_a_change(self) -> None:
        if self.position is not None:
            found = self.run(self.sink.changes(CHAIN_ID, self.position))
            assert found == [
                replace(each, position=self.position + nth)
                for nth, each in enumerate(self.changes, start=1)
            ]

    @invariant()
    def both_hold_the_same(self) -> None:
        self.run(examine(self.sink))
        assert self._said(self.run(self.sink.stored(CHAIN_ID))) == {
            name: {at: it[1:] for at, it in table.items()}
            for name, table in self.model.tables.items()
        }
        for name in self.model.tables:
            assert self.run(held(self.sink, name)).equals(self.model.rows(name)), name
        assert self.run(self.sink.requests(CHAIN_ID)) == self.model.requests()
        if self.reader is not None:
            stored = self.run(self.sink.stored(CHAIN_ID))
            assert self.run(self.reader.stored(CHAIN_ID)) == stored
            assert self.run(self.reader.requests(CHAIN_ID)) == self.model.requests()
        assert self.run(self.sink.strays()) == []
        assert self.run(self.sink.damage(CHAIN_ID)) == []
        assert self.run(self.sink.highest_fence()) == max(self.model.touched.values(), default=0)

    def teardown(self) -> None:
        if self.reader is not None:
            self.run(self.reader.close())
        if hasattr(self, "sink"):
            self.run(self.sink.close())
        self.runner.close()
        self.folder.cleanup()

    def _expect(self, change: Change | None) -> None:
        if change is not None and self.position is not None:
            self.changes.append(change)

    def _refusal(self, asked: Coroutine[Any, Any, None]) -> Refusal | None:
        try:
            self.run(asked)
        except FencedOff as error:
            return Refusal(FencedOff, error.stored)
        except BrokenSeam as error:
            return Refusal(BrokenSeam, error.height)
        return None

    def _fences(self) -> dict[str, dict[int, int]]:
        return {
            name: {at: fence for at, (fence, _) in heights.items()}
            for name, heights in self._said(self.run(self.sink.stored(CHAIN_ID))).items()
        }

    def _said(self, stored: list[Stored]) -> dict[str, dict[int, tuple[int, frozenset[str]]]]:
        """Fence and proofs of each height, as the records tell them."""
        found: dict[str, dict[int, tuple[int, frozenset[str]]]] = {
            it.name: {} for it in EVERY_TABLE
        }
        for it in stored:
            for height in range(it.span.first, it.span.last + 1):
                assert height not in found[it.dataset]
                found[it.dataset][height] = (it.fence, it.proven)
        return found
