"""Ledger and sink in one database, while fetches are killed and the server crashes at random.

    python -m tests.soak.one_transaction --rounds 200 [--seed N]

In each round a fetch resumes where the last one died, until it is killed with -9, or the server is
stopped with `-m immediate`. Then rows, records and progress must agree. A finished range is
compared with the chain itself, and a new one starts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import sys
from collections import Counter
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import asyncpg

import gapless
from gapless.blocks.request import FetchOptions
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Parameters, simulated
from tests.agreement import disagreements
from tests.conformance.fetch.stage import contents, truth
from tests.servers import PostgresConfig, PostgresServer
from tests.waiting import eventually

LAST = 400
DATABASE = "one_transaction"
SCHEMA = "eth"
MOST = 80  # blocks that are written between two strikes
SIZES = FetchOptions(chunk_size=60, batch_size=5, confirmations=0, retry="unbounded")
_context = get_context("forkserver")
_context.set_forkserver_preload(["gapless.ledger.postgres", "gapless.sinks.postgres", __name__])


def _fetch(node: str, url: str, words: Connection) -> None:
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - it is to end in any way
    asyncio.run(
        gapless.fetch(
            "custom", f"0:{LAST}", rpc=[node], to=f"{url}?schema={SCHEMA}", ledger=url, **SIZES
        )
    )
    words.send("done")


class Storm:
    """One server under rounds of kills and crashes; `seen` counts what happened."""

    def __init__(self, server: PostgresServer, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self._server = server
        self._url = server.url(DATABASE)
        self._chance = random.Random(seed)
        self._chain: Chain = simulated(Parameters(blocks=LAST, txs=4, fewest=0, seed=11))

    async def rage(self, rounds: int) -> list[str]:
        """The first disagreements; none, if all rounds went well."""
        await self._begin()
        async with DevNode(self._chain) as node:
            for _ in range(rounds):
                found = await self._round(node.url)
                if found:
                    return found
        self._server.drop_database(DATABASE)
        return []

    async def _round(self, node: str) -> list[str]:
        words, process = self._started(node)
        try:
            await self._some_more(words)
            done = _said_done(words)
            crash = self._chance.random() < 0.5
            if crash:  # the fetch tries to continue meanwhile
                await asyncio.to_thread(self._server.restart_immediate)
            else:
                process.kill()
            found = await self._look()
        finally:
            process.kill()
            await asyncio.to_thread(process.join)
            words.close()
        self.seen["crash" if crash else "kill"] += 1
        if done and not found:
            self.seen["whole ranges"] += 1
            found = await self._compare()
            await self._begin()
        return found

    async def _some_more(self, words: Connection) -> None:
        """Lets the fetch write a few more blocks, or finish."""
        connection = await asyncpg.connect(self._url)
        try:
            wanted = await _rows(connection) + self._chance.randrange(1, MOST)

            async def are_there() -> bool:
                return words.poll() or await _rows(connection) >= wanted

            await eventually(are_there)
        finally:
            await connection.close()
        await asyncio.sleep(self._chance.random() * 0.03)  # in the middle of a transaction

    def _started(self, node: str) -> tuple[Connection, BaseProcess]:
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(target=_fetch, args=(node, self._url, theirs), daemon=True)
        process.start()
        theirs.close()
        return ours, process

    async def _look(self) -> list[str]:
        connection = await asyncpg.connect(self._url)
        try:
            self.seen["midway"] += 0 < await _rows(connection) <= LAST
            return await disagreements(connection, SCHEMA)
        finally:
            await connection.close()

    async def _compare(self) -> list[str]:
        there = await contents(f"{self._url}?schema={SCHEMA}")
        honest = truth(self._chain, Span(0, LAST))
        return [f"other rows in `{name}`" for name in honest if there[name] != honest[name]]

    async def _begin(self) -> None:
        await asyncio.to_thread(self._server.drop_database, DATABASE)
        await asyncio.to_thread(self._server.create_database, DATABASE)


async def _rows(connection: asyncpg.Connection) -> int:
    if await connection.fetchval("SELECT to_regclass($1) IS NULL", f"{SCHEMA}.blocks"):
        return 0
    return int(await connection.fetchval(f'SELECT count(*) FROM "{SCHEMA}".blocks'))


def _said_done(words: Connection) -> bool:
    """Whether it is done; one that ended with an error has closed its output as well."""
    try:
        return words.poll() and bool(words.recv())
    except EOFError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    options = parser.parse_args()
    with PostgresServer(PostgresConfig(fsync=True)) as server:
        storm = Storm(server, options.seed)
        found = asyncio.run(storm.rage(options.rounds))
    happened = ", ".join(f"{count} {what}" for what, count in sorted(storm.seen.items()))
    print(f"seed {options.seed}: {happened}")
    for each in found:
        print(f"DISAGREE: {each}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
