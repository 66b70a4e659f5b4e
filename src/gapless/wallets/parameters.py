"""What the package's functions about wallets are given: one text or several, and a ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gapless.config import Config
from gapless.ledger import Ledger, open_ledger
from gapless.runtime.process import DEFAULT_LEDGER, actor


def listed(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else [*given]


def ledger_url(config: Config, ledger: str | None) -> str:
    return ledger or config.ledger or DEFAULT_LEDGER


@asynccontextmanager
async def opened_ledger(url: str) -> AsyncIterator[Ledger]:
    """The ledger at a URL, which must be there."""
    ledger = await open_ledger(url, actor=actor(), create=False)
    try:
        yield ledger
    finally:
        await ledger.close()
