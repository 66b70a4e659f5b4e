"""The model of a sink: a dictionary of heights.

It knows nothing of ranges, digests or files, which is why it can tell when a sink gets them wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from gapless.core.anchors import Anchor
from gapless.core.errors import BrokenSeam, FencedOff, SinkError
from gapless.core.ranges import RangeSet, Span
from gapless.schema.arrow import arrow_schema
from gapless.sinks import Change, Request, requests
from tests.conformance.sink.stage import CHAIN_ID, FORK, PROVEN, rows_of, with_column
from tests.evm import EVERY_TABLE

COUNTS = {"logs": "log_count", "transfers": "transfer_count"}
"""Counts that a block does not have unless the table is stored."""


class Nature(NamedTuple):
    """All of a request but its span."""

    datasets: frozenset[str]
    checks: frozenset[str]
    anchors: frozenset[Anchor]


class Held(NamedTuple):
    """What a table has of a height."""

    branch: int
    fence: int
    proven: frozenset[str] = PROVEN


@dataclass(frozen=True)
class Refusal:
    """How a sink must refuse."""

    error: type[SinkError]
    detail: object


def on(branch: int, height: int) -> int:
    """The branch that a height is really of: below the fork there is only one."""
    return branch if height >= FORK else 0


@cache
def rows_at(name: str, height: int, branch: int) -> pa.Table:
    return rows_of(name, Span(height, height), branch)


def hash_at(height: int, branch: int) -> bytes:
    found: bytes = rows_at("blocks", height, branch)["hash"][0].as_py()
    return found


def _below(height: int) -> RangeSet:
    return RangeSet.of((0, height - 1))


class Model:
    def __init__(self) -> None:
        self.tables: dict[str, dict[int, Held]] = {each.name: {} for each in EVERY_TABLE}
        self.touched: dict[int, int] = {}  # the fence of whoever wrote or retracted a height last
        self.counted: set[tuple[str, int]] = set()  # heights whose number of rows is known
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
            self.counted |= {(name, height) for name in COUNTS.keys() & {*names}}
            self.touched[height] = fence

    def change_of_write(
        self, span: Span, branch: int, fence: int, names: tuple[str, ...]
    ) -> Change | None:
        """What a reader of changes must learn of a write that is about to be done."""
        heights, blocks = range(span.first, span.last + 1), self.tables["blocks"]
        gone = [at for at in heights if at in blocks and blocks[at].branch != on(branch, at)]
        if not gone and all(at in self.tables[name] for at in heights for name in names):
            return None
        old = {at: hash_at(at, blocks[at].branch) for at in gone if at > self.final}
        new = {at: hash_at(at, branch) for at in heights if at > self.final}
        return Change(0, CHAIN_ID, span, fence, retracted=False, old=old, new=new)

    def change_of_retraction(self, span: Span, fence: int) -> Change | None:
        """What a reader of changes must learn of a retraction that is about to be done."""
        blocks = self.tables["blocks"]
        gone = [at for at in range(span.first, span.last + 1) if at in blocks]
        if not gone:
            return None
        old = {at: hash_at(at, blocks[at].branch) for at in gone if at > self.final}
        return Change(0, CHAIN_ID, span, fence, retracted=True, old=old)

    @property
    def final(self) -> int:
        return max((at for heights in self.wanted.values() for at in heights), default=-1)

    def held(self, span: Span, names: tuple[str, ...]) -> object:
        """All that is held of a span, but for its proofs."""
        heights = range(span.first, span.last + 1)
        counted = {it for it in self.counted if it[1] in heights} if "blocks" in names else None
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

    def fold(self, fences: dict[str, dict[int, int]], below: int, keep: RangeSet) -> None:
        """Takes over the fences after a fold, which may only have raised those of neighbours."""
        for name, table in self.tables.items():
            assert fences[name].keys() == table.keys()
            for span in self._alike(table, below, keep):
                fences_before = {table[at].fence for at in range(span.first, span.last + 1)}
                for at in range(span.first, span.last + 1):
                    assert fences[name][at] in fences_before
                    assert fences[name][at] >= table[at].fence
        for name, table in self.tables.items():
            for at, fence in fences[name].items():
                if fence != table[at].fence:
                    assert at < below
                    assert at not in keep
                assert fence <= fences["blocks"][at]
                table[at] = table[at]._replace(fence=fence)
                self.touched[at] = fences["blocks"][at]

    def _alike(self, table: dict[int, Held], below: int, keep: RangeSet) -> list[Span]:
        """Runs of neighbouring heights with equal proofs, all of which a fold may merge."""
        by_proofs: dict[frozenset[str], list[int]] = {}
        for at, held in table.items():
            by_proofs.setdefault(held.proven, []).append(at)
        return [
            span
            for heights in by_proofs.values()
            for span in (RangeSet.from_members(heights) & _below(below) - keep).spans
        ]

    def runs(self, name: str) -> int:
        """How few records can describe a table."""
        return len(self._alike(self.tables[name], 10**6, RangeSet()))

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
        schema = next(arrow_schema(each) for each in EVERY_TABLE if each.name == name)
        pieces = [schema.empty_table()]
        for height, held_ in sorted(self.tables[name].items()):
            rows = rows_at(name, height, held_.branch)
            unknown = [it for it in COUNTS if (it, height) not in self.counted]
            for column in (COUNTS[it] for it in unknown if name == "blocks"):
                rows = with_column(rows, column, None)
            pieces.append(rows)
        return pa.concat_tables(pieces).combine_chunks()

    def _forget(self, height: int) -> None:
        for table in self.tables.values():
            table.pop(height, None)
        self.counted -= {(name, height) for name in COUNTS}
