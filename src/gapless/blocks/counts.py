"""What a fetch has done so far: counted by each process, added up by the one that tells of it."""

from __future__ import annotations

from collections import Counter

import msgspec

from gapless.providers import Served


class Counts(msgspec.Struct, frozen=True):
    fetched: int = 0  # blocks that came, decoded and checked; those of a failed run come again
    at_hand: int = 0  # of them, what is to be written
    blocks: int = 0  # written
    batches: int = 0
    reproven: int = 0  # blocks that were proven again from their own rows, and not fetched
    calls: dict[str, int] = {}  # by method
    requests: int = 0
    retries: int = 0  # calls that were sent again
    refused: int = 0  # answers that did not hold
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
