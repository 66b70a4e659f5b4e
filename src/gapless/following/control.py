"""Pausing, resuming and removing a follow: its new blocks and its history together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gapless.core.errors import NotFound, WrongState
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill
from gapless.ledger.views import EVERYTHING

_Command = Callable[[str], Awaitable[Backfill]]


async def pause(ledger: Ledger, name: str) -> None:
    """Plans and starts nothing new; blocks that are being stored finish."""
    await _command(ledger, name, ledger.pause)


async def resume(ledger: Ledger, name: str) -> None:
    await _command(ledger, name, ledger.resume)


async def remove(ledger: Ledger, name: str) -> None:
    """Cancels everything that a follow still has to do, and forgets it; its blocks stay."""
    await _command(ledger, name, ledger.cancel)
    await ledger.remove_cursor(name)


async def _command(ledger: Ledger, name: str, command: _Command) -> None:
    """Commands the standing backfill first: then no more history is planned meanwhile."""
    await command((await ledger.cursor(name)).backfill_id)
    for each in await ledger.backfills(follow=name, limit=EVERYTHING):
        if not (each.standing or each.state.ended):
            await _unless_ended(ledger, each.id, command)


async def _unless_ended(ledger: Ledger, backfill_id: str, command: _Command) -> None:
    try:
        await command(backfill_id)
    except NotFound:
        pass  # it has ended and was folded
    except WrongState:
        if not (await ledger.backfill(backfill_id)).state.ended:
            raise
