"""Shortcuts for what many tests do with a ledger: open it, create, claim, fail, finish.

Tests control the clock and chance, so every delay is exact and nothing ever sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import apsw
import asyncpg

from gapless.core.chunk import Status, Verdict
from gapless.core.ranges import RangeSet
from gapless.core.selector import Selection
from gapless.ledger import Ledger, claims, control, open_ledger
from gapless.ledger.database import Database, LedgerTransaction
from gapless.ledger.records import (
    Backfill,
    BackfillRequest,
    Claim,
    ClaimRequest,
    Failure,
    Progress,
    Survey,
    SurveyRequest,
)
from gapless.system import System

JOB = ("copy", 1)
NOON = 1_700_000_000.0

_serials = count(1)


@dataclass
class Clock:
    """A clock that moves only when a test says so."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


@dataclass
class Chance:
    """A draw between 0 and 1 that a test decides; 0 means no jitter."""

    value: float = 0.0
    draw: Callable[[], float] | None = None

    def __call__(self) -> float:
        return self.draw() if self.draw else self.value


class Home(Protocol):
    """Where a ledger is: a SQLite file or a PostgreSQL database for one test."""

    @property
    def url(self) -> str: ...

    async def run(self, text: str) -> list[tuple[Any, ...]]:
        """Runs SQL on a separate connection, without the ledger."""


@dataclass(frozen=True)
class SqliteHome:
    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    async def run(self, text: str) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(self._run, text)

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(10_000)  # a worker may be polling
        try:
            return [tuple(row) for row in connection.execute(text)]
        finally:
            connection.close()


@dataclass(frozen=True)
class PostgresHome:
    url: str

    async def run(self, text: str) -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(self.url, server_settings={"search_path": "gapless"})
        try:
            return [tuple(row) for row in await connection.fetch(text)]
        finally:
            await connection.close()

    async def script(self, text: str) -> None:
        """Runs several statements at once."""
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(text)
        finally:
            await connection.close()


async def open_at(
    home: Home, clock: Clock | None = None, chance: Chance | None = None, *, actor: str = "test"
) -> Ledger:
    """One more ledger on the same database, as another process would open it."""
    system = System(database_clock=clock, chance=chance or Chance())
    return await open_ledger(home.url, actor=actor, system=system)


def database_of(ledger: Ledger) -> Database:
    return ledger._database


def request(
    backfill_id: str = "bf", *, partitions: int = 10, chunk_size: int = 1, **more: Any
) -> BackfillRequest:
    """A request for the blocks 100, 101, …; position 0 is block 100."""
    last = 100 + partitions - 1
    wanted: dict[str, Any] = {
        "job": JOB[0],
        "job_version": JOB[1],
        "selector": {"kind": "range", "start": "100", "end": str(last)},
        "selection": Selection("blocks", spans=((100, last),)),
    }
    return BackfillRequest(id=backfill_id, chunk_size=chunk_size, **(wanted | more))


async def create(ledger: Ledger, backfill_id: str = "bf", **wanted: Any) -> Backfill:
    return await ledger.create(request(backfill_id, **wanted))


@dataclass(frozen=True)
class Wish:
    """A claim request that a test fills in only where it matters."""

    owner: str = "worker"
    queues: tuple[str, ...] = ("default",)
    jobs: tuple[tuple[str, int], ...] = (JOB,)
    only: str | None = None
    claim_id: str = field(default_factory=lambda: f"claim-{next(_serials)}")

    def request(self, chunks: int) -> ClaimRequest:
        return ClaimRequest(
            self.owner, self.claim_id, self.queues, self.jobs, chunks, only=self.only
        )


async def plan(ledger: Ledger, backfill_id: str, count: int) -> int:
    """Plans up to `count` chunks before any claim, as a claim does; returns how many."""

    async def body(tx: LedgerTransaction) -> int:
        await control.lock(tx, backfill_id)
        return await claims.plan(tx, await claims.inspect(tx, backfill_id), count)

    return await database_of(ledger).transact(body)


async def claim(ledger: Ledger, chunks: int = 1, **wish: Any) -> list[Claim]:
    return await ledger.claim(Wish(**wish).request(chunks))


async def survey(ledger: Ledger, *queues: str, **more: Any) -> Survey:
    return await ledger.survey(SurveyRequest(queues or ("default",), (JOB,), **more))


async def claim_one(ledger: Ledger, **wish: Any) -> Claim:
    (only,) = await claim(ledger, 1, **wish)
    return only


def indices(claims: Sequence[Claim]) -> list[int]:
    return [each.chunk_index for each in claims]


def done(last_processed: int | None = None, *holes: tuple[int, int]) -> Progress:
    return Progress(last_processed, RangeSet(holes))


async def beat(ledger: Ledger, claim: Claim, progress: Progress | None = None) -> str:
    """The signal that answers one chunk's heartbeat."""
    signals = await ledger.heartbeat([(claim, progress or Progress(claim.last_processed))])
    return signals[claim.fence]


async def fail(
    ledger: Ledger, claim: Claim, progress: Progress | None = None, *, permanent: bool = False
) -> Verdict | None:
    progress = progress or Progress(claim.last_processed, claim.holes)
    return await ledger.fail(Failure(claim, progress, "Boom", "it broke", permanent))


async def complete(ledger: Ledger, *claims: Claim) -> None:
    assert await ledger.complete(claims) == set()


async def finish(ledger: Ledger, **wish: Any) -> list[Claim]:
    """Completes all that can be claimed now, and settles; returns the claims in order."""
    finished: list[Claim] = []
    while claims := await claim(ledger, 100, **wish):
        await complete(ledger, *claims)
        finished += claims
    await ledger.settle()
    return finished


async def statuses(ledger: Ledger, backfill_id: str = "bf") -> list[Status]:
    """The status of every planned chunk, by index."""
    return [chunk.status for chunk in await ledger.chunks(backfill_id)]


async def state(ledger: Ledger, backfill_id: str = "bf") -> str:
    return (await ledger.backfill(backfill_id)).state


async def event_types(ledger: Ledger, backfill_id: str = "bf") -> list[str]:
    return [type(event).__name__ for event, _ in await ledger.events(backfill_id)]
