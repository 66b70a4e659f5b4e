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


GENESIS = {
    "tron": "00000000000000001ebf88508a03865c71d452e25f4d51194196a1d22b6653dc",
    "tron-nile": "0000000000000000d698d4192c56cb6be724a558448e2684802de4d6cd8690dc",
    "tron-shasta": "0000000000000000de1aa88295e1fcf982742f773e0419c5a9c134c994a9059e",
    "ethereum": "d4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3",
    "sepolia": "25a5cc106eea7138acab33231d7160d69cb777ee0c2c553fcddf5138993e6dd9",
    "holesky": "b5f7f912443c940f21fd611f12828d75b534364ed9e95ca4e307729a4661bde4",
    "hoodi": "bbe312868b376a3001692a646dd2d7d1e4406380dfd86b98aa8a34d1557c971b",
    "goerli": "bf7e331f7f7c1dd2e05159666b3bf8bc7a8a3a9eb1d518969eab529dd9b88c1a",
    "base": "f712aa9241cc24369b143cf6dce85f0902a9731e70d66818a3a5845b296c73dd",
    "base-sepolia": "0dcc9e089e30b90ddfc55be9a37dd15bc551aeee999d2e2b51414c54eaf934e4",
    "optimism": "7ca38a1916c42007829c55e69d3e9a73265554b586a499015373241b8a3fa48b",
    "optimism-sepolia": "102de6ffb001480cc9b8b548fd05c34cd4f46ae4aa91759393db90ea0409887d",
    "unichain": "3425162ddf41a0a1f0106d67b71828c9a9577e6ddeb94e4f33d2cde1fdc3befe",
    "arbitrum": "7ee576b35482195fc49205cec9af72ce14f003b9ae69f6ba0faef4514be8b442",
    "arbitrum-sepolia": "77194da4010e549a7028a9c3c51c3e277823be6ac7d138d0bb8a70197b5c004c",
    "polygon": "a9c28ce2141b56c474f1dc504bee9b01eb1bd7d1a507580d5519d4437a97de1b",
    "polygon-amoy": "7202b2b53c5a0836e773e319d18922cc756dd67432f9a1f65352b61f4406c697",
    "bsc": "0d21840abff46b96c84b2ac9e10e4f5cdaeb5693cb665db62a2f3b02d2d57b5b",
    "avalanche": "31ced5b9beb7f8782b014660da0cb18cc409f121f408186886e1ca3e8eeca96b",
    "avalanche-fuji": "31ced5b9beb7f8782b014660da0cb18cc409f121f408186886e1ca3e8eeca96b",
    "gnosis": "4f1dd23188aab3a76b463e4af801b52b1248ef073c648cbdc4c9333d3da79756",
    "gnosis-chiado": "ada44fd8d2ecab8b08f256af07ad3e777f17fb434f8f8e678b312f576212ba9a",
}
"""As other clients and indexers of these networks have them."""


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


def test_a_network_knows_its_genesis() -> None:
    known = {name: dict(it.anchors)[0].hex() for name, it in NETWORKS.items() if it.anchors}
    assert known == GENESIS
