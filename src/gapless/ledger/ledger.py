"""The interface of a ledger; each method is one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from gapless.core.backfill import Command
from gapless.core.chunk import Status, Verdict
from gapless.core.errors import LeaseLost, LedgerBusy, NotFound
from gapless.core.events import AnyEvent
from gapless.core.selector import Selection
from gapless.ledger import (
    check,
    claims,
    control,
    endpoints,
    folding,
    follows,
    groups,
    leases,
    queues,
    retries,
    survey,
    sync_views,
    views,
    wallet_check,
    workers,
)
from gapless.ledger import wallets as wallet_book
from gapless.ledger.cursor import Cursor, HeadSeen
from gapless.ledger.database import (
    BRIEF_SECONDS,
    PERSON_SECONDS,
    WORKER_SECONDS,
    Body,
    Database,
    LedgerTransaction,
)
from gapless.ledger.records import (
    Append,
    Attempt,
    Backfill,
    BackfillRequest,
    ChunkRow,
    Claim,
    ClaimRequest,
    DeadLetter,
    Failure,
    FollowRecord,
    Progress,
    Queue,
    Signal,
    Survey,
    SurveyRequest,
    WorkerRow,
)
from gapless.ledger.rows.event import StoredEvent
from gapless.ledger.syncs import (
    AddressSet,
    MovementPlace,
    Override,
    PlannedHeights,
    Planner,
    Sync,
    SyncFilter,
    SyncKey,
    Wallet,
    WalletKey,
)
from gapless.system import SYSTEM, Process, System

P = ParamSpec("P")
T = TypeVar("T")
Operation = Callable[Concatenate[LedgerTransaction, P], Awaitable[T]]


class Ledger:
    """The durable state of a set of backfills."""

    def __init__(self, database: Database, url: str, system: System = SYSTEM) -> None:
        self.url = url
        self._database = database
        self._clock, self._chance = system.clock, system.chance
        self.reached_at = self._clock()

    # Backfills

    async def create(self, request: BackfillRequest) -> Backfill:
        return await self._announce(await self._command(control.create, request))

    async def pause(self, backfill_id: str) -> Backfill:
        return await self._command(control.command, backfill_id, Command.PAUSE)

    async def resume(self, backfill_id: str) -> Backfill:
        return await self._announce(
            await self._command(control.command, backfill_id, Command.RESUME)
        )

    async def cancel(self, backfill_id: str, *, force: bool = False) -> Backfill:
        return await self._command(control.command, backfill_id, Command.CANCEL, force=force)

    async def retry_failed(
        self, parent_id: str, child_id: str, request_id: str | None = None
    ) -> Backfill:
        return await self._announce(
            await self._command(retries.retry_failed, parent_id, child_id, request_id)
        )

    async def retry_dead(self, parent_id: str, child_id: str, indices: Sequence[int]) -> Backfill:
        return await self._announce(
            await self._command(retries.retry_dead, parent_id, child_id, indices)
        )

    async def purge(self, backfill_id: str, indices: Sequence[int] | None = None) -> int:
        return await self._command(control.purge, backfill_id, indices)

    async def hasten(self, backfill_id: str) -> int:
        """Lets failed chunks be claimed again at once; returns how many were waiting."""
        return await self._write(control.hasten, backfill_id)

    async def note_drift(self, backfill_id: str, drift: str | None) -> None:
        await self._write(control.note_drift, backfill_id, drift)

    async def settle(self, backfill_ids: Sequence[str] | None = None) -> list[str]:
        """Ends the backfills, among these or all, with nothing left to do; returns their ids."""
        ready = await self._read(control.unsettled, backfill_ids)
        return [each for each in ready if await self._settled(each)]

    async def _settled(self, backfill_id: str) -> bool:
        # A row of it is locked: a later poll settles it. Or its follow has already deleted it.
        with suppress(LedgerBusy, NotFound):
            return (await self._soon(control.settle, backfill_id)).ended
        return False

    async def condemn(self, backfill_id: str, reason: str) -> None:
        """Fails a backfill that no worker can run."""
        await self._write(control.condemn, backfill_id, reason)

    async def close_epochs(
        self, names: Sequence[str] | None = None, *, hurry: bool = False
    ) -> list[Backfill]:
        """Starts the hooks of the groups, among these or all, that are drained.

        With `hurry`, a group does not have to be quiet for as long as it usually waits.
        """
        drained = await self._read(groups.drained, names, hurry=hurry)
        hooks = [await self._write(groups.close_epoch, name, hurry=hurry) for name in drained]
        return [hook for hook in hooks if hook is not None]

    # Follows

    async def lead(
        self, follow: str, owner: str, lease_seconds: float, seen: HeadSeen | None = None
    ) -> tuple[Cursor, Backfill] | None:
        """Takes or renews the leadership of a follow; None while somebody else has it.

        What the leader has `seen` of the head is recorded with it.
        """
        return await self._write(follows.lead, follow, owner, lease_seconds, seen)

    async def resign(self, follow: str, owner: str) -> None:
        await self._write(follows.resign, follow, owner)

    async def change_follow(
        self, follow: str, changed: Callable[[Backfill], tuple[dict[str, Any], str]]
    ) -> None:
        """Changes spec and queue of a follow's unended backfills, and deposes its leader."""
        await self._command(follows.change, follow, changed)
        await self._database.notify()

    async def append(self, step: Append) -> Cursor | None:
        """Takes one step of a follow's leader; None if it does not lead any more."""
        cursor = await self._write(follows.append, step)
        if cursor is not None and (step.chunks or step.backfills):
            await self._database.notify()
        return cursor

    async def fold(self, follow: str, owner: str, fence: int, below: int, limit: int) -> int:
        """Deletes up to `limit` chunks that a follow has finished; returns how many rows."""
        return await self._write(folding.fold, follow, owner, fence, below, limit)

    async def remove_cursor(self, follow: str) -> None:
        """Forgets a follow; its backfills stay."""
        await self._command(follows.remove_cursor, follow)

    async def cursor(self, follow: str) -> Cursor:
        return await self._read(views.cursor, follow)

    async def follow(self, name: str, limit: int) -> FollowRecord:
        return await self._look(views.follow, name, limit)

    async def follows(self) -> list[tuple[Cursor, Backfill]]:
        return await self._read(views.follows)

    # Leases

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        try:
            return await self._soon(claims.claim, request, self._chance)
        except LedgerBusy:  # somebody keeps a backfill locked, which must not delay the others
            return await self._soon(claims.claim, request, self._chance, only_free=True)

    async def heartbeat(self, beats: Sequence[tuple[Claim, Progress]]) -> dict[int, Signal]:
        return await self._write(leases.heartbeat, beats)

    async def complete(self, done: Sequence[Claim]) -> set[str]:
        """Completes chunks; returns the ids of those whose lease this worker has lost."""
        return await self._each(leases.complete, done)

    async def fail(self, failure: Failure) -> Verdict | None:
        return await self._write(leases.fail, failure, self._chance())

    async def release(self, claim: Claim, progress: Progress) -> bool:
        return await self._write(leases.release, claim, progress)

    @asynccontextmanager
    async def holding(
        self, claim: Claim, progress: Callable[[], Progress]
    ) -> AsyncIterator[LedgerTransaction]:
        """A transaction for a job's own effects, committed together with its progress.

        It locks the chunk's row, so nobody else can take the chunk before it ends. Where it blocks
        all other writers (SQLite), it may last a quarter of the lease.
        """
        async with self._database.session(limit=claim.backfill.lease_seconds / 4) as tx:
            if not await leases.hold(tx, claim):
                raise LeaseLost(f"chunk `{claim.chunk_id}` is no longer leased to this run")
            yield tx
            await leases.heartbeat(tx, [(claim, progress())])

    def session(self) -> AbstractAsyncContextManager[LedgerTransaction]:
        """A transaction on the ledger's database that locks none of its rows."""
        return self._database.session()

    async def survey(self, request: SurveyRequest) -> Survey:
        """What a worker can do now, and when to look again."""
        return await self._read(survey.survey, request)

    async def raise_fence(self, above: int) -> None:
        """Makes every later fence higher than this one, which a sink has seen."""
        await self._command(claims.raise_fence, above)

    # Wallets

    async def add_wallets(
        self, wallets: Sequence[Wallet], planner: Planner, new_id: Callable[[], str]
    ) -> list[Sync]:
        """Adds wallets with all that the planner decides; returns the syncs that it concerns."""
        found = await self._command(wallet_book.add, wallets, planner, new_id)
        await self._database.notify()
        return found

    async def remove_wallets(
        self, wallets: Sequence[WalletKey], *, with_overrides: bool = False
    ) -> list[Backfill]:
        """Removes wallets; returns the passes that it cancelled because nobody needs them."""
        return await self._command(wallet_book.remove, wallets, with_overrides=with_overrides)

    async def wallets(
        self, group: str | None = None, *, after: WalletKey | None = None, limit: int = views.PAGE
    ) -> list[Wallet]:
        return await self._look(sync_views.wallets, group, after, limit)

    async def syncs(
        self,
        wanted: SyncFilter = SyncFilter(),  # noqa: B008 - frozen
        *,
        after: SyncKey | None = None,
        limit: int = views.PAGE,
    ) -> list[Sync]:
        """Syncs in the order of their keys; the next page begins after the key of the last one."""
        return await self._look(sync_views.syncs, wanted, after, limit)

    async def planned(self, wallets: Sequence[WalletKey]) -> dict[SyncKey, PlannedHeights]:
        """What is planned for all syncs of some wallets."""
        return await self._look(sync_views.planned, wallets)

    async def address_set(self, set_id: str) -> AddressSet:
        return await self._read(sync_views.address_set, set_id)

    async def set_overrides(self, overrides: Sequence[Override]) -> None:
        """Says what movements mean to wallets; the hooks of their groups run once more."""
        await self._command(wallet_book.set_overrides, overrides)

    async def remove_overrides(self, wallet: WalletKey, movements: Sequence[MovementPlace]) -> int:
        """Takes back what was said about movements of a wallet; returns how many it was."""
        return await self._command(wallet_book.remove_overrides, wallet, movements)

    async def overrides(
        self, group: str, address: str | None = None, chain_id: int | None = None
    ) -> list[Override]:
        return await self._read(sync_views.overrides, group, address, chain_id)

    # Queues

    async def queues(self) -> list[Queue]:
        return await self._look(queues.queues)

    async def pause_queue(self, name: str) -> bool:
        """Lets nothing more of a queue be claimed; False if it was paused already."""
        return await self._command(queues.pause, name)

    async def resume_queue(self, name: str) -> bool:
        """Lets chunks of a queue be claimed again; False if it was not paused."""
        resumed = await self._command(queues.resume, name)
        await self._database.notify()
        return resumed

    # Endpoints

    async def profiles(self, network: str) -> dict[str, Any]:
        """What was learned about each endpoint of a network, by its name."""
        return await self._read(endpoints.profiles, network)

    async def keep_profiles(self, network: str, profiles: Mapping[str, Any]) -> None:
        """Replaces the profiles of these endpoints; others stay as they are."""
        await self._write(endpoints.keep, network, profiles)

    # Workers

    async def register(self, worker_id: str, process: Process, slots: dict[str, int]) -> None:
        await self._write(workers.register, worker_id, process, self._database.library, slots)

    async def touch_worker(self, worker_id: str, unresolved: dict[str, str]) -> None:
        await self._write(workers.touch, worker_id, unresolved)

    async def end_worker(self, worker_id: str) -> None:
        await self._write(workers.end, worker_id)

    async def free_dead(self, process: Process, alive: Callable[[Process], bool]) -> int:
        return await self._write(workers.free_dead, process, alive)

    async def live_workers(self) -> list[WorkerRow]:
        return await self._read(workers.live)

    def on_notify(self, wake: Callable[[], None]) -> None:
        self._database.on_notify(wake)

    # Views

    async def backfill(self, backfill_id: str) -> Backfill:
        return await self._read(views.backfill, backfill_id)

    async def backfills(
        self,
        *,
        state: str | None = None,
        follow: str | None = None,
        hooks: bool = True,
        limit: int = 100,
    ) -> list[Backfill]:
        return await self._look(
            views.backfills, state=state, follow=follow, hooks=hooks, limit=limit
        )

    async def selection(self, digest: str) -> Selection:
        return await self._read(views.selection, digest)

    async def chunks(
        self,
        backfill_id: str,
        low: int = 0,
        high: int = views.EVERYTHING,
        limit: int = views.PAGE,
    ) -> list[ChunkRow]:
        return await self._look(views.chunks, backfill_id, low, high, limit)

    async def chunks_with(
        self, backfill_id: str, statuses: Sequence[Status], limit: int
    ) -> list[ChunkRow]:
        return await self._look(views.chunks_with, backfill_id, statuses, limit)

    async def open_chunks(self, backfill_id: str, limit: int) -> list[ChunkRow]:
        return await self._look(views.open_chunks, backfill_id, limit)

    async def attempts(self, backfill_id: str, chunk_index: int) -> list[Attempt]:
        """The latest failed runs of a chunk, the oldest first."""
        return await self._read(views.attempts, backfill_id, chunk_index)

    async def dead(self, backfill_id: str | None = None, limit: int = 1000) -> list[DeadLetter]:
        return await self._look(views.dead, backfill_id, limit)

    async def events(self, backfill_id: str) -> list[tuple[AnyEvent, StoredEvent]]:
        return await self._look(views.event_list, backfill_id)

    # Upkeep

    async def check(self) -> list[str]:
        """Every problem of the ledger; an empty list if there is none."""
        if problems := await self._database.integrity_problems():
            return problems  # no row of such a database can be trusted
        for backfill in await self.backfills(limit=views.EVERYTHING):
            problems += await self._look(check.check, backfill.id)
        return problems + await self._look(wallet_check.check)

    async def compact(self) -> int:
        """Compacts ended backfills; returns how many events were deleted."""
        ended = await self._look(check.compactable)
        return sum([await self._command(check.compact, each) for each in ended])

    async def migrate(self) -> tuple[int, int]:
        """Updates the schema; returns its version before and after."""
        before = await self._database.schema_version() or 0
        await self._database.migrate()
        return before, await self._database.schema_version() or 0

    async def close(self) -> None:
        await self._database.close()

    async def _announce(self, backfill: Backfill) -> Backfill:
        await self._database.notify()
        return backfill

    # `_read` and `_write` are for workers; `_look` and `_command` for people, and may take longer

    async def _read(self, operation: Operation[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await self._reach(lambda tx: operation(tx, *arguments, **named), write=False)

    async def _write(self, operation: Operation[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await self._reach(lambda tx: operation(tx, *arguments, **named))

    async def _each(self, operation: Operation[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Like `_write`, for an operation whose statements are a transaction each."""
        return await self._reach(lambda tx: operation(tx, *arguments, **named), atomic=False)

    async def _soon(self, operation: Operation[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Like `_write`, but waits only briefly for locked rows."""
        return await self._reach(
            lambda tx: operation(tx, *arguments, **named), for_rows=BRIEF_SECONDS
        )

    async def _look(self, operation: Operation[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await self._reach(
            lambda tx: operation(tx, *arguments, **named), write=False, within=PERSON_SECONDS
        )

    async def _command(
        self, operation: Operation[P, T], *arguments: P.args, **named: P.kwargs
    ) -> T:
        return await self._reach(
            lambda tx: operation(tx, *arguments, **named), within=PERSON_SECONDS
        )

    async def _reach(
        self,
        body: Body[T],
        *,
        write: bool = True,
        within: float = WORKER_SECONDS,
        for_rows: float | None = None,
        atomic: bool = True,
    ) -> T:
        found = await self._database.transact(
            body, write=write, within=within, for_rows=for_rows, atomic=atomic
        )
        self.reached_at = self._clock()
        return found
