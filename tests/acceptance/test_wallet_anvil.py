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
from tests.anvil import Anvil, anvil, needs_anvil
from tests.conformance.follow.stage import live_at, until

pytestmark = needs_anvil
HANK = "0x" + "ab" * 20  # has no key, and nothing at the start
ALLOCATED = 10_000 * 10**18  # to each account of the node, in its first block
SENT, PASSED_ON, PAID = 10**17 + 1, 10**16 + 3, 1000  # coins, coins by a contract, tokens
TOO_MUCH = contracts.SUPPLY + 1


class Town:
    """A node with three wallets, a token, and a contract that passes coins on."""

    def __init__(self, node: Anvil) -> None:
        self.node = node
        self.alice, self.bob = node.accounts[:2]
        self.wallets: tuple[str, ...] = (self.alice, self.bob, HANK)
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


LISTED, CHAIN = "base-goerli", 84_531  # where balances and nonces show how coins moved
WETH = "0x4200000000000000000000000000000000000006"
WRAPPED, UNWRAPPED = 10**15 + 7, 10**14 + 5
BOTH = ((7, 8), (40, 50))  # items, and how many of each


class Market(Town):
    """A town on a listed network, with NFTs, items and wrapped coins; Carol signs, too."""

    def __init__(self, node: Anvil) -> None:
        super().__init__(node)
        self.carol = node.accounts[2]
        self.wallets = (self.alice, self.bob, self.carol, HANK)
        self.collection = self.bazaar = ""

    async def found(self) -> None:
        await super().found()
        self.collection = await self._created(contracts.collection())
        self.bazaar = await self._created(contracts.bazaar())
        await self.node.call("anvil_setCode", WETH, contracts.wrapping())

    async def barter(self) -> None:
        """Mines blocks with transfers of items, wrapping, and coins that contracts pay."""
        called, zero = contracts.called, "0x0"
        for item, owner, receiver in ((1, self.alice, self.bob), (2, self.bob, HANK)):
            made, sent = ((zero, owner, item), (owner, receiver, item))
            await self._send(self.alice, to=self.collection, data=called("send", *made))
            await self._send(self.alice, to=self.collection, data=called("send", *sent))
        await self._send(
            self.alice, to=self.bazaar, data=called("send_some", zero, self.alice, 7, 99, 160, 0)
        )
        both = contracts.batch_of(zero, self.carol, *BOTH)
        await self._send(self.carol, to=self.bazaar, data=both)
        await self.node.call("evm_mine")
        some = called("send_some", self.alice, HANK, 7, 9, 160, 0)
        await self._send(self.alice, to=self.bazaar, data=some)
        both = contracts.batch_of(self.carol, self.bob, BOTH[0], (4, 5))
        await self._send(self.carol, to=self.bazaar, data=both)
        await self._send(self.bob, to=WETH, data=called("deposit"), value=hex(WRAPPED))
        await self.node.call("evm_mine")
        await self._send(self.bob, to=WETH, data=called("withdraw", UNWRAPPED))
        there = {"to": self.forwarder, "value": hex(PASSED_ON)}
        await self._send(self.alice, **there, data=contracts.word_of(self.carol))
        await self._send(self.alice, **there, data=contracts.word_of(HANK))
        await self.node.call("evm_mine")

    def hidden(self, wallet: str, way: str) -> int:
        """The coins that a way to look for movements cannot show."""
        if way == "events" and wallet != HANK:
            return 0
        passed_on = {self.carol: PASSED_ON, HANK: 3 * PASSED_ON}.get(wallet, 0)
        allocated = 0 if wallet == HANK else ALLOCATED
        return allocated + (0 if way == "traces" else passed_on)

    async def holding(self, wallet: str, balance: dict[str, Any]) -> int:
        """What the node says of one asset of a wallet, now."""
        token, item = _token(balance), balance["token_id"]
        if token is None:
            return int(await self.node.call("eth_getBalance", wallet, "latest"), 16)
        called = contracts.called("balance", wallet)
        if token == self.bazaar.lower():
            called = contracts.called("balance_of_item", wallet, int(item))
        if token == self.collection.lower():
            called = contracts.called("owner", int(item))
        found = await self.node.call("eth_call", {"to": token, "data": called}, "latest")
        if token == self.collection.lower():
            return int(int(found, 16) == int(wallet, 16))
        return int(found, 16)


@pytest.mark.parametrize("way", ["events", "scan", "traces", "tables"])
async def test_every_asset_is_that_of_a_real_node(way: str, sqlite_gapless: Commands) -> None:
    target = sqlite_gapless.folder / "w.db"
    place: dict[str, Any] = {"to": target, "ledger": sqlite_gapless.home.url, "confirmations": 0}
    async with anvil(CHAIN) as node:
        market = Market(node)
        await market.found()
        await market.trade()
        await market.barter()
        await market.trade()
        place["rpc"] = node.url
        if way == "tables":
            await gapless.fetch(LISTED, f"0:{await node.head()}", **place)
        place |= {"scan": way == "scan", "traces": way == "traces"}
        await gapless.add_wallets(market.wallets, LISTED, **place)
        seen: set[tuple[str | None, str | None]] = set()
        for wallet in market.wallets:
            found = await asyncio.to_thread(
                sqlite_gapless.json, "wallet", "balances", wallet, "--rpc", node.url, "--all"
            )
            rests = {}
            for each in found:
                held = await market.holding(wallet, each)
                assert int(each["on_chain_raw"]) == held, each
                assert int(each["computed_raw"]) + int(each["unexplained_raw"]) == held, each
                rests[_token(each), each["token_id"]] = int(each["unexplained_raw"])
            assert rests.pop((None, None)) == market.hidden(wallet, way), wallet
            assert not any(rests.values()), rests
            seen |= rests.keys()
        if way == "events":
            await _require_allocations(sqlite_gapless, market)
    items = {(market.collection, "1"), (market.collection, "2")}
    items |= {(market.bazaar, str(it)) for it in BOTH[0]}
    expected = {(token.lower(), item) for token, item in items}
    assert seen == {*expected, (market.token.lower(), None), (WETH, None)}


async def _require_allocations(command: Commands, market: Market) -> None:
    """What an account has in the first block is found there, as coins from nobody."""
    for wallet in (market.alice, market.bob, market.carol):
        history = await asyncio.to_thread(
            command.json, "wallet", "history", wallet, "--limit", "999"
        )
        (first,) = [it for it in history["items"] if it["block"] == 0]
        assert (first["kind"], int(first["amount_raw"])) == ("internal", ALLOCATED)
