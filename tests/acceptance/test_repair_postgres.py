"""`verify`, `gaps`, `repair` and `fetch --refetch` on tables that a server has."""

from __future__ import annotations

import asyncpg
import pytest

from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Parameters, simulated
from tests.acceptance.beside import run, run_json
from tests.acceptance.commands import Commands
from tests.conformance.fetch.stage import contents, truth

LAST = 99
DAMAGE = (
    "DELETE FROM logs WHERE block_number = 7",
    "UPDATE transactions SET value = 77 WHERE block_number = 37",
    "DELETE FROM withdrawals WHERE block_number = 60",
)


@pytest.fixture
def chain() -> Chain:
    return simulated(Parameters(blocks=LAST + 64, txs=3, fewest=1, seed=5))


async def damage(records_database: str, target: str) -> None:
    schema = target.rpartition("=")[2]
    connection = await asyncpg.connect(records_database, server_settings={"search_path": schema})
    for statement in DAMAGE:
        assert await connection.execute(statement) not in ("DELETE 0", "UPDATE 0")
    await connection.close()


async def fetch(gapless: Commands, node: DevNode, target: str, *options: str) -> None:
    place = ("--rpc", node.url, "--to", target, "--chunk-size", "20")
    await run(gapless, "fetch", "custom", f"0:{LAST}", *place, *options)


async def test_damage_is_named_and_replaced(
    sqlite_gapless: Commands, chain: Chain, postgres_target: str, records_database: str
) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, postgres_target)
        await damage(records_database, postgres_target)
        named = await run_json(sqlite_gapless, "gaps", postgres_target, code=1)
        assert (named["gaps"], named["damaged"]) == ([], [[7, 7], [60, 60]])
        found = await run_json(sqlite_gapless, "verify", postgres_target, "--deep", code=1)
        proofs = [(it["first"], it["last"]) for it in found["findings"] if it["check"] == "proof"]
        assert (37, 37) in proofs
        mended = await run(sqlite_gapless, "repair", postgres_target, "--rpc", node.url)
        assert "\ncomplete: nothing is missing; digests" in mended.stdout
    assert await contents(postgres_target) == truth(chain, Span(0, LAST))


async def test_a_refetch_replaces_stored_rows(
    sqlite_gapless: Commands, chain: Chain, postgres_target: str, records_database: str
) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, postgres_target)
        await damage(records_database, postgres_target)
        await fetch(sqlite_gapless, node, postgres_target, "--refetch")
        assert (await run(sqlite_gapless, "gaps", postgres_target)).stdout == ""
    assert await contents(postgres_target) == truth(chain, Span(0, LAST))


async def test_a_repair_that_does_not_help_says_what_to_do(
    sqlite_gapless: Commands, chain: Chain, postgres_target: str, records_database: str
) -> None:
    async with DevNode(chain) as node:
        await fetch(sqlite_gapless, node, postgres_target)
    await damage(records_database, postgres_target)
    async with DevNode(chain, faults="wrong-block@7*1000") as liar:
        command = ("repair", postgres_target, "--rpc", liar.url)
        result = await run(sqlite_gapless, *command, code=1)
    assert "error: " in result.stderr
    assert result.stderr.splitlines()[-1].startswith("hint: ")
    assert "gapless repair " in result.stderr.splitlines()[-1]
