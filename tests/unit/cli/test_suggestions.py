"""Suggested commands work as printed and contain no secret."""

from __future__ import annotations

import pytest

from gapless.blocks.targets import has_endpoint
from gapless.chains import find_network
from gapless.cli import suggestions
from gapless.config import Config, EndpointSettings


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (["--rpc", "http://127.0.0.1:8545"], "--rpc http://127.0.0.1:8545"),
        (["--rpc", "https://node.example/v2/KEY"], "--rpc …"),
        (["--rpc=https://node.example/v2/KEY"], "--rpc=…"),
        (["--rpc", "env:NODE", "--to", "my chain.db"], "--rpc env:NODE --to 'my chain.db'"),
        (["--ledger", "sqlite:///x.db"], "--ledger sqlite:///x.db"),
        (["--to", "postgresql://me:pw@host/db"], "--to postgresql://me@host/db"),
    ],
)
def test_the_same_command(typed: list[str], shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/gapless", "fetch", "custom", "0:9", *typed])
    assert suggestions.same_command() == f"gapless fetch custom 0:9 {shown}"


def test_an_endpoint_is_required_unless_the_configuration_has_one() -> None:
    network = find_network("ethereum")
    assert not has_endpoint(Config(), network)
    known = Config(endpoints={"mine": EndpointSettings("https://node.example", network="ethereum")})
    assert has_endpoint(known, network)
    assert suggestions.fetch_command("ethereum", "0:9", "a b.db") == (
        "gapless fetch ethereum 0:9 --to 'a b.db'"
    )
    assert suggestions.repair_command("x.db", "--replace-branch", has_endpoint=False) == (
        "gapless repair x.db --replace-branch --rpc …"
    )


def test_a_command_names_the_given_ledger_without_its_password() -> None:
    assert suggestions.Commands()("backfill", "ls") == "`gapless backfill ls`"
    given = suggestions.Commands("postgresql://me:pw@host/my db")
    assert given("worker") == "`gapless worker --ledger 'postgresql://me@host/my db'`"
