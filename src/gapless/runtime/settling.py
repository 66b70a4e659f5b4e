"""Settles backfills after runs have ended: ends the backfills and starts the hooks of groups.

The worker that writes the last outcome of a backfill ends it at once. It may crash in between, so
every worker also looks at all backfills from time to time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gapless.core.errors import NotFound
from gapless.ledger import Ledger
from gapless.runtime.catalog import Catalog
from gapless.runtime.run import Outcome
from gapless.telemetry import log, metrics


class Settling:
    """Calls `on_settled` when a backfill has ended, and `wake` when a hook is ready to run."""

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

    async def settle(self, backfills: Sequence[str], groups: Sequence[str]) -> None:
        """Ends these backfills if they are finished, and starts the hooks of drained groups."""
        ended = await self._ledger.settle(backfills) if backfills else []
        for hook in await self._ledger.close_epochs(groups) if groups else ():
            log(logging.INFO, "group_drained", hook=hook.id)
            self._catalog.resolve([(hook.job, hook.job_version)])
            self._wake()
        if ended:
            self._on_settled()
        for backfill_id in ended:
            await self._tell_of_end(backfill_id)

    async def _tell_of_end(self, backfill_id: str) -> None:
        try:
            ended = await self._ledger.backfill(backfill_id)
        except NotFound:  # its follow has already deleted it
            return
        seconds = (ended.ended_at or ended.now) - (ended.started_at or ended.created_at)
        metrics.DURATION.observe(seconds)
        fields = {"backfill": backfill_id, "state": ended.state.lower()}
        log(logging.INFO, "backfill_settled", **fields, seconds=round(seconds, 3))


def concerned(outcomes: Sequence[Outcome]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The backfills and groups for which these may have been the last outcomes."""
    claimed = {each.claim.backfill for each in outcomes}
    groups = {backfill.group for backfill in claimed if backfill.group}
    return tuple(sorted({each.backfill_id for each in claimed})), tuple(sorted(groups))
