"""`gapless repair`: replace in place, under a fence, what `gapless verify` finds wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import click

from gapless.blocks.plan import FetchRequest
from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.result import FetchResult
from gapless.blocks.running import run_fetch
from gapless.blocks.stores import Store, opened_store, span_of, target_of
from gapless.chains import Level, Network, family_of
from gapless.chains.opening import open_sink
from gapless.cli import render_fetch, render_verify
from gapless.cli.fetch import opened_fetch
from gapless.cli.fetch_observer import Foreground
from gapless.cli.metrics import metrics_page
from gapless.cli.options import anchor_option, common, complain, hint, note
from gapless.cli.output import print_json
from gapless.cli.stores import blocks_option, network_option, sink_argument
from gapless.cli.suggestions import same_command
from gapless.cli.verify import RowProgress, rows_of
from gapless.config import Config, load
from gapless.core.ranges import RangeSet, Span
from gapless.runtime.signals import INTERRUPTED
from gapless.sinks import Access, Request
from gapless.verification import Report
from gapless.views.fetch import fetch_view
from gapless.views.figures import counted, spans_text
from gapless.views.verify import WithdrawalView, report_view


@click.command()
@sink_argument
@click.option(
    "--rpc", "rpcs", multiple=True, metavar="URL", help="Node to fetch from. Repeat for failover."
)
@network_option
@blocks_option
@click.option("--shallow", is_flag=True, help="Look for damage without reading every row.")
@click.option(
    "--replace-branch",
    is_flag=True,
    help="Also replace stored blocks that are not on the node's chain.",
)
@click.option(
    "--withdraw",
    metavar="A:B",
    help="Withdraw the request for these blocks, so that they are no longer gaps, then exit.",
)
@click.option("--dry-run", is_flag=True, help="List what would be replaced, then exit.")
@anchor_option
@common
async def repair(
    ledger_url: str,
    as_json: bool,
    target: str,
    rpcs: tuple[str, ...],
    network_name: str | None,
    blocks_text: str | None,
    shallow: bool,
    replace_branch: bool,
    withdraw: str | None,
    dry_run: bool,
    anchors: tuple[str, ...],
) -> int:
    """Fetch missing blocks and replace damaged ones.

    Verifies the sink as `gapless verify --deep` does, fetches what is missing or wrong, writes it
    in place of what is stored, and verifies again. Correct blocks are not touched. Exit code 1:
    something is still wrong.
    """
    async with opened_store(load(), ledger_url, target, network_name, blocks_text) as store:
        if (withdrawn := span_of(withdraw)) is not None:
            return await _withdraw(store, withdrawn, dry_run=dry_run, as_json=as_json)
        before = await _verified(store, anchors, deep=not shallow)
        requests = await store.sink.requests(store.chain_id)
        records = await store.sink.stored(store.chain_id)
    plan = Plan.of(before)
    note(plan.text(replace_branch=replace_branch))
    if dry_run or not (plan.heights or plan.strays or replace_branch):
        if as_json:
            print_json(report_view(before, store.network))
        if not before.complete:
            complain(render_verify.verdict(before), _remedy(store, before))
        return 0 if before.complete else 1
    await _remove_strays(store, plan.strays)
    asked = combined(requests) or [Request(before.span, frozenset(it.dataset for it in records))]
    for request, config in _requests(store, rpcs, asked, plan, anchors, replace_branch):
        result = await _replaced(request, config, ledger_url)
        note(render_fetch.summary(fetch_view(result, ledger_url)))
        if result.interrupted:
            hint(f"resume with `{same_command()}`")
            return INTERRUPTED
    async with opened_store(load(), ledger_url, target, network_name, blocks_text) as store:
        after = await _verified(store, anchors, deep=not shallow)
    shown = report_view(after, store.network)
    if as_json:
        print_json(shown)
    else:
        click.echo(render_verify.report_text(shown))
    if not after.complete:
        complain(render_verify.verdict(after), _remedy(store, after))
        return 1
    return 0


@dataclass(frozen=True)
class Plan:
    """What to do about a report."""

    heights: RangeSet  # to be fetched, in place of what is there
    strays: RangeSet  # rows that nobody asked for and no record knows
    files: tuple[str, ...]  # what is said of those that the manifest does not list
    elsewhere: RangeSet  # blocks that contradict a known hash

    @classmethod
    def of(cls, report: Report) -> Plan:
        stray = [it for it in report.findings if it.check == "stray"]
        files = tuple(it.message for it in stray if it.file is not None)
        rows = RangeSet(it.span for it in stray if it.file is None)
        wrong = report.gaps | report.damaged | rows
        elsewhere = RangeSet(it.span for it in report.findings if it.check == "anchor")
        return cls(wrong & report.asked, wrong - report.asked, files, elsewhere)

    def text(self, *, replace_branch: bool) -> str:
        lines = [f"{message}; {render_verify.BY_HAND}" for message in self.files]
        if self.strays:
            spans = spans_text(self.strays.spans)
            lines.append(f"to remove: rows of blocks {spans}, which were never requested")
        if self.heights:
            count = counted(len(self.heights), "block")
            lines.append(f"to replace: {count}: {spans_text(self.heights.spans)}")
        if self.elsewhere:
            spans = spans_text(self.elsewhere.spans)
            lines.append(f"on another chain or branch: {spans}; `--replace-branch` replaces them")
        if replace_branch:
            lines.append("to replace: also stored blocks that are not on the node's chain")
        return "\n".join(lines) or "nothing to replace: all stored blocks are correct"


async def _verified(store: Store, anchors: Sequence[str], *, deep: bool) -> Report:
    progress = RowProgress(await rows_of(store) if deep else 0)
    known = await store.known_hashes(anchors)
    try:
        return await store.report(known, deep=deep, progress=progress.advance)
    finally:
        progress.end()


def _remedy(store: Store, report: Report) -> str:
    return render_verify.repair(report, store.network, store.shown, has_endpoint=store.has_endpoint)


async def _withdraw(store: Store, span: Span, *, dry_run: bool, as_json: bool) -> int:
    shown = f"blocks {span.first:,} to {span.last:,}"
    if dry_run:
        note(f"{shown} would no longer be requested; stored rows would stay")
    else:
        async with await open_sink(target_of(load(), store.target), Access.WRITE) as sink:
            await sink.withdraw(store.chain_id, span)
        note(f"{shown} are no longer requested; stored rows stay")
    if as_json:
        print_json(WithdrawalView(withdrawn=span, dry_run=dry_run))
    return 0


async def _remove_strays(store: Store, strays: RangeSet) -> None:
    """Nothing is recorded there, so any fence may remove it."""
    if strays:
        async with await open_sink(target_of(load(), store.target), Access.WRITE) as sink:
            for span in strays.spans:
                await sink.retract(store.chain_id, span, await sink.highest_fence())


def _requests(
    store: Store,
    rpcs: Sequence[str],
    requests: Sequence[Request],
    plan: Plan,
    anchors: Sequence[str],
    replace_branch: bool,
) -> Iterator[tuple[FetchRequest, Config]]:
    """A fetch for each request that anything is wrong with, with its tables and checks."""
    for request in requests:
        here = plan.heights & RangeSet.of(request.span)
        if not here and not replace_branch:
            continue
        options = FetchOptions(
            datasets=",".join(sorted(request.datasets)),
            verify=_level(request, store.facts),
            anchors=anchors,
            refetch=True,
        )
        span = request.span
        fetch, targets = build_request(
            load(), store.facts.name, f"{span.first}:{span.last}", rpcs, store.target, options
        )
        yield replace(fetch, only=here, replace_branch=replace_branch), targets.config


def combined(requests: Sequence[Request]) -> list[Request]:
    """The requests without overlaps: of each block, all that any of them asks for."""
    edges = sorted({it.span.first for it in requests} | {it.span.last + 1 for it in requests})
    found: list[Request] = []
    for first, end in pairwise(edges):
        here = [it for it in requests if it.span.first <= first <= it.span.last]
        if not here:
            continue
        datasets = frozenset(name for it in here for name in it.datasets)
        checks = frozenset(check for it in here for check in it.checks)
        request = Request(Span(first, end - 1), datasets, checks)
        before = found[-1] if found else None
        if before == replace(request, span=before.span if before else request.span) and (
            before.span.last + 1 == first
        ):
            found[-1] = replace(request, span=Span(before.span.first, end - 1))
        else:
            found.append(request)
    return found


def _level(request: Request, network: Network) -> Level:
    """The lowest level that makes all checks of a request; without any, the default."""
    if not request.checks:
        return Level.AUTO
    family = family_of(network)
    checks = ((level, family.level(level, request.datasets)) for level in Level)
    return next((level for level, made in checks if request.checks <= made), Level.AUTO)


async def _replaced(request: FetchRequest, config: Config, ledger_url: str) -> FetchResult:
    opening = opened_fetch(request, config, ledger_url)
    async with metrics_page(None) as page, opening as session:
        return await run_fetch(session, Foreground(page, quiet=False, prints_id=False))
