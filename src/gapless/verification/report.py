"""The result of a verification, as plain values."""

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
    message: str
    file: str | None = None  # the name of a stray file, which only a person may remove


@dataclass(frozen=True)
class Coverage:
    """What is stored of a table, and which checks it passed when it was written."""

    dataset: str
    heights: RangeSet
    wanted: RangeSet
    rows: int = 0  # that are stored
    proven: Mapping[str, RangeSet] = field(default_factory=dict)  # by check
    unproven: Mapping[str, RangeSet] = field(default_factory=dict)  # requested, but not possible
    expired: RangeSet = RangeSet()  # noqa: RUF009 - immutable; were stored, rows deleted on purpose

    @property
    def gaps(self) -> RangeSet:
        return self.wanted - self.heights - self.expired


@dataclass(frozen=True)
class Anchored:
    """Blocks that link up to a block whose hash is known, and so are on the same chain."""

    height: int
    heights: RangeSet


@dataclass(frozen=True)
class Reproven:
    """What a deep verification proved again from the rows."""

    proven: Mapping[str, RangeSet]  # by check
    not_again: Mapping[str, RangeSet]  # recorded as proven, but rows alone cannot show it


@dataclass(frozen=True)
class Report:
    """The state of a range of a chain in a sink."""

    chain_id: int
    span: Span
    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]
    not_proven: Mapping[str, RangeSet] = field(default_factory=dict)  # by check
    anchored: tuple[Anchored, ...] = ()
    reproven: Reproven | None = None  # only for a deep verification
    not_final: RangeSet = RangeSet()  # noqa: RUF009 - immutable; a follow may replace these

    @property
    def deep(self) -> bool:
        return self.reproven is not None

    @property
    def complete(self) -> bool:
        return not self.gaps and not self.findings

    @property
    def gaps(self) -> RangeSet:
        """The heights that any table lacks."""
        return RangeSet(span for each in self.coverage for span in each.gaps.spans)

    @property
    def expired(self) -> RangeSet:
        """The heights that were stored, and whose rows were deleted on purpose."""
        return RangeSet(span for each in self.coverage for span in each.expired.spans)

    @property
    def asked(self) -> RangeSet:
        """The heights that should be stored."""
        return RangeSet(span for each in self.coverage for span in each.wanted.spans)

    @property
    def damaged(self) -> RangeSet:
        """The heights whose rows are wrong and must be replaced."""
        return self._damaged(self.findings)

    def damaged_in(self, dataset: str) -> RangeSet:
        """Return the damaged heights of one table."""
        return self._damaged(it for it in self.findings if it.dataset == dataset)

    def _damaged(self, findings: Iterable[Finding]) -> RangeSet:
        # A damaged file may extend beyond the verified range.
        damaged = RangeSet(it.span for it in findings if it.check not in _ELSEWHERE)
        return damaged & RangeSet.of(self.span)


_ELSEWHERE = ("stray", "anchor", "hash")  # rows that were not requested, or on another branch


def joined(findings: Iterable[Finding]) -> list[Finding]:
    """Sort the findings, and join equal findings of neighbouring blocks into one."""
    found: list[Finding] = []
    for each in sorted(findings, key=lambda it: (it.dataset, it.check, it.message, it.span)):
        before = found[-1] if found else None
        if (
            before is not None
            and (before.dataset, before.check, before.message)
            == (each.dataset, each.check, each.message)
            and each.span.first <= before.span.last + 1
        ):
            span = Span(before.span.first, max(before.span.last, each.span.last))
            found[-1] = replace(each, span=span)
        else:
            found.append(each)
    return sorted(found, key=lambda it: (it.span, it.dataset, it.check))
