"""A ledger that records claims and effects together.

The table `history` has no key that could hide a duplicate. Jobs insert a row for each effect, and a
trigger inserts one for each claim (without a height). Both happen while the chunk's row is locked,
so within a chunk the order of the rows is the order of events; and the law is simple: the fence of
an effect is that of the last claim before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Unpack

from gapless.core.backfill import State
from gapless.core.chunk import Status
from gapless.core.selector import Range
from gapless.ledger import Ledger
from gapless.ledger.database import LedgerTransaction, Row
from gapless.ledger.records import Backfill, ChunkRow
from gapless.runtime.controller import BackfillOptions, request_for
from gapless.runtime.job import Job
from tests.acceptance.fleet import until
from tests.support import Home, database_of, open_at

_SQLITE = (
    """
    CREATE TABLE history (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, backfill_id TEXT, chunk_index INTEGER,
        fence INTEGER, worker TEXT, height INTEGER)
    """,
    """
    CREATE TRIGGER note_claims AFTER UPDATE OF fence ON chunks WHEN NEW.fence IS NOT OLD.fence
    BEGIN
        INSERT INTO history (backfill_id, chunk_index, fence, worker)
        VALUES (NEW.backfill_id, NEW.chunk_index, NEW.fence, NEW.owner);
    END
    """,
)
_POSTGRES = (
    """
    CREATE TABLE history (
        seq BIGINT GENERATED ALWAYS AS IDENTITY, backfill_id TEXT, chunk_index BIGINT,
        fence BIGINT, worker TEXT, height BIGINT)
    """,
    """
    CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.history (backfill_id, chunk_index, fence, worker)
        VALUES (NEW.backfill_id, NEW.chunk_index, NEW.fence, NEW.owner);
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER note_claims AFTER UPDATE OF fence ON gapless.chunks FOR EACH ROW
    WHEN (NEW.fence IS DISTINCT FROM OLD.fence) EXECUTE FUNCTION note_claim()
    """,
)


@dataclass(frozen=True)
class Entry:
    """A row of the history: an effect, or a claim if it has no height."""

    chunk_index: int
    fence: int
    worker: str
    height: int | None


@dataclass(frozen=True)
class Lease:
    backfill_id: str
    chunk_index: int
    fence: int
    owner: str


@dataclass(frozen=True)
class Stage:
    """The ledger of a test, as the test's own process sees it."""

    ledger: Ledger
    schema: str  # the prefix of the ledger's own tables

    async def read(self, text: str, **parameters: Any) -> list[Row]:
        """Rows, without waiting for writers: one of them may have been stopped while writing."""
        return await database_of(self.ledger).transact(
            lambda tx: tx.execute(text, **parameters), write=False
        )

    async def create(self, job: Job, partitions: int, **options: Unpack[BackfillOptions]) -> str:
        """A backfill of the heights 0, 1, …; returns its id."""
        selector = Range("0", str(partitions - 1))
        return (await self.ledger.create(request_for(job, selector, options))).id

    async def ended(self, backfill_id: str) -> Backfill:
        """The backfill, once it has ended."""

        async def has_ended() -> bool:
            return (await self.ledger.backfill(backfill_id)).state.ended

        await until(has_ended, f"the end of `{backfill_id}`")
        return await self.ledger.backfill(backfill_id)

    async def chunk(self, backfill_id: str, index: int = 0) -> ChunkRow:
        (row,) = await self.ledger.chunks(backfill_id, index, index)
        return row

    async def leases(self) -> list[Lease]:
        """All running chunks."""
        rows = await self.read(
            f"SELECT backfill_id, chunk_index, fence, owner FROM {self.schema}chunks"
            " WHERE status = 'RUNNING'"
        )
        return [Lease(*row) for row in rows]

    async def completions(self) -> dict[tuple[str, int], int]:
        """The fence under which each chunk was completed."""
        rows = await self.read(
            f"SELECT backfill_id, chunk_index, fence FROM {self.schema}chunks"
            " WHERE status = 'COMPLETE'"
        )
        return {(backfill, chunk): fence for backfill, chunk, fence in rows}

    async def has_effects(self, count: int) -> bool:
        rows = await self.read("SELECT count(height) FROM history")
        return int(rows[0][0]) >= count

    async def history(self, backfill_id: str) -> list[Entry]:
        rows = await self.read(
            "SELECT chunk_index, fence, worker, height FROM history"
            " WHERE backfill_id = :id ORDER BY seq",
            id=backfill_id,
        )
        return [Entry(*row) for row in rows]

    async def heights_by_worker(self, backfill_id: str) -> dict[int, list[int]]:
        """What each process did."""
        found: dict[int, list[int]] = {}
        for each in await self.history(backfill_id):
            if each.height is not None:
                found.setdefault(int(each.worker), []).append(each.height)
        return {worker: sorted(heights) for worker, heights in found.items()}

    async def assert_exactly_once(self, backfill_id: str, partitions: int) -> None:
        """Nothing is missing or duplicated, and nothing was done without a lease."""
        assert (await self.ledger.backfill(backfill_id)).state is State.SUCCEEDED
        history = await self.history(backfill_id)
        heights = Counter(each.height for each in history if each.height is not None)
        twice = {height for height, times in heights.items() if times > 1}
        assert not twice, f"twice: {[each for each in history if each.height in twice]}"
        missing = set(range(partitions)) - heights.keys()
        assert not missing, f"never: {sorted(missing)}"
        chunks = await self.ledger.chunks(backfill_id)
        assert len(chunks) == len({each.chunk_index for each in history})
        for chunk in chunks:
            assert chunk.status is Status.COMPLETE, chunk
            entries = [each for each in history if each.chunk_index == chunk.chunk_index]
            assert chunk.fence == last_lawful_fence(entries), chunk


def last_lawful_fence(entries: list[Entry]) -> int:
    """The fence of a chunk's last claim; checks that everything was allowed and in order."""
    holder, *others = entries
    assert holder.height is None, holder
    last = -1
    for entry in others:
        if entry.height is None:
            assert entry.fence > holder.fence, (holder, entry)
            holder = entry
        else:
            assert entry.fence == holder.fence, (holder, entry)
            assert entry.worker == holder.worker.split(":")[1], (holder, entry)
            assert entry.height > last, (last, entry)
            last = entry.height
    return holder.fence


@asynccontextmanager
async def staged(home: Home) -> AsyncIterator[Stage]:
    """A new ledger, with its history."""
    ledger = await open_at(home)
    embedded = home.url.startswith("sqlite")

    async def add_history(tx: LedgerTransaction) -> None:
        for text in _SQLITE if embedded else _POSTGRES:
            await tx.execute(text)

    try:
        await database_of(ledger).transact(add_history)
        yield Stage(ledger, "" if embedded else "gapless.")
    finally:
        await ledger.close()
