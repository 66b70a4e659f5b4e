"""Finds the follow that a command is repeated for, and refuses one that would contradict it.

A follow writes to its sink for months, so a second one on the same chain and sink would fight with
it, and a command that asks for something else must not seem to work.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gapless.blocks.plan import FetchRequest
from gapless.core.errors import Conflict
from gapless.following.spec import FollowSpec
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill


@dataclass(frozen=True)
class ExistingFollow:
    """A follow that may exist: its name, and what it would have to be."""

    name: str
    blocks: FetchRequest
    chain_id: int
    sink_id: str
    start: int | None

    async def find(self, ledger: Ledger) -> Backfill | None:
        """Returns its standing backfill, if it exists."""
        found = None
        for cursor in await ledger.cursors():
            backfill = await ledger.backfill(cursor.backfill_id)
            spec = msgspec.convert(backfill.spec, FollowSpec)
            if cursor.follow == self.name:
                self._refuse_different(spec)
                found = backfill
            elif (spec.chain_id, spec.sink_id) == (self.chain_id, self.sink_id):
                raise Conflict(
                    f"`{spec.network}` is followed into `{spec.sink}` already, as `{spec.name}`",
                    hint=f"use `{spec.name}`, or remove it first",
                )
        return found

    def _refuse_different(self, spec: FollowSpec) -> None:
        wanted = self.blocks
        start = spec.start if self.start is None else self.start
        compared = {
            "a different network": (spec.network, wanted.network.name),
            "a different chain": (spec.chain_id, self.chain_id),
            "a different sink": (spec.sink, wanted.sink),
            "a sink that was replaced since": (spec.sink_id, self.sink_id),
            "different tables": (spec.datasets, wanted.datasets),
            "different endpoints": (sorted(spec.endpoints), sorted(wanted.endpoints)),
            "a different first block": (spec.start, start),
        }
        different = [name for name, (there, here) in compared.items() if there != here]
        if different:
            raise Conflict(
                f"the follow `{self.name}` exists already, with {different[0]}",
                hint=f"give another name, or remove `{self.name}` first; its blocks stay",
            )
