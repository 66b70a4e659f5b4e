"""A fetch on its way: run here or left to workers, and what is said at its end."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass

import click

from gapless.cli import data, fetching, foreground, render
from gapless.cli.display import Pace, ProgressDisplay
from gapless.cli.logs import log_to_stderr
from gapless.cli.options import hint, note, opened
from gapless.cli.report import exit_code
from gapless.core.backfill import State
from gapless.core.ranges import RangeSet, Span
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.runtime import blocks
from gapless.runtime.engine import Engine
from gapless.runtime.fetch import Wish, covered, request_for_blocks, unfinished
from gapless.runtime.plane import BlocksSpec, Plane, profiles_to
from gapless.runtime.worker import WorkerOptions
from gapless.sinks import Sink


@dataclass(frozen=True)
class FetchRun:
    """A fetch with something to do, or to say."""

    ledger_url: str
    wish: Wish
    spec: BlocksSpec
    span: Span
    missing: RangeSet
    target: str

    async def leave_to_workers(self, *, as_json: bool) -> int:
        async with opened(self.ledger_url, create=True) as ledger:
            found, backfill_id = await unfinished(ledger, self.spec, self.span)
            created = found or await ledger.create(self._request(backfill_id))
        click.echo(data.to_json(data.backfill_json(created)) if as_json else created.id)
        hint(render.worker_needed(created))
        return 0

    async def here(self, plane: Plane, *, as_json: bool) -> int:
        """Runs it in this process to its end, or until someone interrupts it."""
        async with opened(self.ledger_url, create=True) as ledger:
            await ledger.raise_fence(await plane.sink.highest_fence())
            found, backfill_id = await unfinished(ledger, self.spec, self.span)
        wanted = found or self._request(backfill_id)
        engine = Engine(
            self.ledger_url,
            slots={wanted.queue: wanted.max_concurrent_runs},
            options=WorkerOptions(only=backfill_id),
        )
        line = FetchLine(self, plane)
        began = time.monotonic()
        with ProgressDisplay(line=line) as display, foreground.stdout_kept_for_data() as stdout:
            log_to_stderr(logging.WARNING, say=display.say)
            async with foreground.working(engine) as interrupted:
                if isinstance(wanted, BackfillRequest):
                    handle = await engine.submit(blocks.job(plane), wanted)
                else:
                    handle = await engine.attach(blocks.job(plane), wanted.id)
                if not as_json:
                    click.echo(handle.id, file=stdout)
                await foreground.run_to_the_end(engine, handle, display, interrupted)
                ended = await handle.progress()
                await engine.ledger.keep_profiles(self.spec.network, profiles_to(plane.pool))
        seconds = time.monotonic() - began
        return await self.conclude(plane.sink, (plane, ended, seconds), as_json=as_json)

    def _request(self, backfill_id: str) -> BackfillRequest:
        return request_for_blocks(backfill_id, self.spec, self.span, self.missing, self.wish)

    async def conclude(
        self, sink: Sink, ran: tuple[Plane, Backfill, float] | None, *, as_json: bool
    ) -> int:
        """Says what is stored and what is not; the exit code says the same."""
        await sink.finish()
        stored = await sink.stored(self.spec.chain_id, self.span)
        rows: Counter[str] = Counter()
        for each in stored:
            rows[each.dataset] += each.rows
        plane, ended, seconds = ran or (None, None, 0.0)
        gaps = RangeSet.of(self.span) - await covered(sink, self.spec, self.span)
        summary = fetching.Summary(
            id=None if ended is None else ended.id,
            state=State.SUCCEEDED if ended is None else ended.state,
            spec=self.spec,
            span=self.span,
            fetched=0 if plane is None else plane.blocks,
            seconds=seconds,
            rows=rows,
            gaps=gaps,
            unproven=frozenset(check for each in stored for check in each.unproven),
            calls={} if plane is None else plane.pool.calls,
            requests=0 if plane is None else plane.pool.requests,
            retries=0 if plane is None else plane.pool.retries,
            refused=0 if plane is None else plane.intake.refused,
            ledger=None if ended is None else self.ledger_url,
        )
        if as_json:
            click.echo(data.to_json(summary.to_json()))
        note(summary.text())
        return self._said(summary, ended)

    def _said(self, summary: fetching.Summary, ended: Backfill | None) -> int:
        if ended is not None and not ended.state.ended:
            hint("the same command goes on where it was")
            return foreground.INTERRUPTED
        if summary.gaps:
            note(f"error: {fetching.gaps_error(summary.gaps)}")
            if ended is not None and ended.error:
                note(f"  {ended.error}")
            hint("the same command tries them again; one more `--rpc` is a second opinion")
            return 1
        note(f"\ntry: {fetching.query(self.target, self.span)}")
        return 0 if ended is None else exit_code(ended)


class FetchLine:
    """The live line of a fetch: blocks and calls a second, not chunks."""

    def __init__(self, work: FetchRun, plane: Plane) -> None:
        self._work, self._plane = work, plane
        self._blocks, self._calls = Pace(), Pace()

    def __call__(self, backfill: Backfill, now: float, width: int) -> str:
        work, plane = self._work, self._plane
        total = work.span.size
        standing = fetching.Standing(
            network=work.spec.network,
            total=total,
            done=min(total, total - len(work.missing) + plane.blocks),
            blocks_per_second=self._blocks.after(now, plane.blocks),
            calls_per_second=self._calls.after(now, plane.pool.calls.total()),
            retries=plane.pool.retries,
            refused=plane.intake.refused,
            waiting=backfill.chunks.failed,
        )
        return fetching.progress_line(standing, width)
