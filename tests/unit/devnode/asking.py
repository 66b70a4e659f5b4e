"""A client for a node, and what its answers are compared with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gapless.chains import Level
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.decode.structs import Block, Receipt, parse_block, parse_receipts
from gapless.devnode import Chain, DevNode
from tests.evm import checks_of, evm_network

DATA = Path(__file__).parents[4] / "shared/data"
CHAINS = ("execution-apis-54", "geth-ethtest-600")

needs_data = pytest.mark.skipif(not DATA.exists(), reason="there are no recorded chains")


def call(method: str, *params: Any, id: int = 1) -> dict[str, Any]:  # noqa: A002 - JSON-RPC's name
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": list(params)}


class Client:
    """A session with one node."""

    def __init__(self, node: DevNode, session: aiohttp.ClientSession) -> None:
        self.node, self.session = node, session

    async def post(self, body: Any) -> tuple[aiohttp.ClientResponse, Any]:
        """The response and its JSON."""
        async with self.session.post(self.node.url, json=body) as response:
            return response, await response.json()

    async def envelope(self, method: str, *params: Any) -> dict[str, Any]:
        _, answer = await self.post(call(method, *params))
        assert isinstance(answer, dict)
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", 1)
        return answer

    async def ask(self, method: str, *params: Any) -> Any:
        """The result, which must exist."""
        return (await self.envelope(method, *params))["result"]

    async def error(self, method: str, *params: Any) -> dict[str, Any]:
        answer = await self.envelope(method, *params)
        assert "result" not in answer
        error: dict[str, Any] = answer["error"]
        return error


@asynccontextmanager
async def client_of(node: DevNode) -> AsyncIterator[Client]:
    async with node, aiohttp.ClientSession() as session:
        yield Client(node, session)


def decoded(chain: Chain, height: int) -> tuple[Block, list[Receipt]]:
    return parse_block(chain.block(height)), parse_receipts(chain.receipts(height))


def assert_valid(chain: Chain, first: int = 0) -> None:
    """Every block up to the head is proven at the highest level and linked to the one before it."""
    network = evm_network(chain.chain_id)
    before = chain.hash(first - 1) if first else f"0x{0:064x}"
    for height in range(first, chain.head + 1):
        block, receipts = decoded(chain, height)
        assert block.parent_hash == before
        proof = check_block(block, receipts, network, checks_of(Level.ROOTS), height)
        assert proof.unproven == frozenset(), height
        before = block.hash
