"""What only TRON sources do: save calls, ask a second endpoint, and believe early history."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gapless.chains.network import Era
from gapless.chains.tron.check_names import TronCheck
from gapless.chains.tron.networks import TRON_CUSTOM
from gapless.chains.tron.probe import probe
from gapless.chains.tron.source import TronSource
from gapless.core.errors import GaplessError, Unavailable
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Limits, simulated
from gapless.devnode.limits import FinalityTags
from gapless.providers import EndpointSpec
from tests.conformance.source.conftest import PARAMETERS
from tests.conformance.source.sources import SUBJECTS, family_source, pool_on

BLOCKS, INFOS = "/wallet/getblockbylimitnext", "/wallet/gettransactioninfobyblocknum"
TRON = SUBJECTS["tron"]


@pytest.fixture
def chain(cache: Path) -> Chain:
    return simulated(PARAMETERS, cache, family="tron")


@pytest.fixture
def other(cache: Path) -> Chain:
    """The same chain on another node."""
    return simulated(PARAMETERS, cache, family="tron")


async def test_infos_are_not_requested_for_blocks_without_transactions(chain: Chain) -> None:
    node = DevNode(chain)
    async with family_source(TRON, node) as source:
        blocks = await source.fetch(Span(0, 100))
        filled = sum(b'"transactions"' in chain.block(at) for at in range(1, 101))
        assert node.calls[INFOS] == filled < 100
        assert node.calls[BLOCKS] <= 6
        infos = {each.height: each.infos for each in blocks}  # type: ignore[attr-defined]
        assert infos == {at: chain.receipts(at) for at in range(101)}


async def test_without_transactions_and_infos(chain: Chain) -> None:
    node = DevNode(chain)
    async with family_source(TRON, node, datasets=["tron_blocks"]) as source:
        assert all(each.infos is None for each in await source.fetch(Span(1, 9)))  # type: ignore[attr-defined]
        assert INFOS not in node.calls


async def test_a_second_endpoint_confirms_what_nothing_proves(chain: Chain, other: Chain) -> None:
    nodes = DevNode(chain), DevNode(other)
    async with family_source(TRON, *nodes, checks={TronCheck.AGREED}) as source:
        for each in await source.fetch(Span(1, 20)):
            assert each.other_block == each.block  # type: ignore[attr-defined]
            assert each.other_infos == each.infos  # type: ignore[attr-defined]
        assert nodes[0].calls[INFOS] == nodes[1].calls[INFOS] > 0


@pytest.mark.parametrize(
    "limits", [Limits(missing=frozenset({INFOS})), Limits(pruned_below=100, pruned_null=True)]
)
async def test_no_second_opinion_if_no_other_endpoint_has_one(
    chain: Chain, other: Chain, limits: Limits
) -> None:
    nodes = DevNode(chain), DevNode(other, limits=limits)
    async with family_source(TRON, *nodes, checks={TronCheck.AGREED}) as source:
        blocks = await source.fetch(Span(1, 20), avoid={"b"})
        filled = [each for each in blocks if b'"transactions"' in each.block]  # type: ignore[attr-defined]
        assert filled
        assert all(each.other_block is None for each in filled)  # type: ignore[attr-defined]


async def test_before_infos_were_kept_an_empty_list_is_believed(chain: Chain) -> None:
    """After it has been asked for once more; where nodes keep them, it is a fault."""
    early = Era(0, TRON_CUSTOM.eras[-1].checks - {TronCheck.COUNTS})
    network = replace(TRON_CUSTOM, eras=(early, Era(11, TRON_CUSTOM.eras[-1].checks)))
    filled = [at for at in range(1, 11) if b'"transactions"' in chain.block(at)]
    node = DevNode(chain, faults=f"empty@{filled[0]}*99,empty@{filled[1]}")
    async with pool_on(node, family=TRON.family) as pool:
        source = TronSource(pool, network, infos=True)
        await source.head()
        infos = {each.height: each.infos for each in await source.fetch(Span(1, 10))}
        assert infos[filled[0]] == b"[]"
        assert infos[filled[1]] == chain.receipts(filled[1])


async def test_infos_that_are_always_empty_are_missing(chain: Chain) -> None:
    at = next(at for at in range(50, 100) if b'"transactions"' in chain.block(at))
    async with family_source(TRON, DevNode(chain, faults=f"empty@{at}*999")) as source:
        with pytest.raises(GaplessError, match=rf"block {at} or its infos are null at `a`"):
            await source.fetch(Span(at - 5, at + 5))


async def test_too_large_answers_make_ranges_smaller(chain: Chain) -> None:
    class Proxy(DevNode):
        def respond(self, request):  # type: ignore[no-untyped-def]
            reply = super().respond(request)
            if len(reply.body) > 40_000:
                return reply._replace(body=b"Payload Too Large", status=413)
            return reply

    node = Proxy(chain)
    async with family_source(TRON, node) as source:
        TRON.assert_true(chain, Span(1, 100), await source.fetch(Span(1, 100)))
        assert 5 < node.calls[BLOCKS] < 60


# The probe


async def test_a_probe(chain: Chain) -> None:
    async with DevNode(chain) as node:
        found = await probe(EndpointSpec("a", node.url), None, {17: bytes.fromhex(chain.hash(17))})
    assert (found.network, found.chain_id, found.head) == ("tron-custom", chain.chain_id, 200)
    assert (found.finalized, found.earliest_block, found.known_block) == (181, 0, 17)
    assert found.client == "java-tron gapless-devnode"
    assert found.batch_calls == 100
    assert found.offers == {"transaction infos": True, "solid head": True}
    assert found.rate is not None
    assert json.dumps(found.genesis) == json.dumps(chain.hash(0))


async def test_a_probe_of_a_limited_node(chain: Chain) -> None:
    limits = Limits(
        max_batch=10, missing=frozenset({INFOS}), pruned_below=50, finality=FinalityTags.ERROR
    )
    async with DevNode(chain, limits=limits) as node:
        found = await probe(EndpointSpec("a", node.url), None, {})
    assert (found.earliest_block, found.batch_calls, found.finalized) == (50, 10, None)
    assert found.offers == {"transaction infos": False, "solid head": False}
    assert "only blocks" in found.cost


async def test_a_probe_of_a_lite_node(chain: Chain) -> None:
    async with DevNode(chain, limits=Limits(pruned_below=999)) as node:
        with pytest.raises(Unavailable, match="lite fullnode"):
            await probe(EndpointSpec("a", node.url), None, {})
