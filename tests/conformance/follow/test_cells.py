"""A sink of whole files follows the final blocks, a whole file at a time."""

from __future__ import annotations

from pathlib import Path

from gapless.devnode import DevNode, Parameters, simulated
from gapless.sinks.parquet.manifest import CELL
from tests.conformance.follow.stage import CHAIN_ID, DEPTH, LIMITS, Stage, until


async def test_a_parquet_sink_follows_finality_in_whole_cells(tmp_path: Path) -> None:
    stage = Stage(f"sqlite:///{tmp_path}/ledger.db", f"{tmp_path}/blocks/")
    parameters = Parameters(blocks=CELL + DEPTH - 2, txs=0, chain_id=CHAIN_ID)
    async with DevNode(simulated(parameters), limits=LIMITS) as node:
        async with stage.follow(node, start=CELL - 50, chunk_size=1000) as follow:
            node.advance()
            status = await until(follow, lambda it: it.history_done == 50)
            assert status.state.next == CELL
        node.reorg(DEPTH)  # of which the sink holds nothing
        node.advance(CELL)
        async with stage.follow(node, chunk_size=1000) as follow:
            await until(follow, lambda it: it.state.next == 2 * CELL and it.phase == "live")
        await stage.assert_same(node.chain, CELL - 50, 2 * CELL - 1)
