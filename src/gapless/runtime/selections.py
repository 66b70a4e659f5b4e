"""A cache of the selections of the backfills that a worker runs.

A selection may have millions of keys, so the cache is limited and evicts the least recently used.
When a selection is read, its filter is compared with the job's current partitions.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from gapless.core.errors import Unreadable
from gapless.core.selector import Selection
from gapless.ledger import Ledger
from gapless.ledger.records import Claim
from gapless.runtime.catalog import Catalog
from gapless.runtime.drift import drift_of
from gapless.telemetry import log

MOST_BACKFILLS = 256
MOST_KEYS = 1_000_000


class Selections:
    """Selections by backfill id, the most recently used at the end."""

    def __init__(self, ledger: Ledger, catalog: Catalog) -> None:
        self._ledger = ledger
        self._catalog = catalog
        self._kept: OrderedDict[str, Selection] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def of(self, claim: Claim) -> Selection:
        """The selection of a claim's backfill; raises `Unreadable` if it cannot be decoded."""
        found = self._kept.get(claim.backfill_id)
        if found is None:
            found = await self._ledger.selection(claim.backfill.selection)
            await self._check_drift(claim, found)
            self._kept[claim.backfill_id] = found
            self._evict()
        self._kept.move_to_end(claim.backfill_id)
        return found

    def _evict(self) -> None:
        keys = sum(map(_size, self._kept.values()))
        while len(self._kept) > 1 and (len(self._kept) > MOST_BACKFILLS or keys > MOST_KEYS):
            _, gone = self._kept.popitem(last=False)
            keys -= _size(gone)

    async def _check_drift(self, claim: Claim, selection: Selection) -> None:
        backfill = await self._ledger.backfill(claim.backfill_id)
        if backfill.unreadable:
            raise Unreadable(backfill.unreadable, backfill_id=backfill.id)
        scheme = self._catalog[claim.backfill.job].partitions
        drift = drift_of(backfill.selector, selection, scheme)
        if drift != backfill.drift:
            log(logging.WARNING, "catalog_drifted", backfill=claim.backfill_id, drift=drift)
            await self._ledger.note_drift(claim.backfill_id, drift)


def _size(selection: Selection) -> int:
    return len(selection.keys) + len(selection.spans)
