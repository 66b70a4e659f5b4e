"""`gapless devnode` as a script uses it: read the URL, ask, stop."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gapless.devnode.evm.drafts import World
from tests.acceptance.commands import GAPLESS, PATIENCE

CHAINS = Path(__file__).parents[3] / "shared/data/chains"


@contextmanager
def devnode(
    *arguments: str | Path, stop: signal.Signals = signal.SIGTERM, code: int = 0
) -> Iterator[str]:
    """A running node's URL; the node must exit cleanly."""
    process = subprocess.Popen(
        [GAPLESS, "devnode", "--port", "0", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(stop)
        rest, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, log
    assert rest == "", "the URL is all there is on stdout"
    assert "Traceback" not in log


def ask(url: str, method: str, *params: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    request = urllib.request.Request(url, body.encode())
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_simulated_chain(tmp_path: Path, stop: signal.Signals) -> None:
    simulation = ("--blocks", "30", "--txs", "0:4", "--seed", "5", "--cache", tmp_path)
    with devnode(*simulation, "--faults", "null@7", "--chain-id", "99", stop=stop) as url:
        assert url.startswith("http://127.0.0.1:")
        assert ask(url, "eth_chainId")["result"] == "0x63"
        assert ask(url, "eth_blockNumber")["result"] == "0x1e"
        assert ask(url, "eth_getBlockByNumber", "0x7", False)["result"] is None
        assert ask(url, "eth_getBlockByNumber", "0x7", False)["result"]["number"] == "0x7"
        with urllib.request.urlopen(f"{url}/_faults", timeout=PATIENCE) as response:
            report = json.load(response)
        assert report["injected"] == {"null": 1}
        assert report["seed"] == 5
    assert len(list((tmp_path / "devnode").iterdir())) == 1


def test_limits(tmp_path: Path) -> None:
    limits = ("--max-range", "5", "--words", "alchemy", "--pruned-below", "3")
    missing = ("--missing", "eth_getBlockReceipts", "--missing", "net_version")
    with devnode("--blocks", "20", "--cache", tmp_path, *limits, *missing) as url:
        wide = ask(url, "eth_getLogs", {"fromBlock": "0x5", "toBlock": "0x10"})
        assert "this block range should work: [0x5, 0x9]" in wide["error"]["message"]
        assert ask(url, "eth_getBlockByNumber", "0x2", True)["error"]["code"] == 4444
        for method in ("eth_getBlockReceipts", "net_version"):
            assert ask(url, method, "0x5")["error"]["code"] == -32601


def test_an_economy(tmp_path: Path) -> None:
    account = World(0).wallets[0]
    with devnode("--blocks", "60", "--economy", "--state-blocks", "5", "--cache", tmp_path) as url:
        assert int(ask(url, "eth_getBalance", account, "latest")["result"], 16) > 10**27
        assert ask(url, "eth_getTransactionCount", account, "0x3c")["result"] == "0x2"
        error = ask(url, "eth_getBalance", account, "0x37")["error"]
        assert error["message"].startswith("missing trie node ")


def test_a_live_chain_with_several_views(tmp_path: Path) -> None:
    live = ("--head-every", "10ms", "--reorg-every", "4:3", "--finality-depth", "9")
    views = ("--view", "lag=5,cache=1s", "--view", "flap=1m,null=1s")
    command = [GAPLESS, "devnode", "--port", "0", "--blocks", "50", "--cache", tmp_path]
    process = subprocess.Popen(
        [*map(str, command), *live, *views], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        main, lagging, flapping = (process.stdout.readline().strip() for _ in range(3))
        assert len({main, lagging, flapping}) == 3
        finalized: list[int] = []
        hashes: dict[str, set[str]] = {}
        while max(map(len, hashes.values()), default=0) < 2:  # until a block was replaced
            block = ask(main, "eth_getBlockByNumber", "latest", False)["result"]
            hashes.setdefault(block["number"], set()).add(block["hash"])
            tagged = ask(main, "eth_getBlockByNumber", "finalized", False)["result"]
            finalized.append(int(tagged["number"], 16))
        assert finalized == sorted(finalized)
        behind = int(ask(lagging, "eth_blockNumber")["result"], 16)
        assert behind < int(ask(main, "eth_blockNumber")["result"], 16)
        head = ask(flapping, "eth_blockNumber")["result"]
        assert ask(flapping, "eth_getBlockByNumber", head, False)["result"] is None
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.skipif(not CHAINS.exists(), reason="there are no recorded chains")
def test_a_recorded_chain() -> None:
    with devnode("--replay", CHAINS / "geth-ethtest-600", "--head", "400") as url:
        assert ask(url, "eth_blockNumber")["result"] == hex(400)
        assert ask(url, "devnode_grow", 200)["result"] == hex(600)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--faults", "nul=1"], "error: there is no fault `nul`\n\nhint: did you mean `null`?"),
        (["--txs", "9:3"], "`9:3` is not between 0 and 500"),
        (["--txs", "many"], "`many` is not a number of transactions: write `5` or `0:150`"),
        (["--replay", "/"], "`/` holds no recorded chain"),
        (["--replay", "/", "--economy"], "error: a recorded chain has no balances\n\nhint: leave"),
        (["--family", "tron", "--economy"], "error: a simulated TRON chain has no economy\n\nhint"),
        (["--words", "nobody"], "`nobody` is not one of"),
        (["--host", "192.0.2.1"], "cannot listen there"),
        (["--port", "65535", "--view", "lag=1"], "cannot listen there"),
        (["--view", "lagg=1"], "error: a view has no `lagg`\n\nhint: did you mean `lag`?"),
        (["--reorg-every", "0"], "`0` is not a number of blocks: write `50` or `50:6`"),
        (["--reorg-every", "9"], "`--reorg-every` needs new blocks\n\nhint: add `--head-every 2s`"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, arguments: list[str], error: str) -> None:
    command = [str(GAPLESS), "devnode", "--blocks", "3", "--cache", str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert error in done.stderr
    assert "Traceback" not in done.stderr
