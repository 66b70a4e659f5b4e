"""Find the stored blocks that are known to be on the right chain.

A block contains the hash of its parent. So if the hash of one block is known independently, every
block that links up to it is on the same chain: the blocks below it cannot be forged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.sinks import Sink
from gapless.verification.report import Anchored, Finding


async def contradictions(
    sink: Sink, table: Table, chain_id: int, known: Mapping[int, bytes], stored: RangeSet
) -> list[Finding]:
    """Return a finding for each stored block whose hash differs from the known one."""
    findings, column = [], table.links.hash
    for height in sorted(height for height in known if height in stored):
        rows = await sink.read(table, chain_id, Span(height, height), [column])
        if rows.num_rows and rows[column][0].as_py() != known[height]:
            message = f"its hash differs from the known one, 0x{known[height].hex()}"
            findings.append(Finding("anchor", table.name, Span(height, height), message))
    return findings


def anchored(
    table: Table, known: Mapping[int, bytes], stored: RangeSet, findings: Sequence[Finding]
) -> Iterator[Anchored]:
    """Yield the stored blocks below each anchor, down to a broken link or a wrong block."""
    blocks = [it for it in findings if it.dataset == table.name and it.check != "stray"]
    wrong = RangeSet(it.span for it in blocks if it.check not in ("link", "digest"))
    broken = {it.span.first for it in blocks if it.check == "link"}
    done = RangeSet()
    for height in sorted(known, reverse=True):
        run = next((it for it in (stored - wrong).spans if it.first <= height <= it.last), None)
        if run is None or height in done:
            continue
        first = max([run.first, *(at for at in broken if at <= height)])
        heights = RangeSet.of((first, height)) - done
        done |= heights
        yield Anchored(height, heights)
