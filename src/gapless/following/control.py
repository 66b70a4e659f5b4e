"""Pausing, resuming and removing a follow: its new blocks and its history together."""

from __future__ import annotations

from gapless.ledger import Ledger
from gapless.ledger.records import Backfill
from gapless.ledger.views import EVERYTHING


async def pause(ledger: Ledger, name: str) -> None:
    """Plans and starts nothing new; blocks that are being stored finish."""
    for each in await _backfills(ledger, name):
        await ledger.pause(each.id)


async def resume(ledger: Ledger, name: str) -> None:
    for each in await _backfills(ledger, name):
        await ledger.resume(each.id)


async def remove(ledger: Ledger, name: str) -> None:
    """Cancels everything that a follow still has to do, and forgets it; its blocks stay."""
    for each in await _backfills(ledger, name):
        await ledger.cancel(each.id)
    await ledger.remove_cursor(name)


async def _backfills(ledger: Ledger, name: str) -> list[Backfill]:
    """The backfills of a follow that have not ended, the standing one first."""
    await ledger.cursor(name)  # raises if there is no such follow
    found = await ledger.backfills(follow=name, limit=EVERYTHING)
    return sorted((each for each in found if not each.state.ended), key=lambda it: not it.standing)
