"""Installs the peers, lets every tool do the job, prints the page and writes it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.peers import __doc__ as about
from bench.peers.bounds import bounds
from bench.peers.installing import NotInstalled
from bench.peers.measuring import QUICK, WHOLE, measured, tried
from bench.peers.page import page
from bench.peers.providers import PROVIDERS
from bench.peers.results import Results, this_machine
from bench.peers.tools import OURS, PEERS, Tool
from bench.rendered import LARGE, SMALL
from gapless.chains.evm.native import installed as installed_core

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def installed(names: Sequence[str]) -> tuple[list[Tool], dict[str, str]]:
    """Gapless and the peers that could be installed, and why the others could not."""
    tools, missing = [*OURS.values()], {}
    for name in names:
        try:
            PEERS[name].install()
            tools.append(PEERS[name])
        except NotInstalled as reason:
            missing[name] = str(reason)
    return tools, missing


async def compared(names: Sequence[str], *, quick: bool) -> Results:
    tools, missing = installed(names)
    extent = QUICK if quick else WHOLE
    small, large = [await measured(workload, tools, extent) for workload in (SMALL, LARGE)]
    trials = [await tried(provider, tools, small, extent) for provider in PROVIDERS]
    today = datetime.now(UTC).date()
    return Results(
        *([small, large], trials, missing, quick, today, this_machine()),
        is_compiled=installed_core().module is not None,
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the blocks, one round")
    parser.add_argument(
        "--page", type=Path, help="page to write; a full run writes docs/benchmarks.md"
    )
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"one of {', '.join(PEERS)}")
    wanted = parser.parse_args(arguments)
    if unknown := [name for name in wanted.peers if name not in PEERS]:
        parser.error(f"no peer `{unknown[0]}`; there are: {', '.join(PEERS)}")
    results = asyncio.run(compared(wanted.peers or [*PEERS], quick=wanted.quick))
    text = page(results)
    print(text)
    whole = not wanted.quick and not wanted.peers
    if (target := wanted.page or (PAGE if whole else None)) is not None:
        target.write_text(text)
    return 0 if all(row.ok for row in bounds(results)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
