"""How far a fetch is: blocks fetched and stored, its pace, the time left, what it waits for.

Fetched blocks are stored, or at hand and checked; stored ones are durable. The pace is that of the
last seconds. The time left follows it slowly, or it would jump with every batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gapless.blocks.counts import Counts
from gapless.blocks.running import FetchRun
from gapless.cli.display import RecentRate, Smoothed
from gapless.cli.render import BAR, bar
from gapless.cli.render_fetch import endpoint_troubles
from gapless.cli.waiting import Waiting
from gapless.core.text import plain
from gapless.ledger.records import Backfill
from gapless.providers import Served
from gapless.views.fetch import endpoint_views
from gapless.views.figures import counted, cut, duration, short, spans_text

_WORTH_TELLING = 1.0  # seconds: a shorter wait is over before anybody has read of it
_SILENCE = 5.0  # seconds without an answer before anybody wonders


@dataclass(frozen=True)
class FetchSnapshot:
    """How far a fetch is."""

    network: str
    total: int  # blocks
    stored: int
    fetched: int
    blocks_per_second: float = 0.0
    calls_per_second: float = 0.0
    seconds_left: float | None = None
    retries: int = 0
    refused: int = 0
    chunks_waiting: int = 0
    endpoints: Mapping[str, Served] = field(default_factory=dict)
    waiting: Waiting | None = None

    def text(self, width: int) -> str:
        """One line that fits the width."""
        share = self.stored / self.total
        parts = [f"{100 * share:.1f}%", f"{short(self.stored)}/{short(self.total)} stored"]
        if self.fetched > self.stored:
            parts.append(f"{short(self.fetched)} fetched")
        if self.waiting is not None:
            parts.append(str(self.waiting))
        elif self.blocks_per_second:
            parts.append(f"{short(self.blocks_per_second)}/s")
            if self.seconds_left is not None:
                parts.append(f"eta {duration(self.seconds_left)}")
            parts.append(f"{short(self.calls_per_second)} calls/s")
        waiting = "chunk waiting" if self.chunks_waiting == 1 else "chunks waiting"
        troubles = (
            (self.retries, "retried"),
            (self.refused, "refused"),
            (self.chunks_waiting, waiting),
        )
        parts += [f"{short(count)} {what}" for count, what in troubles if count]
        said = "" if self.waiting is None else self.waiting.reason
        found = endpoint_troubles(endpoint_views(self.endpoints))
        named = (f"{name}: {trouble}" for name, trouble in found)
        parts += [each for each in named if each not in said]
        room = width - len("  ".join([self.network, *parts])) - 2
        drawn = [bar(share, min(room, BAR))] if room >= BAR // 3 else []
        return cut("  ".join([self.network, *drawn, *parts]), width)

    def fields(self) -> dict[str, Any]:
        left = self.seconds_left
        return {
            "network": self.network,
            "total": self.total,
            "stored": self.stored,
            "fetched": self.fetched,
            "blocks_per_second": round(self.blocks_per_second, 1),
            "calls_per_second": round(self.calls_per_second, 1),
            "seconds_left": None if left is None else round(left),
            "retries": self.retries,
            "refused": self.refused,
            "chunks_waiting": self.chunks_waiting,
            "waiting": None if self.waiting is None else self.waiting.json(),
        }


class FetchLine:
    """The live line of a fetch: blocks and calls a second, not chunks."""

    def __init__(self, run: FetchRun) -> None:
        self._run = run
        self._pool, self._pipeline = run.session.pool, run.pipeline
        self._blocks, self._calls, self._smoothed = RecentRate(), RecentRate(), Smoothed()
        self._answers: tuple[int, ...] = ()
        self._answered_at = 0.0

    def at(self, backfill: Backfill, now: float, waiting: Waiting | None) -> FetchSnapshot:
        session, counts = self._run.session, self._run.counts
        total = session.span.size
        before = total - len(session.missing) + counts.reproven
        stored = min(total, before + counts.blocks)
        pace = self._blocks.after(now, counts.fetched + counts.reproven)
        smoothed = self._smoothed.after(now, pace)
        fetched = min(total, stored + counts.at_hand)
        return FetchSnapshot(
            network=session.spec.network,
            total=total,
            stored=stored,
            fetched=fetched,
            blocks_per_second=pace,
            calls_per_second=self._calls.after(now, sum(counts.calls.values())),
            seconds_left=(total - fetched) / smoothed if smoothed else None,
            retries=counts.retries,
            refused=counts.refused,
            chunks_waiting=backfill.chunks.failed,
            endpoints=counts.endpoints,
            waiting=waiting or self._resting(counts) or self._silence(counts, now),
        )

    def finishing(self) -> str:
        parts = []
        if writing := self._pipeline.writing:
            parts.append(f"writing blocks {spans_text(writing.spans)}")
        if in_flight := self._pool.in_flight:
            parts.append(f"{counted(in_flight, 'request')} in flight")
        return f"finishing: {', '.join(parts) or 'recording what is stored'}"

    def _resting(self, counts: Counts) -> Waiting | None:
        """Which endpoint is asked next, if all of them have to be left alone for a while."""
        served = counts.endpoints
        if self._pool.in_flight or not served or not all(it.rest for it in served.values()):
            return None
        name = min(served, key=lambda each: served[each].rest)
        if served[name].rest < _WORTH_TELLING:
            return None
        return Waiting(f"{name}: {plain(served[name].trouble)}", served[name].rest)

    def _silence(self, counts: Counts, now: float) -> Waiting | None:
        """How long nothing has come back from any endpoint, although something was asked."""
        answers = (counts.fetched, counts.reproven, counts.retries, counts.refused)
        if answers != self._answers:
            self._answers, self._answered_at = answers, now
        silent, in_flight = now - self._answered_at, self._pool.in_flight
        if silent < _SILENCE or not in_flight or self._pipeline.writing:
            return None
        return Waiting(f"no answer to {counted(in_flight, 'request')} for {duration(silent)}")
