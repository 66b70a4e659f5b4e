"""A known hash is compared with each block, not only with an endpoint's first answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.blocks.block_pipeline import BlockPipeline, open_pipeline
from gapless.blocks.spec import BlocksSpec
from gapless.chains import Level
from gapless.chains.evm.probe import probe
from gapless.chains.opening import open_sink
from gapless.config import Config, EndpointSettings, SinkTarget
from gapless.core.backfill import State
from gapless.core.errors import UsageError
from gapless.devnode import Chain, DevNode, Parameters, simulated
from gapless.devnode.wire import Reply
from gapless.ledger import open_ledger
from gapless.providers import EndpointSpec, Providers
from tests.unit.rpc.nodes import Outspoken

Fetch = Callable[..., Any]
HEIGHT = 50


def exists(target: str) -> bool:
    return Path(target).exists()


def two_faced(honest: Chain, parameters: Parameters) -> Outspoken:
    """A node of another chain that returns the honest header when asked for a single one."""
    other = simulated(parameters)
    other.reorg(HEIGHT)

    def answering(asked: Any) -> Reply | None:
        if isinstance(asked, list) or asked["params"] != [hex(HEIGHT), False]:
            return None
        header = json.loads(honest.block(HEIGHT))
        return Reply(json.dumps({"id": asked["id"], "result": header}).encode())

    return Outspoken(other, answering)


async def test_a_block_that_contradicts_an_anchor_is_refused(
    chain: Chain, parameters: Parameters, fetch: Fetch, stored: Fetch
) -> None:
    """The node passed the comparison at first contact."""
    known = f"{HEIGHT}:{chain.hash(HEIGHT)}"
    async with two_faced(chain, parameters) as liar:
        heights = f"{HEIGHT}:{HEIGHT + 9}"
        result = await fetch(liar, heights=heights, anchors=[known], retry="halt")
    assert (result.state, HEIGHT in result.gaps) == (State.FAILED, True)
    assert "`anchor`" in str(result.error)
    assert HEIGHT not in (await stored())["blocks"]["block_number"].to_pylist()


async def test_a_worker_refuses_an_endpoint_of_another_chain(
    chain: Chain, parameters: Parameters, target: str, ledger: str
) -> None:
    """It resolves the endpoint's name by itself, perhaps to a node that no fetch has compared."""
    other = simulated(parameters)
    other.reorg(HEIGHT)
    async with await open_sink(target) as sink:
        spec = BlocksSpec(
            network="custom",
            chain_id=chain.chain_id,
            endpoints=("node",),
            sink="there",
            sink_id=sink.id,
            datasets=("blocks",),
            verify=Level.AUTO,
            checks=(),
            anchors=(f"{HEIGHT}:{chain.hash(HEIGHT)}",),
            batch_size=10,
        )
    known = await open_ledger(ledger, actor="test", create=True)

    def opening(node: DevNode) -> AbstractAsyncContextManager[BlockPipeline]:
        endpoints, sinks = {"node": EndpointSettings(node.url)}, {"there": SinkTarget(target)}
        return open_pipeline(spec, Config(endpoints=endpoints, sinks=sinks), known, providers)

    async with DevNode(other) as stranger, DevNode(chain) as honest, Providers() as providers:
        with pytest.raises(UsageError, match=f"its block {HEIGHT} is 0x"):
            await opening(stranger).__aenter__()
        async with opening(honest) as pipeline:
            assert pipeline.pool.calls
    await known.close()


async def test_a_private_chain_is_not_taken_for_the_public_one_with_its_id(
    target: str, ledger: str
) -> None:
    private = simulated(Parameters(blocks=100, chain_id=1, seed=11))
    refusal = "is not on the chain `ethereum`: its block 0 is 0x"
    async with DevNode(private) as node:
        with pytest.raises(UsageError, match=refusal):
            await gapless.fetch("ethereum", "0:9", rpc=node.url, to=target, ledger=ledger)
        with pytest.raises(UsageError, match=refusal):
            await probe(EndpointSpec("node", node.url))
    assert not exists(target)
