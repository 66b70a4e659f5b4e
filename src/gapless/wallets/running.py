"""Runs the passes of wallets in this process, until they are synced and classified.

An observer decides what is shown and when the work is interrupted. A segment that waits for its
retry keeps the run waiting; what is complete meanwhile is classified all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Protocol

from gapless.blocks.job import PROVIDERS
from gapless.config import Config
from gapless.core.backfill import State
from gapless.core.errors import LedgerUnreachable, TransientError
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill
from gapless.ledger.syncs import Sync, SyncState
from gapless.ledger.views import EVERYTHING
from gapless.providers import Providers
from gapless.runtime.engine import Engine
from gapless.runtime.watching import LOOK_EVERY
from gapless.wallets import hook, job
from gapless.wallets.adding import Added
from gapless.wallets.plan import HOOK
from gapless.wallets.reading import syncs_of

_OPEN = frozenset({SyncState.PENDING, SyncState.RUNNING, SyncState.FAILED})


class WalletObserver(Protocol):
    """Watches wallets while they are synced, and may interrupt."""

    def running(self, engine: Engine) -> AbstractAsyncContextManager[asyncio.Event]:
        """Enters and leaves the engine; the event is set when the work should stop."""

    def show(self, syncs: Sequence[Sync]) -> None:
        """Shows the current progress."""

    def warn(self, message: str) -> None: ...


class SilentWalletObserver:
    """An observer for programs: nothing is shown, and nothing interrupts."""

    @asynccontextmanager
    async def running(self, engine: Engine) -> AsyncIterator[asyncio.Event]:
        async with engine:
            yield asyncio.Event()

    def show(self, syncs: Sequence[Sync]) -> None: ...

    def warn(self, message: str) -> None: ...


async def run_wallets(
    added: Added, config: Config, ledger: Ledger, providers: Providers, observer: WalletObserver
) -> list[Sync]:
    """Runs until the wallets are synced and classified, or until it is interrupted."""
    engine = Engine(
        ledger,
        slots=dict.fromkeys(await _queues(ledger, added), added.runs),
        jobs=[job.job(added.known), hook.job(added.known)],
        shared={PROVIDERS: providers},
        config=config,
        system=providers.system,
    )
    async with observer.running(engine) as interrupted:
        watching = asyncio.create_task(_watch(engine, added, observer))
        stopped = asyncio.create_task(interrupted.wait())
        try:
            await asyncio.wait([watching, stopped], return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            else:
                await engine.drain()
        finally:
            for task in (watching, stopped):
                task.cancel()
            await asyncio.gather(watching, stopped, return_exceptions=True)
    return await syncs_of(ledger, added.keys)


async def _queues(ledger: Ledger, added: Added) -> set[str]:
    """The queues of all passes of its groups; earlier ones may be in others than the new ones."""
    names = {group.name for group in added.groups}
    found = await ledger.backfills(hooks=False, limit=EVERYTHING)
    return {each.queue for each in found if each.group in names}


async def _watch(engine: Engine, added: Added, observer: WalletObserver) -> None:
    """Waits until no sync is open, and until what they found is classified."""
    trouble, hooks = "", dict[str, Backfill]()
    while True:
        try:
            syncs = await syncs_of(engine.ledger, added.keys)
            observer.show(syncs)
            if not any(each.state in _OPEN for each in syncs):
                hooks |= await _hooks(engine, added)
                if all(each.state.ended for each in hooks.values()):
                    break
            trouble = ""
        except LedgerUnreachable as error:  # the worker keeps trying, and so do we
            if trouble != str(error):
                trouble = str(error)
                observer.warn(trouble)
        settled = asyncio.create_task(engine.something_settled())
        await asyncio.wait([settled], timeout=LOOK_EVERY)
        if settled.done():
            settled.result()
        settled.cancel()
        with suppress(LedgerUnreachable):
            hooks = {each: await engine.ledger.backfill(each) for each in hooks}
    if failed := [each for each in hooks.values() if each.state is not State.SUCCEEDED]:
        raise TransientError(f"the wallets could not be classified: {failed[0].error}")


async def _hooks(engine: Engine, added: Added) -> dict[str, Backfill]:
    """Starts the hooks that are due, without a quiet time, and returns all that have not ended."""
    names = {group.name for group in added.groups}
    started = await engine.ledger.close_epochs(sorted(names), hurry=True)
    if started:
        engine.wake()
    found = {each.id: each for each in started}
    for state in (State.PENDING, State.RUNNING):
        for each in await engine.ledger.backfills(state=state, limit=EVERYTHING):
            if each.job == HOOK and any(each.id.startswith(f"drained-{name}-") for name in names):
                found[each.id] = each
    return found
