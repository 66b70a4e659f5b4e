"""What `gapless verify` and `gapless gaps` say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gapless.cli.figures import counted, duration, short
from gapless.cli.render import table
from gapless.core.anchors import Anchor
from gapless.core.ranges import RangeSet, Span
from gapless.runtime.suggestions import fetch_command, repair_command
from gapless.schema import TABLES
from gapless.verification import Coverage, Finding, Report

BY_HAND = "remove it by hand, or move it out of the folder"
"""What to do about a file that the manifest does not list: nobody knows whose it is."""
_MOST = 20  # findings that a person wants to read; JSON has all


def spans_text(heights: RangeSet, most: int = 4) -> str:
    """Ranges for people, the first few of them."""
    shown = [_span(span) for span in heights.spans[:most]]
    more = len(heights.spans) - most
    return ", ".join([*shown, f"{more:,} more"] if more > 0 else shown)


def report_text(report: Report, network: str) -> str:
    """What was looked at, what is there, and what is wrong."""
    asked = report.coverage[0].heights | report.coverage[0].gaps
    head = f"{network}: blocks {spans_text(asked)} ({counted(len(asked), 'block')})"
    lines = [head, *(f"  {line}" for line in _tables(report)), *_proofs(report)]
    lines += (f"  {line}" for line in _anchored(report))
    lines += _findings(report.findings)
    lacking = f"not proven: {_by_check(report.not_proven, report)}" if report.not_proven else ""
    if report.complete:
        how = "digests, links, counts and proofs" if report.deep else "links and counts"
        complete = f"complete: nothing is missing, and {how} agree"
        lines.append("; ".join(filter(None, (complete, lacking))))
    elif lacking:
        lines.append(lacking)
    return "\n".join(lines)


def progress_line(read: int, total: int, seconds: float) -> str:
    """How far a deep look is."""
    share = f"{100 * read / total:.0f}%  " if total else ""
    return f"verifying  {share}{short(read)}/{short(total)} rows  {short(read / seconds)} rows/s"


def rate_line(read: int, seconds: float) -> str:
    return f"{counted(read, 'row')} read in {duration(seconds)}, {short(read / seconds)} rows/s"


def verdict(report: Report) -> str:
    """What is wrong, in one line."""
    parts = []
    if report.gaps:
        parts.append(f"{counted(len(report.gaps), 'block')} missing: {spans_text(report.gaps)}")
    if report.findings:
        parts.append(counted(len(report.findings), "finding"))
    return "; ".join(parts)


def repair(report: Report, network: str, sink: str, rpc: str) -> str:
    """The command that brings what is missing, or replaces what is wrong."""
    checks = {finding.check for finding in report.findings if finding.file is None}
    if checks & {"anchor", "hash"}:
        branch = f"`{repair_command(sink, rpc, '--replace-branch')}`"
        return f"these blocks are of another chain or branch; if your node is right: {branch}"
    if checks:
        return f"replace what is wrong: `{repair_command(sink, rpc)}`"
    if not report.gaps:
        return f"{BY_HAND}: whoever reads `*.parquet` there reads it too"
    first, last = report.gaps.spans[0].first, report.gaps.spans[-1].last
    datasets = [each.dataset for each in report.coverage if each.heights]
    some = [] if len(datasets) in (0, len(TABLES)) else ["--datasets", ",".join(datasets)]
    return f"fill the gaps: `{fetch_command(network, f'{first}:{last}', sink, rpc, *some)}`"


def report_json(report: Report, network: str) -> dict[str, Any]:
    return {
        "network": network,
        "chain_id": report.chain_id,
        "first": report.span.first,
        "last": report.span.last,
        "complete": report.complete,
        "deep": report.deep,
        "not_proven": _spans(report.not_proven),
        "anchored": [{"height": it.height, "blocks": it.heights.spans} for it in report.anchored],
        "reproven": None if report.reproven is None else _spans(report.reproven.proven),
        "not_reproven": None if report.reproven is None else _spans(report.reproven.not_again),
        "tables": [
            _coverage_json(each, report.damaged_in(each.dataset)) for each in report.coverage
        ],
        "findings": [
            {
                "check": each.check,
                "table": each.dataset,
                "first": each.span.first,
                "last": each.span.last,
                "message": each.words,
            }
            for each in report.findings
        ],
    }


def unchecked_anchors(given: Iterable[Anchor], report: Report) -> list[str]:
    """Which of the anchors that a person gave no stored block was compared with."""
    return [
        f"the anchor at {it.height:,} is not checked: it is not among the stored blocks in question"
        for it in given
        if it.height not in report.coverage[0].heights
    ]


def gaps_json(report: Report, network: str) -> dict[str, Any]:
    return {
        "network": network,
        "chain_id": report.chain_id,
        "gaps": report.gaps.spans,
        "damaged": report.damaged.spans,
        "blocks": len(report.gaps | report.damaged),
    }


def _spans(of: Mapping[str, RangeSet]) -> dict[str, Sequence[Span]]:
    return {check: heights.spans for check, heights in of.items()}


def _coverage_json(coverage: Coverage, damaged: RangeSet) -> dict[str, Any]:
    return {
        "table": coverage.dataset,
        "rows": coverage.rows,
        "stored": coverage.heights.spans,
        "gaps": coverage.gaps.spans,
        "damaged": damaged.spans,
        "proven": _spans(coverage.proven),
        "unproven": _spans(coverage.unproven),
    }


def _tables(report: Report) -> list[str]:
    rows = [("table", "blocks", "rows", "missing or damaged")]
    for it in report.coverage:
        wrong = it.gaps | report.damaged_in(it.dataset)
        rows.append(
            (it.dataset, f"{len(it.heights):,}", f"{it.rows:,}", spans_text(wrong) or "none")
        )
    return table(rows).splitlines()


def _proofs(report: Report) -> Iterator[str]:
    """Which checks held for all blocks when they were stored, and which the rows still prove."""
    blocks = report.coverage[0]
    if not blocks.heights:
        return
    everywhere = [check for check, heights in blocks.proven.items() if heights == blocks.heights]
    yield f"  proven: {', '.join(everywhere) or 'nothing for all blocks'}"
    for check, heights in blocks.proven.items():
        if heights != blocks.heights:
            yield f"  proven in part: {check} at {spans_text(heights)}"
    if report.reproven is not None and report.reproven.not_again:
        found = _by_check(report.reproven.not_again, report)
        yield f"  recorded as proven, but rows alone cannot show it again: {found}"


def _anchored(report: Report) -> Iterator[str]:
    for each in report.anchored:
        yield f"anchored at {each.height:,}: blocks {spans_text(each.heights)}"


def _by_check(found: Mapping[str, RangeSet], report: Report) -> str:
    """Checks by name, with the blocks where it is not all of them."""
    every = report.coverage[0].heights
    return ", ".join(
        check if heights == every else f"{check} at {spans_text(heights)}"
        for check, heights in found.items()
    )


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    for each in findings[:_MOST]:
        yield f"{each.dataset} {_span(each.span)}: {each.words}"
    if len(findings) > _MOST:
        yield f"and {len(findings) - _MOST:,} more; `--json` lists all"


def _span(span: Span) -> str:
    first, last = span
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"
