"""Short words for what tests do with a follow: create it, lead it, take a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gapless.core.chunk import Order
from gapless.core.ranges import HIGHEST
from gapless.core.retry import RetryPolicy
from gapless.core.selector import all_heights
from gapless.ledger import Ledger
from gapless.ledger.cursor import Cursor
from gapless.ledger.records import Append, Backfill, BackfillRequest, Claim, NewChunk
from tests.support import claim, claim_one, complete, request

FOLLOW = "eth"
HEAD = "head"  # the standing backfill
LEASE = 10.0
LIVE = ("priority",)


def standing(backfill_id: str = HEAD, follow: str = FOLLOW, /, **more: Any) -> BackfillRequest:
    """A request for the standing backfill of a follow."""
    wanted: dict[str, Any] = {
        "selector": {"kind": "range", "start": "0", "end": str(HIGHEST)},
        "selection": all_heights(),
        "queue": "priority",
        "retry": RetryPolicy.schedule(5, 10),
        "max_concurrent_runs": 100,
        "standing": True,
        "follow": follow,
    }
    return request(backfill_id, **(wanted | more))


def closed(backfill_id: str, **more: Any) -> BackfillRequest:
    """A request for a part of the history of a follow."""
    wanted = {"queue": "backlog", "order": Order.NEWEST, "follow": FOLLOW}
    return request(backfill_id, **(wanted | more))


async def begin(ledger: Ledger, owner: str = "leader", **more: Any) -> Cursor:
    """A new follow, led by the owner."""
    await ledger.create(standing(**more))
    return await lead(ledger, owner)


async def lead(ledger: Ledger, owner: str = "leader") -> Cursor:
    led = await ledger.lead(FOLLOW, owner, LEASE)
    assert led is not None
    cursor, backfill = led
    assert backfill.id == cursor.backfill_id
    return cursor


def step(cursor: Cursor, *chunks: NewChunk | int, **more: Any) -> Append:
    """The next step from a cursor; a number is a chunk of one block."""
    assert cursor.owner is not None
    return Append(
        follow=cursor.follow,
        owner=cursor.owner,
        fence=cursor.fence,
        version=cursor.version,
        state=more.pop("state", cursor.state),
        chunks=tuple(NewChunk(it, it) if isinstance(it, int) else it for it in chunks),
        **more,
    )


async def append(ledger: Ledger, cursor: Cursor, *chunks: NewChunk | int, **more: Any) -> Cursor:
    taken = await ledger.append(step(cursor, *chunks, **more))
    assert taken is not None
    assert taken.version == cursor.version + 1
    return taken


async def claim_live(ledger: Ledger, count: int = 1, **wish: Any) -> list[Claim]:
    return await claim(ledger, count, queues=LIVE, **wish)


async def claim_height(ledger: Ledger, height: int, **wish: Any) -> Claim:
    """Claims the chunk that is next, which must be of this height."""
    mine = await claim_one(ledger, queues=LIVE, **wish)
    assert mine.span == (height, height)
    return mine


async def complete_live(ledger: Ledger, count: int = 100) -> None:
    await complete(ledger, *await claim_live(ledger, count))


async def fold(ledger: Ledger, cursor: Cursor, below: int = HIGHEST, limit: int = 1000) -> int:
    assert cursor.owner is not None
    return await ledger.fold(cursor.follow, cursor.owner, cursor.fence, below, limit)


async def head(ledger: Ledger) -> Backfill:
    return await ledger.backfill(HEAD)


def at(cursor: Cursor, *, now: float) -> Cursor:
    """The same cursor, read at another time."""
    return replace(cursor, now=now)
