"""What `gapless verify` and `gapless gaps` say. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gapless.cli.figures import counted
from gapless.cli.render import table
from gapless.core.ranges import RangeSet, Span
from gapless.schema import TABLES
from gapless.verify import Coverage, Finding, Report

_MOST = 20  # findings that a person wants to read; JSON has all


def spans_text(heights: RangeSet, most: int = 4) -> str:
    """Ranges for people, the first few of them."""
    shown = [_span(span) for span in heights.spans[:most]]
    more = len(heights.spans) - most
    return ", ".join([*shown, f"{more:,} more"] if more > 0 else shown)


def report_text(report: Report, network: str) -> str:
    """What was looked at, what is there, and what is wrong."""
    blocks = counted(report.span.size, "block")
    head = f"{network}: blocks {_span(report.span)} ({blocks})"
    lines = [head, *(f"  {line}" for line in _tables(report.coverage)), *_proofs(report.coverage)]
    lines += _findings(report.findings)
    if report.complete:
        how = "digests, links and counts" if report.deep else "links and counts"
        lines.append(f"complete: nothing is missing, and {how} agree")
    return "\n".join(lines)


def verdict(report: Report) -> str:
    """What is wrong, in one line."""
    parts = []
    if report.gaps:
        parts.append(f"{counted(len(report.gaps), 'block')} missing: {spans_text(report.gaps)}")
    if report.findings:
        parts.append(counted(len(report.findings), "finding"))
    return "; ".join(parts)


def repair(report: Report, network: str, sink: str) -> str:
    """The command that brings what is missing; what is stored is not fetched again."""
    if not report.gaps:
        spans = RangeSet(finding.span for finding in report.findings)
        return f"fetch these blocks into a new sink: `{_fetch(report, network, spans, 'new.db')}`"
    return f"`{_fetch(report, network, report.gaps, sink)}` fills it"


def _fetch(report: Report, network: str, heights: RangeSet, sink: str) -> str:
    first, last = heights.spans[0].first, heights.spans[-1].last
    datasets = [each.dataset for each in report.coverage if each.heights]
    some = "" if len(datasets) in (0, len(TABLES)) else f" --datasets {','.join(datasets)}"
    return f"gapless fetch {network} {first}:{last} --to {shlex.quote(sink)}{some}"


def report_json(report: Report, network: str) -> dict[str, Any]:
    return {
        "network": network,
        "chain_id": report.chain_id,
        "first": report.span.first,
        "last": report.span.last,
        "complete": report.complete,
        "deep": report.deep,
        "tables": [_coverage_json(each) for each in report.coverage],
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


def gaps_json(gaps: RangeSet, network: str, chain_id: int) -> dict[str, Any]:
    return {"network": network, "chain_id": chain_id, "gaps": gaps.spans, "blocks": len(gaps)}


def _coverage_json(coverage: Coverage) -> dict[str, Any]:
    def spans(of: Mapping[str, RangeSet]) -> dict[str, Sequence[Span]]:
        return {check: heights.spans for check, heights in of.items()}

    return {
        "table": coverage.dataset,
        "rows": coverage.rows,
        "stored": coverage.heights.spans,
        "gaps": coverage.gaps.spans,
        "proven": spans(coverage.proven),
        "unproven": spans(coverage.unproven),
    }


def _tables(coverage: Iterable[Coverage]) -> list[str]:
    rows = [("table", "blocks", "rows", "missing")]
    rows += [
        (it.dataset, f"{len(it.heights):,}", f"{it.rows:,}", spans_text(it.gaps) or "none")
        for it in coverage
    ]
    return table(rows).splitlines()


def _proofs(coverage: Sequence[Coverage]) -> Iterator[str]:
    """Which checks held for all blocks, and where others did not."""
    blocks = coverage[0]
    if not blocks.heights:
        return
    everywhere = [check for check, heights in blocks.proven.items() if heights == blocks.heights]
    yield f"  proven: {', '.join(everywhere) or 'nothing for all blocks'}"
    for check, heights in blocks.proven.items():
        if heights != blocks.heights:
            yield f"  proven in part: {check} at {spans_text(heights)}"
    for check, heights in blocks.unproven.items():
        yield f"  unproven: {check} at {spans_text(heights)}"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    for each in findings[:_MOST]:
        yield f"{each.dataset} {_span(each.span)}: {each.words}"
    if len(findings) > _MOST:
        yield f"and {len(findings) - _MOST:,} more; `--json` lists all"


def _span(span: Span) -> str:
    first, last = span
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"
