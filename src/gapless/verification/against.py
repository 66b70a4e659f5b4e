"""Compare stored blocks with a node's, a check that the rows alone cannot provide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random

from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.sinks import Sink
from gapless.verification.report import Finding, joined

HashOf = Callable[[int], Awaitable[bytes]]


def sampled(heights: RangeSet, count: int, chance: Random) -> list[int]:
    """Return both ends and random heights between them, ascending."""
    size = len(heights)
    if size <= count:
        return list(heights)
    places = [0, *sorted(chance.sample(range(1, size - 1), count - 2)), size - 1]
    return [heights.at(place) for place in places]


async def compare(
    sink: Sink, anchor: Table, chain_id: int, heights: Sequence[int], hash_of: HashOf
) -> list[Finding]:
    """Return a finding for each stored block whose hash differs from the node's."""
    findings, column = [], anchor.links.hash
    for height in heights:
        rows = await sink.read(anchor, chain_id, Span(height, height), [column])
        theirs = await hash_of(height)
        if rows.num_rows and rows[column][0].as_py() != theirs:
            message = "the node has a different block at this height"
            findings.append(Finding("hash", anchor.name, Span(height, height), message))
    return joined(findings)
