"""What a verification found. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gapless.core.ranges import RangeSet, Span


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with stored rows, and where."""

    check: str  # lost | link | count | rows | duplicate | stray | digest | hash
    dataset: str
    span: Span
    words: str


@dataclass(frozen=True)
class Coverage:
    """What is stored of a table, and which checks held when it was."""

    dataset: str
    heights: RangeSet
    gaps: RangeSet
    rows: int = 0  # that are there
    proven: Mapping[str, RangeSet] = field(default_factory=dict)  # by check
    unproven: Mapping[str, RangeSet] = field(default_factory=dict)  # asked for, but not possible


@dataclass(frozen=True)
class Report:
    """A range of a chain, as a sink has it."""

    chain_id: int
    span: Span
    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]
    deep: bool = False

    @property
    def complete(self) -> bool:
        return not self.gaps and not self.findings

    @property
    def gaps(self) -> RangeSet:
        """Heights that any of the tables lacks."""
        return RangeSet(span for each in self.coverage for span in each.gaps.spans)


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
            found[-1] = Finding(each.check, each.dataset, span, each.words)
        else:
            found.append(each)
    return sorted(found, key=lambda it: (it.span, it.dataset, it.check))
