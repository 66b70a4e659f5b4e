"""`gapless networks`: what is known about each network."""

from __future__ import annotations

from gapless.chains import networks
from tests.acceptance.commands import Commands


def test_a_line_for_each_network(sqlite_gapless: Commands) -> None:
    head, *rows = sqlite_gapless("networks").stdout.splitlines()
    assert head.split("  ")[0] == "network"
    assert [row.split()[0] for row in rows] == [it.name for it in networks()]
    assert rows[0].split()[1:4] == ["1", "eth,", "mainnet"]
    assert "finalized, or 64 blocks deep" in rows[0]
    (optimism,) = (row for row in rows if row.startswith("optimism "))
    assert "below 105,235,063 all but height, link, counts, places" in optimism


def test_json_for_scripts(sqlite_gapless: Commands) -> None:
    found = {each["name"]: each for each in sqlite_gapless.json("networks")}
    assert [*found] == [it.name for it in networks()]
    ethereum = found["ethereum"]
    assert (ethereum["chain_id"], ethereum["aliases"]) == (1, ["eth", "mainnet"])
    assert ethereum["finality"] == {"tag": "finalized", "depth": 64}
    assert ethereum["block_time"] == 12
    genesis = "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3"
    assert ethereum["known_blocks"][0] == {"height": 0, "hash": genesis}
    assert [era["from"] for era in found["optimism"]["checks"]] == [0, 105_235_063]
    assert found["custom"]["chain_id"] is None
