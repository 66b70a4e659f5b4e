"""The registry: the known networks, their names, and what can be proven on each."""

from __future__ import annotations

import pytest

from gapless.chains import find_network, network_of_chain, networks
from gapless.chains.evm.check_names import BASIC, FULL, Check
from gapless.chains.evm.networks import CUSTOM
from gapless.core.errors import UsageError

NETWORKS = {it.name: it for it in networks()}
WANTED = (
    "ethereum sepolia holesky base optimism arbitrum polygon bsc avalanche gnosis custom"
    " tron tron-nile tron-shasta tron-custom"
)


@pytest.mark.parametrize("name", WANTED.split())
def test_a_network_is_found_by_its_name_or_its_chain_id(name: str) -> None:
    network = find_network(name.upper())
    assert network is NETWORKS[name]
    if network.chain_id is not None:
        assert network_of_chain(network.chain_id) is network
        assert find_network(str(network.chain_id)) is network


def test_no_two_networks_share_a_name_an_alias_or_a_chain_id() -> None:
    ids = [each.chain_id for each in NETWORKS.values() if each.chain_id is not None]
    assert len(set(ids)) == len(ids)
    aliases = [alias for each in NETWORKS.values() for alias in each.aliases]
    assert len({*aliases, *NETWORKS}) == len(aliases) + len(NETWORKS)


def test_an_unknown_name_comes_with_a_hint() -> None:
    with pytest.raises(UsageError, match="no network `etherium`") as refused:
        find_network("etherium")
    assert refused.value.hint == "did you mean `ethereum`?"
    with pytest.raises(UsageError) as refused:
        find_network("qqq")
    assert "`custom` and `tron-custom` take any other chain" in (refused.value.hint or "")


def test_an_unlisted_chain_is_custom_with_every_check() -> None:
    network = network_of_chain(1337)
    assert (network.name, network.chain_id) == ("custom", 1337)
    assert network.checks_at(0) == CUSTOM.checks_at(0) == FULL


def test_checks_depend_on_the_height() -> None:
    optimism = NETWORKS["optimism"]
    assert optimism.checks_at(105_235_062) == BASIC
    assert Check.RECEIPTS_ROOT in optimism.checks_at(105_235_063)
    assert Check.WITHDRAWALS_ROOT not in optimism.checks_at(105_235_063)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_checks_heights_and_links_and_has_a_finality(name: str) -> None:
    network = NETWORKS[name]
    assert {Check.HEIGHT, Check.LINK, Check.PLACES} <= network.checks_at(0)
    assert network.block_time > 0
    assert network.finality.depth > 0
    assert network.reorg_depth > 0
