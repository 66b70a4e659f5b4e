"""All pools of a process share what they know about a URL, and processes share rests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.chains.evm.queries import QUERIES
from gapless.core.errors import UsageError
from gapless.devnode import Chain, DevNode
from gapless.providers import Call, EndpointSpec, Pool, Profile, Providers, Share
from gapless.providers.registry import Rested, fingerprint
from gapless.system import SYSTEM, System
from gapless.telemetry import metrics
from tests.unit.rpc.nodes import Outspoken, error, first

HEAD = [Call("eth_blockNumber")]


def spec(
    node: DevNode, name: str = "a", key: str = "key", rps: float | None = None
) -> EndpointSpec:
    return EndpointSpec(name, f"{node.url}/{key}", rps)


async def test_pools_on_one_url_share_its_endpoint(chain: Chain) -> None:
    async with (
        DevNode(chain) as node,
        Providers(workers=3) as providers,
        Pool([spec(node)], QUERIES, providers=providers, max_calls=2) as one,
        Pool([spec(node)], QUERIES, providers=providers) as two,
        Pool([spec(node, key="another")], QUERIES, providers=providers) as other,
    ):
        await one.ask(HEAD)
        await two.ask(HEAD)
        await other.ask(HEAD)
        assert one._endpoints == two._endpoints != other._endpoints
        assert (one.calls.total(), one.used_up) == (2, False)
        assert two.calls == {"eth_blockNumber": 1}  # the chain was already known
        assert metrics.WORKERS.values[()] == 6
    assert metrics.WORKERS.values[()] == 0


async def test_each_pool_insists_on_its_own_chain(chain: Chain) -> None:
    async with DevNode(chain) as node, Providers() as providers:
        async with Pool([spec(node)], QUERIES, providers=providers) as one:
            await one.ask(HEAD)
        async with Pool([spec(node)], QUERIES, providers=providers, chain_id=5) as two:
            with pytest.raises(UsageError, match="is on chain 1337, not 5"):
                await two.ask(HEAD)


async def test_two_names_of_one_url_are_one_endpoint_at_the_lower_rate(chain: Chain) -> None:
    async with DevNode(chain) as node, Providers() as providers:
        pool = Pool([spec(node, "a"), spec(node, "b", rps=5)], QUERIES, providers=providers)
        assert pool.names == {"a"}
        endpoint = providers.endpoint(spec(node, "c", rps=9), Profile())
        assert (endpoint.spec.rps, endpoint.pacer.rate) == (5, 5)


@pytest.mark.parametrize(("parts", "places"), [(1, [8]), (3, [3, 3, 2]), (10, [1] * 10)])
def test_processes_divide_requests_and_rate(parts: int, places: list[int]) -> None:
    shares = [Share(0, parts), *Share(0, parts).others()]
    assert [each.of_slots(8) for each in shares] == places
    assert sum(each.of_rate(12) or 0 for each in shares) == pytest.approx(12)
    assert Share(0, parts).of_rate(None) is None
    system = replace(SYSTEM, cores=lambda: 8)
    assert [Providers(share=each, system=system).system.cores() for each in shares] == places


async def test_a_rest_reaches_another_process_without_growing(chain: Chain) -> None:
    refusing = first(1, error("monthly capacity exceeded", 0, 403))
    async with (
        Outspoken(chain, refusing) as node,
        DevNode(chain) as good,
        Providers() as here,
        Providers() as there,
    ):
        specs = [spec(node, "a"), spec(good, "b")]
        async with Pool(specs, QUERIES, providers=here) as pool:
            await pool.ask(HEAD, avoid=["b"])
        shared = here.rests()
        assert [*shared] == [fingerprint(specs[0].url, {})]
        there.rest(shared)  # before anyone there has asked that provider
        endpoint = there.endpoint(specs[0], Profile())
        assert endpoint.ready_at() == shared[fingerprint(specs[0].url, {})].until
        assert "monthly capacity" in endpoint.trouble
        here.rest(there.rests())
        assert here.rests() == shared


async def test_short_and_past_rests_are_not_shared() -> None:
    now = 100.0
    providers = Providers(system=System(clock=lambda: now))
    endpoint = providers.endpoint(EndpointSpec("a", "https://host/key"), Profile())
    endpoint.rest(now, 0.5)
    assert providers.rests() == {}
    endpoint.rest(now, 60)
    assert [*providers.rests().values()] == [Rested(160.0, "")]
    now = 161.0
    assert providers.rests() == {}


def test_a_fingerprint_does_not_show_the_url() -> None:
    assert fingerprint("https://host/key", {}) != fingerprint("https://host/another", {})
    one, two = ({"Key": value} for value in ("one", "two"))
    assert fingerprint("https://host", one) != fingerprint("https://host", two)
    assert "key" not in fingerprint("https://host/key", {})
