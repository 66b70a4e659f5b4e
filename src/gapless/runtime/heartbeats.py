"""The loop that renews leases.

A heartbeat sends the progress of all runs to the ledger and returns a signal for each: continue,
stop, or lost. A run that has lost its lease sends no heartbeats: renewing the lease would keep
other workers from taking over the chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from gapless.core.errors import LedgerUnreachable
from gapless.ledger import Ledger
from gapless.ledger.records import Signal
from gapless.runtime.catalog import Catalog
from gapless.runtime.outage import Outage
from gapless.runtime.run import Run, trusted


class Heartbeats:
    """Sends a heartbeat every `seconds`, or more often if a lease is short."""

    def __init__(
        self,
        ledger: Ledger,
        worker_id: str,
        catalog: Catalog,
        runs: Collection[Run],
        seconds: float,
        outage: Outage,
    ) -> None:
        self._ledger = ledger
        self._worker_id = worker_id
        self._catalog = catalog
        self._runs = runs
        self._seconds = seconds
        self._outage = outage
        self._sooner = asyncio.Event()

    def hurry(self) -> None:
        """Recomputes the time of the next heartbeat, for example for a run with a short lease."""
        self._sooner.set()

    async def send(self) -> None:
        """Sends heartbeats forever."""
        loop = asyncio.get_running_loop()
        next_beat = loop.time()
        while True:
            leases = [run.claim.backfill.lease_seconds for run in self._runs]
            pause = min([self._seconds, *(lease / 6 for lease in leases)])
            next_beat = min(next_beat, loop.time() + pause)
            try:
                async with asyncio.timeout(next_beat - loop.time()):
                    await self._sooner.wait()
                self._sooner.clear()
            except TimeoutError:
                next_beat = loop.time() + pause
                try:
                    await self._beat()
                except LedgerUnreachable as error:
                    self._outage.note("heartbeats", error)
                else:
                    self._outage.over("heartbeats")

    async def _beat(self) -> None:
        runs = [run for run in self._runs if not run.lost]
        sent = asyncio.get_running_loop().time()
        if runs:
            signals = await self._ledger.heartbeat([(run.claim, run.progress) for run in runs])
            for run in runs:
                self._obey(run, signals[run.claim.fence], sent)
        await self._ledger.touch_worker(self._worker_id, self._catalog.unresolved)

    def _obey(self, run: Run, signal: Signal, sent: float) -> None:
        if run not in self._runs:
            return  # it ended while the heartbeat was in flight
        if signal is Signal.LOST:
            run.lose()
            return
        # The run's transaction locks the chunk's row, so no other worker can take it.
        if signal is not Signal.HELD and not run.in_transaction:
            run.lease_until(sent + trusted(run.claim.backfill.lease_seconds))
        if signal is Signal.STOP:
            run.cancel()
