"""`gapless verify`: is what is stored whole?"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import click

from gapless.cli import data, verifying
from gapless.cli.options import common, note
from gapless.cli.stores import (
    Store,
    blocks_option,
    network_option,
    opened_store,
    sink_argument,
)
from gapless.config import load
from gapless.networks import network_of_chain
from gapless.schema import BLOCKS
from gapless.verify import Report, compare
from gapless.verify import verify as look_through
from gapless.verify.against import sampled

_SAMPLES = 32
_PATIENCE = 20.0


@click.command()
@sink_argument
@network_option
@blocks_option
@click.option("--deep", is_flag=True, help="Also compute every digest again: reads all rows.")
@click.option(
    "--against", metavar="URL", help="Also compare some hashes with a node, or an endpoint's name."
)
@common
async def verify(
    ledger_url: str,
    as_json: bool,
    target: str,
    network_name: str | None,
    blocks_text: str | None,
    deep: bool,
    against: str | None,
) -> int:
    """Prove that what is stored is whole.

    Looks at the stored rows alone: no height is missing, every block stands on the one before, and
    every table has as many rows as its blocks promise. Of a backfill, what it was asked for. Exit
    code 1: something is missing or wrong.
    """
    async with opened_store(ledger_url, target, network_name, blocks_text) as store:
        report = await look_through(store.sink, store.chain_id, store.span, deep=deep)
        if report is None:
            note(f"error: `{store.shown}` holds no block of {store.network}")
            note(f"\nhint: `gapless fetch {store.network} A:B --to {store.shown}` brings some")
            return 1
        if against is not None:
            report = await _compared(store, report, against)
    _say(store, report, as_json=as_json)
    return 0 if report.complete else 1


async def _compared(store: Store, report: Report, against: str) -> Report:
    """The report, and which of some stored blocks a node has otherwise."""
    from gapless.sources.evm.source import EvmSource
    from gapless.sources.rpc import EndpointSpec, Pool

    known = None if "://" in against else load().endpoint(against)
    spec = EndpointSpec("against", known.url if known else against)
    async with Pool([spec], chain_id=store.chain_id, patience=_PATIENCE) as pool:
        source = EvmSource(pool, network_of_chain(store.chain_id), receipts=False)

        async def hash_of(height: int) -> bytes:
            return bytes.fromhex((await source.block_hash(height)).removeprefix("0x"))

        stored = next(it.heights for it in report.coverage if it.dataset == BLOCKS.name)
        heights = sampled(stored, _SAMPLES, Random())
        differing = await compare(store.sink, store.chain_id, heights, hash_of)
    note(f"{len(heights):,} blocks compared with the node")
    return replace(report, findings=(*report.findings, *differing))


def _say(store: Store, report: Report, *, as_json: bool) -> None:
    if as_json:
        click.echo(data.to_json(verifying.report_json(report, store.network)))
    else:
        click.echo(verifying.report_text(report, store.network))
    if not report.complete:
        note(f"error: {verifying.verdict(report)}")
        note(f"\nhint: {verifying.repair(report, store.network, store.shown)}")
