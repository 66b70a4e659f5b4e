"""`gapless devnode`: a test node with its own chain and with faults on demand."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gapless.cli.options import Duration, note
from gapless.core.errors import UsageError
from gapless.devnode import (
    Chain,
    DevNode,
    Limits,
    Pace,
    Parameters,
    ReorgSchedule,
    parse_faults,
    parse_visibility,
    replayed,
    simulated,
)
from gapless.devnode.growth import DEFAULT_DEPTH
from gapless.devnode.limits import PROVIDERS, SAFE_DEPTH, FinalityTags, Metering
from gapless.devnode.simulation import BUILDERS, DEFAULT_FAMILY, RECORDED_FAMILY

_MOST_TRANSACTIONS = 500


class Transactions(click.ParamType[tuple[int | None, int]]):
    """How many per block: `5`, or `0:150` for a number between."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int]:
        match = re.fullmatch(r"(?:(\d+):)?(\d+)", str(value))
        if match is None:
            self.fail(
                f"`{value}` is not a number of transactions: write `5` or `0:150`", param, ctx
            )
        fewest, most = None if match[1] is None else int(match[1]), int(match[2])
        if most > _MOST_TRANSACTIONS or (fewest or 0) > most:
            self.fail(f"`{value}` is not between 0 and {_MOST_TRANSACTIONS}", param, ctx)
        return fewest, most


