"""What `gapless export` says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapless.cli.render_verify import spans_text
from gapless.core.ranges import RangeSet, Span
from gapless.export import VERSIONS
from gapless.runtime.suggestions import fetch_command, repair_command
from gapless.schema import BLOCKS
from gapless.views.figures import counted


def summary(network: str, span: Span, rows: int, table: str) -> str:
    blocks = spans_text(RangeSet.of(span))
    return f"{network}: {counted(rows, 'row')} of {table}, blocks {blocks}"


def export_json(network: str, span: Span, rows: int, schema: str, output: str) -> dict[str, Any]:
    return {
        "network": network,
        "first": span.first,
        "last": span.last,
        "rows": rows,
        "schema": schema,
        "schema_version": VERSIONS[schema],
        "output": output,
    }


def gaps_text(gaps: Mapping[str, RangeSet]) -> str:
    """Which blocks are missing, and which lack rows of another table."""
    parts = [
        f"{'' if name == BLOCKS.name else f'{name} of '}{counted(len(heights), 'block')} missing: "
        f"{spans_text(heights)}"
        for name, heights in gaps.items()
    ]
    return "; ".join(parts)


def replace_damage(sink: str, rpc: str) -> str:
    """The command that replaces what cannot be read."""
    return f"`{repair_command(sink, rpc)}` replaces what is damaged"


def repair(gaps: Mapping[str, RangeSet], network: str, sink: str, rpc: str) -> str:
    """The command that brings what is missing."""
    heights = RangeSet(span for each in gaps.values() for span in each.spans)
    first, last = heights.spans[0].first, heights.spans[-1].last
    everything = BLOCKS.name in gaps
    some = [] if everything else ["--datasets", ",".join([BLOCKS.name, *gaps])]
    return f"`{fetch_command(network, f'{first}:{last}', sink, rpc, *some)}` brings them"
