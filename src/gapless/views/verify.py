"""What a verification found: `verify`, `gaps` and `repair`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from gapless.core.ranges import RangeSet, Span
from gapless.verification import Coverage, Report

SpansByCheck = dict[str, tuple[Span, ...]]


class AnchoredView(Struct, frozen=True, kw_only=True):
    """Blocks that are linked up to a block whose hash is known."""

    height: int
    blocks: tuple[Span, ...]


class TableView(Struct, frozen=True, kw_only=True):
    """What is stored of a table, what has expired, is missing or damaged, and which checks held."""

    table: str
    rows: int
    stored: tuple[Span, ...]
    expired: tuple[Span, ...]
    gaps: tuple[Span, ...]
    damaged: tuple[Span, ...]
    proven: SpansByCheck
    unproven: SpansByCheck


class FindingView(Struct, frozen=True, kw_only=True):
    """Something that is wrong with stored rows, and where."""

    check: str
    table: str
    first: int
    last: int
    message: str


class ReportView(Struct, frozen=True, kw_only=True):
    """A range of a chain, as a sink has it."""

    network: str
    chain_id: int
    first: int
    last: int
    complete: bool
    deep: bool
    not_final: tuple[Span, ...]
    not_proven: SpansByCheck
    anchored: tuple[AnchoredView, ...]
    reproven: SpansByCheck | None
    not_reproven: SpansByCheck | None
    tables: tuple[TableView, ...]
    findings: tuple[FindingView, ...]


class GapsView(Struct, frozen=True, kw_only=True):
    """The blocks that are missing or damaged, their number, and those that have expired."""

    network: str
    chain_id: int
    gaps: tuple[Span, ...]
    damaged: tuple[Span, ...]
    expired: tuple[Span, ...]
    blocks: int


class WithdrawalView(Struct, frozen=True, kw_only=True):
    """Blocks that are no longer asked for, or would not be."""

    withdrawn: Span
    dry_run: bool


def report_view(report: Report, network: str) -> ReportView:
    reproven = report.reproven
    return ReportView(
        network=network,
        chain_id=report.chain_id,
        first=report.span.first,
        last=report.span.last,
        complete=report.complete,
        deep=report.deep,
        not_final=tuple(report.not_final.spans),
        not_proven=_by_check(report.not_proven),
        anchored=tuple(
            AnchoredView(height=each.height, blocks=tuple(each.heights.spans))
            for each in report.anchored
        ),
        reproven=None if reproven is None else _by_check(reproven.proven),
        not_reproven=None if reproven is None else _by_check(reproven.not_again),
        tables=tuple(
            _table_view(each, report.damaged_in(each.dataset)) for each in report.coverage
        ),
        findings=tuple(
            FindingView(
                check=each.check,
                table=each.dataset,
                first=each.span.first,
                last=each.span.last,
                message=each.message,
            )
            for each in report.findings
        ),
    )


def gaps_view(report: Report, network: str) -> GapsView:
    return GapsView(
        network=network,
        chain_id=report.chain_id,
        gaps=tuple(report.gaps.spans),
        damaged=tuple(report.damaged.spans),
        expired=tuple(report.expired.spans),
        blocks=len(report.gaps | report.damaged),
    )


def _table_view(coverage: Coverage, damaged: RangeSet) -> TableView:
    return TableView(
        table=coverage.dataset,
        rows=coverage.rows,
        stored=tuple(coverage.heights.spans),
        expired=tuple(coverage.expired.spans),
        gaps=tuple(coverage.gaps.spans),
        damaged=tuple(damaged.spans),
        proven=_by_check(coverage.proven),
        unproven=_by_check(coverage.unproven),
    )


def _by_check(heights: Mapping[str, RangeSet]) -> SpansByCheck:
    return {check: tuple(each.spans) for check, each in heights.items()}
