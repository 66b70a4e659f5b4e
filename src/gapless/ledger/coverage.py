"""Coverage: which ranges each sink holds, as the runs that wrote them have told.

Rows are only ever added. Where two of them overlap, the one whose data has the higher fence holds,
because sinks let no lower fence overwrite a higher one; of the same fence, the one told later.
The run's own fence and the place in its telling are the key: told twice, it is there once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from gapless.core.errors import UsageError
from gapless.core.ranges import Span, topmost
from gapless.ledger.database import Transaction
from gapless.ledger.records import Claim, Coverage


def check(told: Coverage) -> None:
    """Refuses what could not be kept."""
    if told.is_cut:
        raise UsageError("nobody counted what is left of coverage that was cut")
    try:
        msgspec.json.encode(_item(0, 0, told))
    except (TypeError, ValueError) as error:
        raise UsageError(f"coverage that cannot be kept: {error}") from error


async def add(tx: Transaction, claim: Claim, told: Sequence[Coverage], start: int = 0) -> None:
    """Adds what a run has told, in a transaction in which its lease has proven to hold."""
    if told:
        items = [_item(claim.fence, nth, each) for nth, each in enumerate(told, start)]
        await tx.fetch("cover", id=claim.backfill_id, items=items)


async def held(tx: Transaction, sink_id: str, network: str, dataset: str | None) -> list[Coverage]:
    """What a sink holds of a network, by dataset and ascending; nothing of it overlaps."""
    rows = await tx.fetch("coverage", sink_id=sink_id, network=network, dataset=dataset)
    found: list[Coverage] = []
    for _, of_dataset in groupby(rows, key=itemgetter(0)):
        told = [_coverage(sink_id, network, row) for row in of_dataset]
        found += [told[at].cut(span) for span, at in topmost([each.span for each in told])]
    return found


def _item(run_fence: int, nth: int, told: Coverage) -> list[Any]:
    assert told.first_parent_hash is not None
    assert told.last_hash is not None
    return [
        told.sink_id,
        told.network,
        told.dataset,
        run_fence,
        nth,
        *told.span,
        told.fence,
        told.first_parent_hash.hex(),
        told.last_hash.hex(),
        told.rows,
        f"{told.digest:064x}",
        _names(told.checks),
        _names(told.unproven),
        told.endpoint,
    ]


def _coverage(sink_id: str, network: str, row: Sequence[Any]) -> Coverage:
    dataset, first, last, fence, parent, last_hash, rows, digest, checks, unproven, endpoint = row
    return Coverage(
        sink_id,
        network,
        dataset,
        Span(first, last),
        fence,
        bytes.fromhex(parent),
        bytes.fromhex(last_hash),
        rows,
        int(digest, 16),
        frozenset(msgspec.json.decode(checks)),
        frozenset(msgspec.json.decode(unproven)),
        endpoint,
    )


def _names(checks: frozenset[str]) -> str:
    return msgspec.json.encode(sorted(checks)).decode()
