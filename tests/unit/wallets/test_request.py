"""Requests are refused before any node is contacted."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.config import Config, EndpointSettings, SinkTarget
from gapless.core.errors import BadSelector, UsageError
from gapless.core.heights import Moment
from gapless.wallets.request import WalletOptions, WalletsRequest, build_wallets

ALICE = "0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B"
TRONIE = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
CONFIG = Config(
    endpoints={
        "eth": EndpointSettings("http://eth", network="ethereum"),
        "base": EndpointSettings("http://base", network="base"),
        "trx": EndpointSettings("http://trx", network="tron"),
    },
    sinks={"main": SinkTarget("main.db")},
)


def built(
    *addresses: str,
    networks: tuple[str, ...] = ("ethereum",),
    rpcs: tuple[str, ...] = (),
    to: str | None = None,
    detached: bool = False,
    **options: Any,
) -> WalletsRequest:
    wanted = WalletOptions(**options)  # type: ignore[typeddict-item]
    found, _ = build_wallets(CONFIG, addresses, networks, rpcs, to, wanted, detached=detached)
    return found


def test_configured_names_are_shared() -> None:
    found = built(ALICE, networks=("ethereum", "base"), detached=True)
    assert found.shared
    assert [each.blocks.endpoints for each in found.networks] == [("eth",), ("base",)]
    assert (found.sink, found.group, found.label, found.start) == ("main", "default", None, None)


def test_an_address_is_written_as_its_family_does() -> None:
    assert built(ALICE.lower(), ALICE).addresses == [ALICE]


def test_an_address_belongs_to_the_networks_that_read_it() -> None:
    found = built(ALICE, TRONIE, networks=("tron", "ethereum", "base"))
    assert {it.network.name: it.addresses for it in found.networks} == {
        "tron": (TRONIE,),
        "ethereum": (ALICE,),
        "base": (ALICE,),
    }


def test_urls_run_here_only() -> None:
    assert not built(ALICE, rpcs=("https://user:secret@node/key",)).shared
    assert not built(ALICE, to="other.db").shared
    with pytest.raises(UsageError, match="by name") as refused:
        built(ALICE, rpcs=("https://node/key",), detached=True)
    assert "gapless.toml" in str(refused.value.hint)


def test_endpoints_of_several_networks_say_of_which_they_are() -> None:
    networks = ("ethereum", "base")
    found = built(
        ALICE, networks=networks, rpcs=("eth", "base=https://n.io/?a=b", "eth=http://m.io")
    )
    assert [each.blocks.endpoints for each in found.networks] == [("eth", "m.io"), ("n.io",)]
    with pytest.raises(UsageError, match="of which it is"):
        built(ALICE, networks=networks, rpcs=("https://node",))
    with pytest.raises(UsageError, match="is of `tron`"):
        built(ALICE, networks=networks, rpcs=("trx",))
    with pytest.raises(UsageError, match="of `polygon` is given, which is not requested"):
        built(ALICE, networks=networks, rpcs=("polygon=https://n.io",))


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("no address", {"addresses": ()}),
        ("no network", {"networks": ()}),
        ("not an address|hex digits", {"addresses": ("0x12",)}),
        ("no network `etherium`", {"networks": ("etherium",)}),
        ("none of the addresses", {"networks": ("ethereum", "tron")}),
        ("a parquet sink cannot", {"to": "folder/"}),
        ("a duckdb sink cannot", {"to": "a.duckdb"}),
        ("cannot be the name of a group", {"group": "a b"}),
        ("label", {"label": "x\n"}),
        ("label", {"label": "x" * 101}),
        ("`verify`", {"verify": "hard"}),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(message: str, wrong: dict[str, Any]) -> None:
    addresses = wrong.pop("addresses", (ALICE,))
    with pytest.raises(UsageError, match=message) as refused:
        built(*addresses, **wrong)
    assert refused.value.hint or refused.value.remedy


def test_a_start_is_a_height_or_a_day() -> None:
    assert built(ALICE, start="18M").start == 18_000_000
    assert built(ALICE, start=7).start == 7
    assert isinstance(built(ALICE, start="2024-01-31").start, Moment)
    with pytest.raises(BadSelector, match="is a range"):
        built(ALICE, start="1:2")
