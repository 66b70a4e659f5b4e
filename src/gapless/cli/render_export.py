"""The text of `gapless export`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.cli.suggestions import fetch_command
from gapless.core.ranges import RangeSet, Span
from gapless.views.export import ExportView
from gapless.views.figures import counted, span_text, spans_text


def summary(export: ExportView, table: str) -> str:
    blocks = span_text(Span(export.first, export.last))
    return f"{export.network}: {counted(export.rows, 'row')} of {table}, blocks {blocks}"


def gaps_text(gaps: Mapping[str, RangeSet], anchor: str) -> str:
    """Which blocks are missing, and which lack rows of another table."""
    parts = [
        f"{'' if name == anchor else f'{name} of '}{counted(len(heights), 'block')} missing: "
        f"{spans_text(heights.spans)}"
        for name, heights in gaps.items()
    ]
    return "; ".join(parts)


def repair(
    gaps: Mapping[str, RangeSet], anchor: str, network: str, sink: str, *, has_endpoint: bool
) -> str:
    """The command that brings what is missing."""
    heights = RangeSet(span for each in gaps.values() for span in each.spans)
    first, last = heights.spans[0].first, heights.spans[-1].last
    everything = anchor in gaps
    some = [] if everything else ["--datasets", ",".join([anchor, *gaps])]
    heights_text = f"{first}:{last}"
    command = fetch_command(network, heights_text, sink, *some, has_endpoint=has_endpoint)
    return f"`{command}` fetches them"
