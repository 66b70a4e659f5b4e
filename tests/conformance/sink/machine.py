"""A sink and a model of it: after the same operations, both contain the same.

The model is a dictionary of heights. It knows nothing of ranges, digests or files, so it can tell
when a sink gets them wrong.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from gapless.chains.evm.tables import TABLES
from gapless.chains.opening import open_sink
from gapless.core.anchors import Anchor
from gapless.core.errors import BrokenSeam, FencedOff, SinkError
from gapless.core.ranges import RangeSet, Span
from gapless.schema.arrow import arrow_schema
from gapless.sinks import Access, Request, Sink, Stored, requests
from tests.conformance.sink.stage import (
    CHAIN_ID,
    EVERYTHING,
    FORK,
    HEADERS,
    PROVEN,
    batch,
    examine,
    held,
    rows_of,
    with_column,
)

T = TypeVar("T")

LOWEST, MOST = 10, 12
heights = st.integers(LOWEST, LOWEST + 14)
sizes = st.integers(1, MOST)
fences = st.integers(1, 6)
some_tables = st.sampled_from(
    [EVERYTHING, EVERYTHING, HEADERS, ("blocks", "transactions"), ("blocks", "withdrawals")]
)


class Nature(NamedTuple):
    """Everything in a request except its span."""

    datasets: frozenset[str]
    checks: frozenset[str]
    anchors: frozenset[Anchor]


class Held(NamedTuple):
    """What a table contains at a height."""

    branch: int
    fence: int
    proven: frozenset[str] = PROVEN


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


@dataclass(frozen=True)
class Refusal:
    """How a sink must refuse."""

    error: type[SinkError]
    detail: object


def datasets(records: list[Stored]) -> tuple[str, ...]:
    return tuple({it.dataset for it in records})


def on(branch: int, height: int) -> int:
    """The branch that a height really belongs to: below the fork there is only one."""
    return branch if height >= FORK else 0


@cache
def rows_at(name: str, height: int, branch: int) -> pa.Table:
    return rows_of(name, Span(height, height), branch)


class Model:
    def __init__(self) -> None:
        self.tables: dict[str, dict[int, Held]] = {each.name: {} for each in TABLES}
        self.touched: dict[int, int] = {}  # fence of the last write or retraction
        self.counted: set[int] = set()  # heights whose number of logs is known
        self.wanted: dict[Nature, set[int]] = {}

    def refusal_of_write(
        self, span: Span, branch: int, fence: int, names: tuple[str, ...]
    ) -> Refusal | None:
        if refusal := self.refusal_of_fence(span, fence, names):
            return refusal
        blocks, (first, last) = self.tables["blocks"], span
        if first - 1 in blocks and blocks[first - 1].branch != on(branch, first - 1):
            return Refusal(BrokenSeam, first - 1)
        if last + 1 in blocks and on(blocks[last + 1].branch, last) != on(branch, last):
            return Refusal(BrokenSeam, last + 1)
        return None

    def refusal_of_fence(self, span: Span, fence: int, names: tuple[str, ...]) -> Refusal | None:
        newer = [it for it in range(span[0], span[1] + 1) if self.touched.get(it, 0) > fence]
        if not newer:
            return None
        nothing = Held(0, 0)
        done = [
            it
            for it in newer
            if all(self.tables[name].get(it, nothing).fence > fence for name in names)
        ]
        return Refusal(FencedOff, RangeSet.from_members(done))

    def write(self, span: Span, branch: int, fence: int, names: tuple[str, ...]) -> None:
        for height in range(span.first, span.last + 1):
            before = self.tables["blocks"].get(height)
            same = before is not None and before.branch == on(branch, height)
            if not same:
                self._forget(height)
            for name in names:
                self.tables[name][height] = Held(on(branch, height), fence)
            if "logs" in names:
                self.counted.add(height)
            self.touched[height] = fence

    def held(self, span: Span, names: tuple[str, ...]) -> object:
        """Everything in a span except its proofs."""
        heights = range(span.first, span.last + 1)
        counted = self.counted.intersection(heights) if "blocks" in names else None
        tables = {name: self.tables[name] for name in names}
        return counted, {
            name: {at: table[at][:2] for at in heights if at in table}
            for name, table in tables.items()
        }

    def endorse(self, span: Span, names: tuple[str, ...], proven: frozenset[str]) -> None:
        for table in (self.tables[name] for name in names):
            for height in range(span.first, span.last + 1):
                if height in table:
                    held = table[height]
                    table[height] = held._replace(proven=held.proven | proven)

    def retract(self, span: Span, fence: int) -> None:
        for height in range(span.first, span.last + 1):
            self._forget(height)
            self.touched[height] = fence

    def request(self, span: Span, nature: Nature) -> None:
        self.wanted.setdefault(nature, set()).update(range(span.first, span.last + 1))

    def withdraw(self, span: Span) -> None:
        gone = range(span.first, span.last + 1)
        before, self.wanted = self.wanted, {}
        for nature, heights in before.items():
            anchors = frozenset(it for it in nature.anchors if it.height not in gone)
            left = self.wanted.setdefault(nature._replace(anchors=anchors), set())
            left |= heights.difference(gone)

    def requests(self) -> list[Request]:
        found = [
            Request(span, *nature)
            for nature, heights in self.wanted.items()
            for span in RangeSet.from_members(heights).spans
        ]
        return sorted(found, key=requests.to_row)

    def rows(self, name: str) -> pa.Table:
        schema = next(arrow_schema(each) for each in TABLES if each.name == name)
        pieces = [schema.empty_table()]
        for height, held_ in sorted(self.tables[name].items()):
            rows = rows_at(name, height, held_.branch)
            if name == "blocks" and height not in self.counted:
                rows = with_column(rows, "log_count", None)
            pieces.append(rows)
        return pa.concat_tables(pieces).combine_chunks()

    def _forget(self, height: int) -> None:
        for table in self.tables.values():
            table.pop(height, None)
        self.counted.discard(height)


class SinkMachine(RuleBasedStateMachine):
    """Subclasses say where the sink is: the name of a file or folder, or the whole target."""

    name: ClassVar[str]
    looks = Bundle("looks")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()
        self.reader: Sink | None = None

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
            self.model.write(span, branch, fence, names)

    @rule(first=heights, size=sizes, fence=fences)
    def retract(self, first: int, size: int, fence: int) -> None:
        span = Span(first, first + size - 1)
        expected = self.model.refusal_of_fence(span, fence, HEADERS)
        assert self._refusal(self.sink.retract(CHAIN_ID, span, fence)) == expected
        if expected is None:
            self.model.retract(span, fence)

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

    def _refusal(self, asked: Coroutine[Any, Any, None]) -> Refusal | None:
        try:
            self.run(asked)
        except FencedOff as error:
            return Refusal(FencedOff, error.stored)
        except BrokenSeam as error:
            return Refusal(BrokenSeam, error.height)
        return None

    def _said(self, stored: list[Stored]) -> dict[str, dict[int, tuple[object, ...]]]:
        """Fence and proofs of each height, according to the records."""
        found: dict[str, dict[int, tuple[object, ...]]] = {each.name: {} for each in TABLES}
        for it in stored:
            for height in range(it.span.first, it.span.last + 1):
                assert height not in found[it.dataset]
                found[it.dataset][height] = (it.fence, it.proven)
        return found