class Reorgs(click.ParamType[tuple[int, int]]):
    """One in every N blocks, and the most blocks it replaces: `50`, or `50:6`."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        match = re.fullmatch(r"([1-9]\d{0,8})(?::([1-9]\d{0,8}))?", str(value))
        if match is None:
            self.fail(f"`{value}` is not a number of blocks: write `50` or `50:6`", param, ctx)
        return int(match[1]), int(match[2] or DEFAULT_DEPTH)


@click.command()
@click.option(
    "--family",
    type=click.Choice([*BUILDERS]),
    default=DEFAULT_FAMILY,
    show_default=True,
    help="Kind of chain, and of the API that serves it.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8545,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--blocks",
    type=click.IntRange(0, 100_000_000),
    default=1000,
    show_default=True,
    help="Height of the last block; block 0 is the genesis.",
)
@click.option(
    "--txs",
    type=Transactions(),
    default="5",
    show_default=True,
    metavar="N|A:B",
    help="Transactions per block; every 16th block has none.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the chain and of the faults."
)
@click.option(
    "--chain-id",
    type=click.IntRange(1),
    help="Chain id to report.  [default: 1337; of a TRON chain, it follows from the genesis]",
)
@click.option(
    "--economy",
    is_flag=True,
    help="Give accounts balances, which also change where no event shows it. The node then answers"
    " eth_getBalance, eth_getTransactionCount, eth_getCode and eth_call.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Serve the chain recorded in this folder.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for simulated chains.  [default: ~/.cache/gapless]",
)
@click.option(
    "--latency-ms", type=click.FloatRange(0), default=0.0, help="Delay before every answer."
)
@click.option("--head", type=click.IntRange(0), help="Start with this head; later blocks follow.")
@click.option("--head-every", type=Duration(at_least=0.001), help="Interval between new blocks.")
@click.option(
    "--reorg-every",
    type=Reorgs(),
    metavar="N[:DEPTH]",
    help="Replace up to DEPTH of the last blocks once in N blocks, as the seed decides. DEPTH is 3"
    " if omitted.",
)
@click.option(
    "--view",
    "views",
    multiple=True,
    metavar="KEY=VALUE,…",
    help="Serve the same chain at one more URL, as a node that sees it differently: `lag=3` blocks"
    " behind, `cache=5s` for the latest block, `flap=30s` between branches after a reorg, `null=2s`"
    " for new blocks. Repeatable.",
)
@click.option(
    "--faults",
    default="",
    metavar="KIND=CHANCE,…",
    help="Faults to inject: `429=0.05,null=0.01`, or at a block: `truncated@17*2`.",
)
@click.option("--shuffle", is_flag=True, help="Answer the calls of a batch in random order.")
@click.option("--rps", type=click.FloatRange(0, min_open=True), help="Calls allowed per second.")
@click.option(
    "--metering",
    type=click.Choice([each.value for each in Metering]),
    default="overdraw",
    show_default=True,
    help="How `--rps` treats a batch above the limit: answer it, refuse the whole batch, or refuse"
    " each call above the limit.",
)
@click.option(
    "--retry-after",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Seconds to wait that a 429 asks for; see also the fault `429-bare`.",
)
@click.option("--no-retry-after", is_flag=True, help="Send no waiting time with a 429.")
@click.option("--max-range", type=click.IntRange(1), help="Blocks allowed per eth_getLogs.")
@click.option("--max-results", type=click.IntRange(1), help="Logs allowed per answer.")
@click.option(
    "--max-batch",
    type=click.IntRange(1),
    help="Calls allowed per request; for TRON, blocks per getblockbylimitnext.",
)
@click.option(
    "--words",
    type=click.Choice(list(PROVIDERS)),
    help="Provider whose error messages to imitate.  [default: geth; for TRON java-tron]",
)
@click.option(
    "--missing", multiple=True, metavar="METHOD", help="Method to reject as unknown. Repeatable."
)
@click.option(
    "--pruned-below", type=click.IntRange(0), default=0, help="Serve no blocks below this height."
)
@click.option(
    "--pruned-null", is_flag=True, help="Answer null for pruned blocks instead of an error."
)
@click.option(
    "--state-blocks",
    type=click.IntRange(1),
    metavar="N",
    help="Answer about accounts only at the newest N blocks, as a node without an archive does.",
)
@click.option(
    "--traces",
    is_flag=True,
    help="With --economy, answer trace_block and debug_traceBlockByNumber.",
)
@click.option(
    "--finality",
    type=click.Choice([each.value for each in FinalityTags]),
    default="depth",
    show_default=True,
    help="How to answer the tags `safe` and `finalized`, or TRON's solid head.",
)
@click.option(
    "--finality-depth",
    type=click.IntRange(0),
    help="Blocks from `finalized` to the highest head so far.  [default: 64; for TRON 19]",
)
@click.option(
    "--safe-depth",
    type=click.IntRange(0),
    default=SAFE_DEPTH,
    show_default=True,
    help="Blocks from `safe` to the highest head so far.",
)
@click.option("--strict-head", is_flag=True, help="Refuse eth_getLogs beyond the head.")
def devnode(host: str, port: int, latency_ms: float, **given: Any) -> int:
    """Run a test node with a simulated or recorded chain.

    Prints its URL as the first line on stdout, then the URL of each --view, and serves until SIGINT
    or SIGTERM. GET /_faults reports the calls and the injected faults. The method devnode_grow
    [blocks] moves the head, and devnode_reorg [height] replaces the blocks from a height on; on a
    TRON node, they are the paths /devnode_grow and /devnode_reorg. With ws:// instead of http://, a
    client of an EVM node can subscribe to new heads.

    The hashes, links, roots and blooms of a simulated chain are valid; its signatures are not. A
    chain is built once and cached.
    """
    faults, limits = parse_faults(given["faults"], given["seed"]), _limits(given)
    pace = _pace(given, latency_ms / 1000)
    visibilities = [parse_visibility(each) for each in given["views"]]
    chain = _chain(given)
    if given["head"] is not None:
        chain.start_at(given["head"])
    nodes = [DevNode(chain, faults=faults, limits=limits, pace=pace, address=(host, port))]
    for at, visibility in enumerate(visibilities, 1):
        nodes.append(
            DevNode(
                chain,
                faults=replace(faults, seed=faults.seed + at),
                limits=limits,
                pace=replace(pace, head_every=None),  # the first node moves the chain of all
                visibility=visibility,
                address=(host, port and port + at),
            )
        )
    asyncio.run(_serve(nodes))
    return 0


def _pace(given: dict[str, Any], latency: float) -> Pace:
    reorgs = None
    if given["reorg_every"] is not None:
        if given["head_every"] is None:
            raise UsageError("`--reorg-every` needs new blocks", hint="add `--head-every 2s`")
        every, depth = given["reorg_every"]
        reorgs = ReorgSchedule(every, depth, given["seed"])
    return Pace(
        latency=latency,
        head_every=given["head_every"],
        reorgs=reorgs,
        shuffle=given["shuffle"],
    )


def _chain(given: dict[str, Any]) -> Chain:
    family, (fewest, most) = given["family"], given["txs"]
    _refuse_options_of_others(family, given)
    if given["replay"] is not None:
        return replayed(given["replay"])
    parameters = Parameters(
        blocks=given["blocks"],
        txs=most,
        fewest=fewest,
        seed=given["seed"],
        economy=given["economy"],
    )
    if given["chain_id"] is not None:
        parameters = replace(parameters, chain_id=given["chain_id"])
    return simulated(parameters, given["cache"], family=family)


def _refuse_options_of_others(family: str, given: dict[str, Any]) -> None:
    """Raise `UsageError` for options that chains of a family do not have."""
    if given["chain_id"] is not None and BUILDERS[family](Parameters()).derives_chain_id:
        raise UsageError(
            f"`--chain-id` does not apply to `--family {family}`",
            hint="the chain id follows from the genesis block; another `--seed` gives another one",
        )
    if given["replay"] is not None and given["economy"]:
        raise UsageError(
            "a recorded chain has no balances", hint="leave out `--economy` or `--replay`"
        )
    if given["replay"] is not None and family != RECORDED_FAMILY:
        raise UsageError(
            f"a recorded chain is of the family `{RECORDED_FAMILY}`",
            hint=f"leave out `--family {family}` or `--replay`",
        )


def _limits(given: dict[str, Any]) -> Limits:
    names = ("words", "max_range", "max_results", "max_batch", "rps", "state_blocks")
    flags = ("pruned_below", "pruned_null", "strict_head", "traces")
    depths = ("finality_depth", "safe_depth")
    return Limits(
        **{name: given[name] for name in (*names, *flags, *depths)},
        retry_after=None if given["no_retry_after"] else given["retry_after"],
        missing=frozenset(given["missing"]),
        finality=FinalityTags(given["finality"]),
        metering=Metering(given["metering"]),
    )


async def _serve(nodes: Sequence[DevNode]) -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as running:
        try:
            for node in nodes:
                await running.enter_async_context(node)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no such port"
            raise UsageError(
                f"cannot listen there: {reason}", hint="`--port 0` picks a free port"
            ) from error
        for node in nodes:
            click.echo(node.url)
        chain = nodes[0].chain
        note(f"chain id {chain.chain_id}, head {chain.head:,}; press Ctrl-C to stop")
        await stopped.wait()
