"""The job of the demonstration: book a shop's receipts, one day at a time, exactly once.

Each day has a file of receipts. Booking a day means adding them up and writing one row. The row
and the note that the day is done are committed as one, so a worker that dies at any moment
leaves a day either booked or not, and nobody books it again. The table has no unique key on
purpose: a day booked twice would stay there for all to see.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import gapless

RECEIPTS = Path(os.environ.get("DEMO_RECEIPTS", "receipts"))
TABLE = """
CREATE TABLE IF NOT EXISTS booked (
    day TEXT NOT NULL, cents INTEGER NOT NULL, chunk TEXT NOT NULL, fence INTEGER NOT NULL)
"""
BOOK = "INSERT INTO booked VALUES (:day, :cents, :chunk, :fence)"


@gapless.job(partitions=gapless.daily("2022-01-01", "2024-12-31"), chunk_size=30)
async def book(chunk: gapless.Chunk, context: gapless.Context) -> None:
    async with context.transaction() as tx:
        await tx.execute(TABLE)
    for day in chunk:
        cents = total(RECEIPTS / f"{day}.json")
        await asyncio.sleep(0.005)  # the work of a day, long enough to watch
        async with context.transaction(done=day) as tx:
            await tx.execute(BOOK, day=str(day), cents=cents, chunk=chunk.id, fence=context.fence)


def total(receipts: Path) -> int:
    """The sum of a day's receipts; a file that cannot be read will not mend itself."""
    try:
        return sum(json.loads(receipts.read_text()))
    except ValueError as error:
        raise gapless.PermanentError(f"the receipts in {receipts.name} are damaged") from error
