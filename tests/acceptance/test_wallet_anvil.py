"""Wallets on a real node: what is computed and what is unexplained is what the node says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import gapless
from gapless.config import Config, EndpointSettings
from gapless.following.spec import FollowSpec
from tests import anvil_contracts as contracts
from tests.acceptance.commands import Commands
from tests.anvil import ANVIL, Anvil, anvil
from tests.conformance.follow.stage import live_at, until

pytestmark = pytest.mark.skipif(
    not ANVIL.exists(), reason="anvil is not installed; `make test` installs it if npm is available"
)
HANK = "0x" + "ab" * 20  # has no key, and nothing at the start
ALLOCATED = 10_000 * 10**18  # to each account of the node, in its first block
SENT, PASSED_ON, PAID = 10**17 + 1, 10**16 + 3, 1000  # coins, coins by a contract, tokens
TOO_MUCH = contracts.SUPPLY + 1


class Town:
    """A node with three wallets, a token, and a contract that passes coins on."""

    def __init__(self, node: Anvil) -> None:
        self.node = node
        self.alice, self.bob = node.accounts[:2]
        self.wallets = (self.alice, self.bob, HANK)
        self.token = self.forwarder = ""

    async def found(self) -> None:
        self.token = await self._created(contracts.token())
        self.forwarder = await self._created(contracts.forwarder())

    async def trade(self) -> None:
        """Mines a block with transfers of every kind, and one that fails."""
        coins = {"to": HANK, "value": hex(SENT)}
        await self._send(self.alice, **coins)
        await self._send(self.alice, to=self.token, data=contracts.transfer_of(self.bob, PAID))
        await self._send(self.bob, to=self.token, data=contracts.transfer_of(HANK, PAID // 4))
        await self._send(self.bob, to=self.token, data=contracts.transfer_of(HANK, TOO_MUCH))
        there = {"to": self.forwarder, "value": hex(PASSED_ON), "data": contracts.word_of(HANK)}
        await self._send(self.bob, **there)
        await self.node.call("evm_mine")

    async def held(self, wallet: str, height: int) -> dict[str | None, int]:
        """What the node says: coins, and tokens by their contract."""
        about = {"to": self.token, "data": contracts.balance_of(wallet)}
        coins = await self.node.call("eth_getBalance", wallet, hex(height))
        tokens = await self.node.call("eth_call", about, hex(height))
        return {None: int(coins, 16), self.token.lower(): int(tokens, 16)}

    async def passed_on(self, height: int) -> int:
        """The coins that calls within transactions have paid."""
        total = 0
        for at in range(height + 1):
            block = await self.node.call("eth_getBlockByNumber", hex(at), True)
            sent = [it for it in block["transactions"] if it["to"] == self.forwarder.lower()]
            total += sum(int(it["value"], 16) for it in sent)
        return total

    async def _created(self, code: str) -> str:
        sent = await self._send(self.alice, data=code)
        await self.node.call("evm_mine")
        receipt = await self.node.call("eth_getTransactionReceipt", sent)
        assert receipt["status"] == "0x1", receipt
        return str(receipt["contractAddress"])

    async def _send(self, sender: str, **what: str) -> Any:
        return await self.node.call(
            "eth_sendTransaction", {"from": sender, "gas": "0x493e0"} | what
        )


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with anvil() as node:
        found = Town(node)
        await found.found()
        yield found


async def test_balances_are_those_of_a_real_node_through_a_reorganisation(
    town: Town, sqlite_gapless: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FollowSpec, "poll_seconds", 0.3)
    node, target = town.node, sqlite_gapless.folder / "w.db"
    for _ in range(3):
        await town.trade()
    await node.call("anvil_mine", hex(66))
    await town.trade()
    place: dict[str, Any] = {"to": target, "ledger": sqlite_gapless.home.url}
    planned = await gapless.add_wallets(town.wallets, "custom", rpc=node.url, scan=True, **place)
    last = planned[0].heights[1]
    await _reconcile(town, sqlite_gapless, last)
    engine = gapless.Engine(
        sqlite_gapless.home.url,
        slots=gapless.FOLLOW_SLOTS,
        config=Config(endpoints={"anvil": EndpointSettings(node.url)}),
    )
    async with (
        engine,
        gapless.follow(engine, "custom", rpc="anvil", to=target, start=last + 1) as follow,
    ):
        await live_at(follow, await node.head())
        await _reconcile(town, sqlite_gapless, await node.head())
        await town.trade()
        await live_at(follow, await node.head())
        before = await town.held(HANK, await node.head())
        await node.call("anvil_reorg", 2, [])
        await node.call("anvil_mine", 1)
        await until(follow, lambda it: it.state.retraction is None)
        await live_at(follow, await node.head())
        after = await town.held(HANK, await node.head())
        assert all(after[each] < before[each] for each in before), "the payments are undone"
        await _reconcile(town, sqlite_gapless, await node.head())


async def _reconcile(town: Town, command: Commands, height: int) -> None:
    """Compares all three numbers of every balance with the node."""
    passed_on = await town.passed_on(height)
    assert passed_on
    unexplained = {town.alice: ALLOCATED, town.bob: ALLOCATED, HANK: passed_on}
    for wallet in town.wallets:
        found = await asyncio.to_thread(
            command.json, "wallet", "balances", wallet, "--rpc", town.node.url, "--all"
        )
        assert {each["as_of_block"] for each in found} == {height}
        on_chain = {_token(each): int(each["on_chain_raw"]) for each in found}
        assert on_chain == await town.held(wallet, height)
        for each in found:
            rest = int(each["unexplained_raw"])
            assert int(each["computed_raw"]) + rest == int(each["on_chain_raw"])
            assert rest == (0 if each["token"] else unexplained[wallet]), each


def _token(balance: dict[str, Any]) -> str | None:
    token: str | None = balance["token"]
    return token and token.lower()
