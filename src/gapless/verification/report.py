"""What a verification found. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gapless.core.ranges import RangeSet, Span


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with stored rows, and where."""

    # lost | link | count | rows | duplicate | record | stray | damaged | digest | proof | anchor |
    # hash
    check: str
    dataset: str
    span: Span
    words: str
    file: str | None = None  # the name of a stray one, which nothing but a person may remove


@dataclass(frozen=True)
class Coverage:
    """What is stored of a table, and which checks held when it was."""

    dataset: str
    heights: RangeSet
    wanted: RangeSet
    rows: int = 0  # that are there
    proven: Mapping[str, RangeSet] = field(default_factory=dict)  # by check
    unproven: Mapping[str, RangeSet] = field(default_factory=dict)  # asked for, but not possible

    @property
    def gaps(self) -> RangeSet:
        return self.wanted - self.heights


@dataclass(frozen=True)
class Anchored:
    """Blocks that are linked up to a block whose hash is known, and so are of its chain."""

    height: int
    heights: RangeSet


@dataclass(frozen=True)
class Reproven:
    """What the rows themselves prove, computed again from every one of them."""

    proven: Mapping[str, RangeSet]  # by check
    not_again: Mapping[str, RangeSet]  # recorded as proven, but rows alone cannot show it


@dataclass(frozen=True)
class Report:
    """A range of a chain, as a sink has it."""

    chain_id: int
    span: Span
    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]
    not_proven: Mapping[str, RangeSet] = field(default_factory=dict)  # by check
    anchored: tuple[Anchored, ...] = ()
    reproven: Reproven | None = None  # only a deep look computes it

    @property
    def deep(self) -> bool:
        return self.reproven is not None

    @property
    def complete(self) -> bool:
        return not self.gaps and not self.findings

    @property
    def gaps(self) -> RangeSet:
        """Heights that any of the tables lacks."""
        return RangeSet(span for each in self.coverage for span in each.gaps.spans)

    @property
    def asked(self) -> RangeSet:
        """Heights that should be there."""
        return RangeSet(span for each in self.coverage for span in each.wanted.spans)

    @property
    def damaged(self) -> RangeSet:
        """Heights whose rows are not what they should be, and would have to be replaced."""
        return self._damaged(self.findings)

    def damaged_in(self, dataset: str) -> RangeSet:
        """Those of one table."""
        return self._damaged(it for it in self.findings if it.dataset == dataset)

    def _damaged(self, findings: Iterable[Finding]) -> RangeSet:
        # A file may hold more than the blocks in question.
        damaged = RangeSet(it.span for it in findings if it.check not in _ELSEWHERE)
        return damaged & RangeSet.of(self.span)


_ELSEWHERE = ("stray", "anchor", "hash")  # rows beyond those asked for, or another branch


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in order; those of neighbouring blocks that say the same, as one."""
    found: list[Finding] = []
    for each in sorted(findings, key=lambda it: (it.dataset, it.check, it.words, it.span)):
        before = found[-1] if found else None
        if (
            before is not None
            and (before.dataset, before.check, before.words)
            == (each.dataset, each.check, each.words)
            and each.span.first <= before.span.last + 1
        ):
            span = Span(before.span.first, max(before.span.last, each.span.last))
            found[-1] = replace(each, span=span)
        else:
            found.append(each)
    return sorted(found, key=lambda it: (it.span, it.dataset, it.check))
