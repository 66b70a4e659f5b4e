"""What is to be done when runs have ended: end their backfills, and start hooks of groups.

Whoever writes the last outcome of a backfill ends it at once. A crash may come in between, so
everybody looks now and then at all backfills.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gapless.ledger import Ledger
from gapless.runtime.catalog import Catalog
from gapless.runtime.run import Outcome
from gapless.telemetry import log, metrics


class Settling:
    """Tells whoever waits through `on_settled`, and through `wake` that a hook is to be run."""

    def __init__(
        self,
        ledger: Ledger,
        catalog: Catalog,
        on_settled: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._on_settled = on_settled
        self._wake = wake

    async def settle_after(self, outcomes: Sequence[Outcome]) -> None:
        """Ends what these outcomes may have been the last of."""
        if outcomes:
            claimed = {each.claim.backfill for each in outcomes}
            groups = {backfill.group for backfill in claimed if backfill.group}
            await self._settle(sorted({each.backfill_id for each in claimed}), sorted(groups))

    async def settle_all(self) -> None:
        """Ends whatever nobody has ended."""
        await self._settle(None, None)

    async def _settle(self, backfills: list[str] | None, groups: list[str] | None) -> None:
        """Ends what is done and starts the hooks of drained groups; None stands for all."""
        ended = await self._ledger.settle(backfills)
        if groups is None or groups:
            for hook in await self._ledger.close_epochs(groups):
                log(logging.INFO, "group_drained", hook=hook.id)
                self._catalog.resolve([(hook.job, hook.job_version)])
                self._wake()
        if ended:
            self._on_settled()
        for backfill_id in ended:
            await self._tell_of_end(backfill_id)

    async def _tell_of_end(self, backfill_id: str) -> None:
        ended = await self._ledger.backfill(backfill_id)
        seconds = (ended.ended_at or ended.now) - (ended.started_at or ended.created_at)
        metrics.DURATION.observe(seconds)
        fields = {"backfill": backfill_id, "state": ended.state.lower()}
        log(logging.INFO, "backfill_settled", **fields, seconds=round(seconds, 3))
