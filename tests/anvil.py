"""A real Ethereum node for the tests: anvil, with a chain that a test builds block by block."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import urllib.request
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

# The program itself: killing npm's wrapper would leave it running.
_PACKAGES = Path(__file__).parents[1] / ".tools/nodes/node_modules/@foundry-rs"
ANVIL = next(_PACKAGES.glob("anvil-*/bin/anvil"), _PACKAGES / "anvil")
needs_anvil = pytest.mark.skipif(
    not ANVIL.exists() and "REQUIRE_ANVIL" not in os.environ,
    reason="anvil is not installed; `make test` installs it if npm is available",
)
PATIENCE = 30.0

# Code that runs on creation: a log with one topic (the caller) and 32 bytes of data.
# PUSH1 42, PUSH0, MSTORE, CALLER, PUSH1 32, PUSH0, LOG1, STOP
LOGGING = "0x602a5f523360205fa100"


class Anvil:
    """A running node."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.accounts: list[str] = []

    async def call(self, method: str, *params: Any) -> Any:
        return await asyncio.to_thread(self._call, method, params)

    def _call(self, method: str, params: tuple[Any, ...]) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url, body.encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            answer = json.load(response)
        assert "error" not in answer, answer
        return answer["result"]

    async def grow(self, blocks: int) -> None:
        """Mines blocks with up to three transactions each: transfers, and contracts that log."""
        for nth in range(blocks):
            for at in range(nth % 4):
                sender = self.accounts[at]
                what = {"data": LOGGING} if at % 2 else {"to": self.accounts[-1], "value": hex(nth)}
                await self.call("eth_sendTransaction", {"from": sender, "gas": "0x30d40", **what})
            await self.call("evm_mine")

    async def head(self) -> int:
        return int(await self.call("eth_blockNumber"), 16)


@asynccontextmanager
async def anvil(chain_id: int = 31_337) -> AsyncIterator[Anvil]:
    """A running node, stopped at the end."""
    assert ANVIL.exists(), "anvil is not installed, although npm is available"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(ANVIL, "--port", str(port), "--chain-id", str(chain_id), "--no-mining"),
        stdout=PIPE,
        stderr=DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while b"Listening on" not in await process.stdout.readline():
                assert not process.stdout.at_eof(), "anvil did not start"
        node = Anvil(f"http://127.0.0.1:{port}")
        node.accounts = await node.call("eth_accounts")
        yield node
    finally:
        process.kill()
        await process.communicate()
