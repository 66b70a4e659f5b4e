"""The text of `gapless verify` and `gapless gaps`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gapless.blocks.plan import default_datasets
from gapless.chains import network_of_chain
from gapless.cli.render import table
from gapless.cli.suggestions import fetch_command, repair_command
from gapless.core.anchors import Anchor
from gapless.core.ranges import RangeSet, Span
from gapless.verification import Report
from gapless.views.figures import counted, duration, short, span_text, spans_text
from gapless.views.verify import FindingView, ReportView, SpansByCheck

BY_HAND = "remove it by hand, or move it out of the folder"
"""What to do about a file that the manifest does not list: its owner is not known."""
_MOST = 20  # findings that a person wants to read; JSON has all


def report_text(report: ReportView) -> str:
    """What was looked at, what is there, and what is wrong."""
    blocks = report.tables[0]
    asked = RangeSet([*blocks.stored, *blocks.expired, *blocks.gaps])
    lines = [
        f"{report.network}: blocks {spans_text(asked.spans)} ({counted(len(asked), 'block')})",
        *(f"  {line}" for line in _tables(report)),
        *_proofs(report),
        *_anchored(report),
        *_not_final(report),
        *_expired(report),
        *_findings(report.findings),
    ]
    lacking = ""
    if report.not_proven:
        lacking = f"not proven: {_by_check(report.not_proven, blocks.stored)}"
    if report.complete:
        how = "digests, links, counts and proofs" if report.deep else "links and counts"
        complete = f"complete: nothing is missing; {how} match"
        lines.append("; ".join(filter(None, (complete, lacking))))
    elif lacking:
        lines.append(lacking)
    return "\n".join(lines)


def unchecked_anchors(given: Iterable[Anchor], report: Report) -> list[str]:
    """Which of the anchors that a person gave no stored block was compared with."""
    return [
        f"the anchor at {it.height:,} is not checked: it is not among the stored blocks"
        for it in given
        if it.height not in report.coverage[0].heights
    ]


def progress_line(read: int, total: int, seconds: float) -> str:
    """How far a deep verification is."""
    share = f"{100 * read / total:.0f}%  " if total else ""
    return f"verifying  {share}{short(read)}/{short(total)} rows  {short(read / seconds)} rows/s"


def rate_line(read: int, seconds: float) -> str:
    return f"{counted(read, 'row')} read in {duration(seconds)}, {short(read / seconds)} rows/s"


def verdict(report: Report) -> str:
    """What is wrong, in one line."""
    parts = []
    if report.gaps:
        count = counted(len(report.gaps), "block")
        parts.append(f"{count} missing: {spans_text(report.gaps.spans)}")
    if report.findings:
        parts.append(counted(len(report.findings), "finding"))
    return "; ".join(parts)


def repair(report: Report, network: str, sink: str, *, has_endpoint: bool) -> str:
    """The command that brings what is missing, or replaces what is wrong."""
    checks = {finding.check for finding in report.findings if finding.file is None}
    if checks & {"anchor", "hash"}:
        command = repair_command(sink, "--replace-branch", has_endpoint=has_endpoint)
        branch = f"`{command}`"
        return f"these blocks are on another chain or branch; if your node is right, run {branch}"
    if checks:
        return f"run `{repair_command(sink, has_endpoint=has_endpoint)}` to replace what is wrong"
    if not report.gaps:
        return f"{BY_HAND}: queries over `*.parquet` read it as well"
    first, last = report.gaps.spans[0].first, report.gaps.spans[-1].last
    datasets = [each.dataset for each in report.coverage if each.heights]
    known = network_of_chain(report.chain_id, [each.dataset for each in report.coverage])
    usual = [[], [*default_datasets(known)]]
    some = [] if datasets in usual else ["--datasets", ",".join(datasets)]
    heights = f"{first}:{last}"
    command = fetch_command(network, heights, sink, *some, has_endpoint=has_endpoint)
    return f"run `{command}` to fill the gaps"


def _tables(report: ReportView) -> list[str]:
    rows = [("table", "blocks", "rows", "missing or damaged")]
    for each in report.tables:
        wrong = (RangeSet(each.gaps) | RangeSet(each.damaged)).spans
        blocks = len(RangeSet(each.stored))
        rows.append((each.table, f"{blocks:,}", f"{each.rows:,}", spans_text(wrong) or "none"))
    return table(rows).splitlines()


def _proofs(report: ReportView) -> Iterator[str]:
    """Which checks held for all blocks when they were stored, and which the rows still prove."""
    blocks = report.tables[0]
    if not blocks.stored:
        return
    everywhere = [check for check, spans in blocks.proven.items() if spans == blocks.stored]
    yield f"  proven: {', '.join(everywhere) or 'no check for all blocks'}"
    for check, spans in blocks.proven.items():
        if spans != blocks.stored:
            yield f"  proven in part: {check} at {spans_text(spans)}"
    if report.not_reproven:
        found = _by_check(report.not_reproven, blocks.stored)
        yield f"  recorded as proven, but not provable from the rows alone: {found}"


def _anchored(report: ReportView) -> Iterator[str]:
    for each in report.anchored:
        yield f"  anchored at {each.height:,}: blocks {spans_text(each.blocks)}"


def _not_final(report: ReportView) -> Iterator[str]:
    if report.not_final:
        count = counted(len(RangeSet(report.not_final)), "block")
        yield f"  not final yet: {spans_text(report.not_final)} ({count})"


def _expired(report: ReportView) -> Iterator[str]:
    """Blocks that count as held, although nothing can be checked any more."""
    if expired := RangeSet(span for each in report.tables for span in each.expired):
        count = counted(len(expired), "block")
        yield f"  expired: {spans_text(expired.spans)} ({count}); their rows were deleted"


def _by_check(found: SpansByCheck, every: tuple[Span, ...]) -> str:
    """Checks by name, with the blocks where it is not all of them."""
    return ", ".join(
        check if spans == every else f"{check} at {spans_text(spans)}"
        for check, spans in found.items()
    )


def _findings(findings: Sequence[FindingView]) -> Iterator[str]:
    for each in findings[:_MOST]:
        yield f"{each.table} {span_text(Span(each.first, each.last))}: {each.message}"
    if len(findings) > _MOST:
        yield f"and {len(findings) - _MOST:,} more; `--json` lists them all"
