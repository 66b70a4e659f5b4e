"""`gapless devnode`: a node to try things on, with a chain of its own and faults on demand."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import click

from gapless.cli.options import Duration, note
from gapless.core.errors import UsageError
from gapless.devnode import Chain, DevNode, Limits, Pace, Parameters, replayed, simulated
from gapless.devnode.faults import parse_faults
from gapless.devnode.limits import PROVIDERS, Finality, Metering

_MOST_TRANSACTIONS = 500


class Transactions(click.ParamType[tuple[int | None, int]]):
    """How many per block: `5`, or `0:150` for a number between."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int]:
        match = re.fullmatch(r"(?:(\d+):)?(\d+)", str(value))
        if match is None:
            self.fail(f"`{value}` is no number of transactions: write `5` or `0:150`", param, ctx)
        fewest, most = None if match[1] is None else int(match[1]), int(match[2])
        if most > _MOST_TRANSACTIONS or (fewest or 0) > most:
            self.fail(f"`{value}` is not between 0 and {_MOST_TRANSACTIONS}", param, ctx)
        return fewest, most


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8545, show_default=True, help="0: a free one."
)
@click.option(
    "--blocks",
    type=click.IntRange(0, 100_000_000),
    default=1000,
    show_default=True,
    help="The height of the head; block 0 is the genesis.",
)
@click.option(
    "--txs",
    type=Transactions(),
    default="5",
    show_default=True,
    metavar="N|A:B",
    help="Transactions per block; every 16th block has none.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the chain and the faults.")
@click.option("--chain-id", type=click.IntRange(1), default=1337, show_default=True, help="Its id.")
@click.option(
    "--replay",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Serve the chain recorded in this folder.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where simulated chains are kept; by default ~/.cache/gapless.",
)
@click.option(
    "--latency-ms", type=click.FloatRange(0), default=0.0, help="Time before every answer."
)
@click.option(
    "--head", type=click.IntRange(0), help="Begin with this head; blocks above come later."
)
@click.option("--head-every", type=Duration(at_least=0.001), help="A new block comes this often.")
@click.option(
    "--faults",
    default="",
    metavar="KIND=CHANCE,…",
    help="What goes wrong: `429=0.05,null=0.01`, or at a block: `truncated@17*2`.",
)
@click.option("--shuffle", is_flag=True, help="Answer batches in another order.")
@click.option("--rps", type=click.FloatRange(0, min_open=True), help="Calls allowed in a second.")
@click.option(
    "--metering",
    type=click.Choice([each.value for each in Metering]),
    default="overdraw",
    show_default=True,
    help="What `--rps` does with a batch above the limit: answer it, refuse the whole batch, or"
    " refuse each call above the limit.",
)
@click.option(
    "--retry-after",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Seconds that a 429 says to wait; see also the fault `429-bare`.",
)
@click.option("--no-retry-after", is_flag=True, help="A 429 says nothing about waiting.")
@click.option("--max-range", type=click.IntRange(1), help="Blocks allowed in one eth_getLogs.")
@click.option("--max-results", type=click.IntRange(1), help="Logs allowed in one answer.")
@click.option("--max-batch", type=click.IntRange(1), help="Calls allowed in one request.")
@click.option(
    "--words",
    type=click.Choice(list(PROVIDERS)),
    default="geth",
    show_default=True,
    help="Whose words a refusal is in.",
)
@click.option("--missing", multiple=True, metavar="METHOD", help="A method that is not there.")
@click.option(
    "--pruned-below", type=click.IntRange(0), default=0, help="Blocks below are not kept."
)
@click.option("--pruned-null", is_flag=True, help="And answered with null, not with an error.")
@click.option(
    "--finality",
    type=click.Choice([each.value for each in Finality]),
    default="depth",
    show_default=True,
    help="What the tags `safe` and `finalized` mean.",
)
@click.option("--strict-head", is_flag=True, help="Refuse logs beyond the head.")
def devnode(host: str, port: int, latency_ms: float, **given: Any) -> int:
    """Run a node with a simulated or recorded chain.

    Its URL is the first line on stdout; it serves until SIGINT or SIGTERM. GET /_faults tells
    what was asked and what went wrong on purpose. The methods devnode_grow [blocks] and
    devnode_reorg [height] move the head and replace the last blocks.

    The chain is valid: hashes, links, roots and blooms hold; signatures do not recover. It is
    built once and kept in a cache.
    """
    faults = parse_faults(given["faults"], given["seed"])
    chain = _chain(given)
    if given["head"] is not None:
        chain.start_at(given["head"])
    node = DevNode(
        chain,
        faults=faults,
        limits=_limits(given),
        pace=Pace(
            latency=latency_ms / 1000, head_every=given["head_every"], shuffle=given["shuffle"]
        ),
        address=(host, port),
    )
    asyncio.run(_serve(node))
    return 0


def _chain(given: dict[str, Any]) -> Chain:
    if given["replay"] is not None:
        return replayed(given["replay"])
    fewest, most = given["txs"]
    parameters = Parameters(
        blocks=given["blocks"],
        txs=most,
        fewest=fewest,
        seed=given["seed"],
        chain_id=given["chain_id"],
    )
    return simulated(parameters, given["cache"])


def _limits(given: dict[str, Any]) -> Limits:
    names = ("words", "max_range", "max_results", "max_batch", "rps")
    flags = ("pruned_below", "pruned_null", "strict_head")
    return Limits(
        **{name: given[name] for name in (*names, *flags)},
        retry_after=None if given["no_retry_after"] else given["retry_after"],
        missing=frozenset(given["missing"]),
        finality=Finality(given["finality"]),
        metering=Metering(given["metering"]),
    )


async def _serve(node: DevNode) -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        await node.__aenter__()
    except OSError as error:
        raise UsageError(
            f"cannot listen there: {error.strerror}", hint="`--port 0` takes a free port"
        ) from error
    try:
        click.echo(node.url)
        chain = node.chain
        note(f"chain id {chain.chain_id}, head {chain.head:,}; Ctrl-C ends it")
        await stopped.wait()
    finally:
        await node.__aexit__()
