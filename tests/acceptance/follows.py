"""Follows as a person runs them: a live node, and `gapless follow` in its own process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import forks
from tests.acceptance.commands import Commands
from tests.acceptance.test_devnode import devnode

NETWORK, CHAIN_ID = "arbitrum-nova", 42_170
"""A network that is looked at once a second, and whose genesis is not known."""
PATIENCE = 40.0


@contextmanager
def live_node(cache: Path, *arguments: str, chain_id: int = CHAIN_ID) -> Iterator[str]:
    """The URL of a node whose chain grows, with the last ten blocks not final."""
    chain = ("--blocks", "60", "--txs", "2", "--chain-id", str(chain_id), "--cache", cache)
    with devnode(*chain, "--head-every", "400ms", "--finality-depth", "10", *arguments) as url:
        yield url


async def until_shown(gapless: Commands, name: str, condition: Callable[[Any], bool]) -> Any:
    """What `follow show` prints, once the follow exists and the condition holds."""
    show, environment = ("follow", "show", name, "--json"), gapless.environment()
    answer = ""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                done = await asyncio.to_thread(
                    forks.run, show, cwd=gapless.folder, env=environment, timeout=PATIENCE
                )
                answer = done.stdout
                if done.returncode == 0 and condition(shown := json.loads(answer)):
                    return shown
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"never so: {answer}") from None


def is_live(shown: Any) -> bool:
    return bool(shown["phase"] == "live" and shown["history_pct"] == 100)


def above(height: int) -> Callable[[Any], bool]:
    """Whether a follow is live and has stored more than the blocks up to a height."""
    return lambda shown: is_live(shown) and (shown["stored"] or 0) > height
