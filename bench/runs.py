"""A fetch for a measurement: by the public function, into a new sink, with a new ledger.

Its time is from the first request to the last durable batch: connecting, opening and building the
indexes at the end are not included.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Unpack

import msgspec

import gapless
from gapless.blocks.request import FetchOptions
from gapless.blocks.result import FetchResult
from gapless.core.backfill import State
from gapless.ledger import open_ledger
from gapless.providers import Profile

NETWORK = "custom"


@dataclass(frozen=True)
class Room:
    """A folder in which every fetch gets its own path."""

    folder: Path
    _serials: Iterator[int] = field(default_factory=count)

    def path(self, suffix: str) -> Path:
        return self.folder / f"{next(self._serials)}{suffix}"

    async def fetch(
        self,
        url: str,
        blocks: int,
        target: str,
        profile: Profile | None = None,
        ledger: str | None = None,
        **options: Unpack[FetchOptions],
    ) -> FetchResult:
        """Fetches blocks 1 to `blocks`; a profile is what is already known about the node."""
        ledger = ledger or f"sqlite:///{self.path('.ledger.db')}"
        if profile is not None:
            opened = await open_ledger(ledger)
            known = {url.removeprefix("http://"): msgspec.to_builtins(profile)}
            await opened.keep_profiles(NETWORK, known)
            await opened.close()
        heights = f"1:{blocks}"
        result = await gapless.fetch(
            NETWORK, heights, rpc=[url], to=target, ledger=ledger, **options
        )
        assert result.state is State.SUCCEEDED
        assert result.fetched == blocks
        return result


@contextmanager
def room() -> Iterator[Room]:
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
        yield Room(Path(folder))
