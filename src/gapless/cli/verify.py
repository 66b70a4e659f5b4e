"""`gapless verify`: check that stored blocks are complete and correct."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import replace
from functools import partial
from random import Random

import click

from gapless.blocks.stores import Store, opened_store
from gapless.cli import render_verify, speech
from gapless.cli.display import CLEAR, LINE_EVERY
from gapless.cli.options import anchor_option, common, complain, note, warn
from gapless.cli.output import print_json
from gapless.cli.stores import blocks_option, network_option, sink_argument
from gapless.config import EndpointSettings, load
from gapless.core.anchors import Anchor
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet
from gapless.telemetry.lines import log_to_stderr
from gapless.verification import Report, compare
from gapless.verification.against import sampled
from gapless.views.figures import counted, spans_text
from gapless.views.verify import report_view

_SAMPLES = 32
_PATIENCE = 20.0
_REDRAW_EVERY = 0.2
_WORTH_TELLING = 2.0  # seconds, after which a person asks how long it took


@click.command()
@sink_argument
@network_option
@blocks_option
@click.option(
    "--deep", is_flag=True, help="Read every row and prove all blocks again from the rows."
)
@anchor_option
@click.option(
    "--against", metavar="URL", help="Compare some hashes with this node or named endpoint."
)
@common
async def verify(
    ledger_url: str,
    as_json: bool,
    target: str,
    network_name: str | None,
    blocks_text: str | None,
    deep: bool,
    anchors: tuple[str, ...],
    against: str | None,
) -> int:
    """Check that stored blocks are complete and correct.

    Reads only the sink: every requested block must be stored, every block must link to the one
    before it, and every table must have the number of rows that its blocks commit to. With --deep,
    header hashes and roots are computed again from the rows. For a backfill, checks the blocks that
    it was asked for. Changes nothing. Exit code 1: something is missing or wrong.
    """
    async with opened_store(load(), ledger_url, target, network_name, blocks_text) as store:
        known = await store.known_hashes(anchors)
        progress = RowProgress(await rows_of(store) if deep else 0)
        report = await store.report(known, deep=deep, progress=progress.advance)
        progress.end()
        if against is not None:
            report = await _compared(store, report, against)
    for unchecked in render_verify.unchecked_anchors(map(Anchor.parse, anchors), report):
        warn(unchecked)
    _say(store, report, as_json=as_json)
    return 0 if report.complete else 1


async def rows_of(store: Store) -> int:
    """How many rows a deep look reads, going by the records."""
    records = await store.sink.stored(store.chain_id)
    span = store.span
    inside = [
        it
        for it in records
        if span is None or (it.span.first <= span.last and it.span.last >= span.first)
    ]
    return sum(it.rows for it in inside)


class RowProgress:
    """How far a deep look is: a live line on a terminal, elsewhere a line now and then."""

    def __init__(self, total: int) -> None:
        self._total, self._read = total, 0
        self._live = sys.stderr.isatty() and not speech.wants_json()
        self._started = self._written_at = time.monotonic()

    def advance(self, rows: int) -> None:
        self._read += rows
        now = time.monotonic()
        if now - self._written_at >= (_REDRAW_EVERY if self._live else LINE_EVERY):
            self._written_at = now
            line = render_verify.progress_line(self._read, self._total, now - self._started)
            if self._live:
                click.echo(f"{CLEAR}{line}", err=True, nl=False)
            else:
                note(line)

    def end(self) -> None:
        seconds = time.monotonic() - self._started
        if self._live and self._read:
            click.echo(CLEAR, err=True, nl=False)
        if self._read and seconds >= _WORTH_TELLING:
            note(render_verify.rate_line(self._read, seconds))


async def _compared(store: Store, report: Report, against: str) -> Report:
    """The report, and which of some stored blocks a node has otherwise.

    Above the final block, a difference is no finding: a follow replaces such blocks.
    """
    from gapless.blocks.plan import survey
    from gapless.chains import family_of
    from gapless.providers import EndpointSpec, Pool

    family = family_of(store.facts)
    log_to_stderr(logging.WARNING, as_json=speech.wants_json())  # what keeps it waiting
    known = EndpointSettings(against) if "://" in against else load().endpoint(against)
    spec = EndpointSpec("against", known.url, headers=known.headers)
    async with Pool([spec], family.queries, chain_id=store.chain_id, patience=_PATIENCE) as pool:
        source = family.source(pool, store.facts, [store.anchor.name], ())
        stored = next(it.heights for it in report.coverage if it.dataset == store.anchor.name)
        tip = await survey(source, store.facts)
        unsettled = stored & RangeSet.of((tip.final + 1, HIGHEST))
        reached = unsettled & RangeSet.of((0, tip.head))
        above = sampled(reached, _SAMPLES // 4, Random())
        below = sampled(stored - unsettled, _SAMPLES - len(above), Random())
        same = partial(compare, store.sink, store.anchor, store.chain_id)
        replaced = await same(above, source.block_hash)
        differing = await same(below, source.block_hash)
    note(f"compared {counted(len(below) + len(above), 'block')} with the node")
    if replaced:
        blocks = spans_text([each.span for each in replaced])
        note(f"not final yet, and different at the node: {blocks}")
    found = (*report.findings, *differing)
    return replace(report, findings=found, not_final=report.not_final | unsettled)


def _say(store: Store, report: Report, *, as_json: bool) -> None:
    shown = report_view(report, store.network)
    if as_json:
        print_json(shown)
    else:
        click.echo(render_verify.report_text(shown))
    if not report.complete:
        remedy = render_verify.repair(
            report, store.network, store.shown, has_endpoint=store.has_endpoint
        )
        complain(render_verify.verdict(report), remedy)
