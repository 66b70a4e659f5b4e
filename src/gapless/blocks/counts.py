"""Counters of a fetch: each process keeps its own, and the one that reports adds them up."""

from __future__ import annotations

from collections import Counter

import msgspec

from gapless.providers import Served


class Counts(msgspec.Struct, frozen=True):
    fetched: int = 0  # decoded and checked blocks; blocks of a failed run are counted again
    at_hand: int = 0  # fetched blocks that are not written yet
    blocks: int = 0  # written
    batches: int = 0
    reproven: int = 0  # blocks verified again from their stored rows, not fetched
    calls: dict[str, int] = {}  # by method
    requests: int = 0
    retries: int = 0  # calls that were retried
    refused: int = 0  # answers that failed verification
    endpoints: dict[str, Served] = {}

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            fetched=self.fetched + other.fetched,
            at_hand=self.at_hand + other.at_hand,
            blocks=self.blocks + other.blocks,
            batches=self.batches + other.batches,
            reproven=self.reproven + other.reproven,
            calls=dict(Counter(self.calls) + Counter(other.calls)),
            requests=self.requests + other.requests,
            retries=self.retries + other.retries,
            refused=self.refused + other.refused,
            endpoints={
                name: self.endpoints.get(name, Served()) + other.endpoints.get(name, Served())
                for name in self.endpoints | other.endpoints
            },
        )
