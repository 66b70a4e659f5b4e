"""`gapless doctor` reports what nodes can do, and never shows the secrets in their URLs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gapless.chains.evm.family import EVM
from tests import forks
from tests.acceptance.commands import PATIENCE
from tests.acceptance.test_devnode import devnode

KEY = "s3cr3t-k3y-0123456789"
NOBODY = f"http://127.0.0.1:1/{KEY}"
POOR = (
    *("--pruned-below", "30", "--missing", "eth_getBlockReceipts", "--finality", "error"),
    *("--max-batch", "10", "--max-range", "20", "--words", "alchemy"),
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def node(cache: Path) -> Iterator[str]:
    """A good node's URL, with a key in it."""
    with devnode("--blocks", "120", "--cache", cache) as url:
        yield f"{url}/v2/{KEY}"


@pytest.fixture(scope="module")
def poor_node(cache: Path) -> Iterator[str]:
    with devnode("--blocks", "120", "--cache", cache, *POOR) as url:
        yield f"{url}/v2/{KEY}"


def doctor(
    *arguments: str, code: int, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = ["doctor", *arguments]
    done = forks.run(command, cwd=folder or Path.cwd(), env=os.environ, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    assert KEY not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def found(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(doctor(*arguments, "--json", code=code).stdout)
    return answer


def test_a_good_node(node: str) -> None:
    (it,) = found("--rpc", node)
    rate = it.pop("rate")
    assert rate["blocks_per_second"] > 10
    assert it.pop("calls") < 800
    assert len(it.pop("genesis")) == 66
    assert it.pop("decoder") == str(EVM.decoder)
    assert it.pop("meaning")[:2] == [
        "the whole history is there",
        "a block with its receipts costs 2 calls",
    ]
    assert it == {
        "endpoint": node.removeprefix("http://").partition("/")[0],
        "usable": True,
        "chain_id": 1337,
        "network": "custom",
        "client": "gapless-devnode/v1",
        "head": 120,
        "finalized": 56,
        "known_block": None,
        "earliest_block": 0,
        "receipts_by_block": True,
        "receipts_by_transaction": True,
        "batch_calls": 100,
        "logs_range": 121,
        "offers": {},
    }


def test_a_poor_node(poor_node: str) -> None:
    (it,) = found("--rpc", poor_node)
    assert it["earliest_block"] == 30
    assert it["finalized"] is None
    assert (it["receipts_by_block"], it["receipts_by_transaction"]) == (False, True)
    assert (it["batch_calls"], it["logs_range"]) == (10, 20)
    assert "history begins at 30: older blocks need an archive endpoint" in it["meaning"]
    finality = (
        "the node reports no finalized block: blocks at least 64 below the head count as final"
    )
    assert finality in it["meaning"]


def test_a_table_for_people(node: str, poor_node: str) -> None:
    shown = doctor("--rpc", node, "--rpc", poor_node, code=0)
    lines = dict(line.split("  ", 1) for line in shown.stdout.splitlines()[:12])
    assert lines["earliest block"].split() == ["0", "30"]
    assert lines["receipts by block"].split() == ["yes", "no"]
    assert shown.stdout.count("for a fetch:") == 2
    assert shown.stderr == ""


def test_one_of_two_endpoints_does_not_answer(node: str) -> None:
    shown = doctor("--rpc", NOBODY, "--rpc", node, code=1)
    assert "earliest block" in shown.stdout
    assert "`127.0.0.1:1` (no connection (connection refused))" in shown.stderr
    assert "hint: Is this the URL of a node" in shown.stderr


def test_no_endpoint_is_a_node(cache: Path) -> None:
    with devnode("--blocks", "120", "--cache", cache, "--faults", "malformed=1") as no_node:
        bad, gone = found("--rpc", no_node, "--rpc", NOBODY, code=2)
    assert (bad["usable"], gone["usable"]) == (False, False)
    assert "the answer is not JSON-RPC" in bad["error"]


def test_the_wrong_network(node: str) -> None:
    shown = doctor("--rpc", node, "--network", "ethereum", code=2)
    assert shown.stdout == ""
    assert "is on chain 1337, not 1" in shown.stderr


def test_endpoints_from_the_configuration(
    tmp_path: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_URL", node)
    (tmp_path / "gapless.toml").write_text('[endpoints.mine]\nurl = "env:NODE_URL"\n')
    named = ("--rpc", "mine", "--rpc", "env:NODE_URL")
    assert "mine" in doctor(code=0, folder=tmp_path).stdout
    assert "env:NODE_URL" in doctor(*named, code=0, folder=tmp_path).stdout


def test_the_endpoint_from_the_environment(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETH_RPC_URL", node)
    (it,) = found()
    assert (it["endpoint"], it["chain_id"]) == ("env:ETH_RPC_URL", 1337)
    assert (
        "`env:ETH_RPC_URL` is on chain 1337, not 1"
        in doctor("--network", "ethereum", code=2).stderr
    )
    assert "there is no endpoint to examine" in doctor("--network", "base", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "there is no endpoint to examine"),
        (("--rpc", f"ftp://host/{KEY}"), "endpoint `host` has no usable URL"),
        (("--rpc", f"http://[{KEY}"), "the URL of an endpoint is invalid"),
    ],
)
def test_invalid_arguments_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], error: str
) -> None:
    shown = doctor(*arguments, code=2, folder=tmp_path)
    assert error in shown.stderr
    assert shown.stdout == ""


def test_a_node_is_compared_with_a_trusted_hash(node: str) -> None:
    (it,) = found("--rpc", node)
    genesis = it["genesis"]
    (it,) = found("--rpc", node, "--anchor", f"0:{genesis}")
    assert it["known_block"] == 0
    (it,) = found("--rpc", node, "--anchor", f"5:{genesis}", code=2)
    assert it["usable"] is False
    assert "is not on the chain `custom`: its block 5 is 0x" in it["error"]
    assert "`--anchor`" in it["hint"]


def test_nodes_of_different_chains_are_distinguished(node: str, cache: Path) -> None:
    with devnode("--blocks", "120", "--seed", "77", "--cache", cache) as other:
        shown = doctor("--rpc", node, "--rpc", other, code=1)
    assert "error: these endpoints are on different chains" in shown.stderr
