"""A node of a chain with an economy answers about accounts as real nodes do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from gapless.chains.evm.wallet_traces import read_traces
from gapless.devnode import Chain, DevNode, Limits, Visibility
from gapless.devnode.evm.accounts import CODE
from gapless.devnode.evm.contracts import (
    BALANCE_OF,
    BALANCE_OF_ITEM,
    BROKEN,
    DECIMALS,
    ERC_721,
    ERC_1155,
    HOSTILE,
    LONG,
    NAME,
    OWNER_OF,
    REVERTING,
    SHORT,
    SUPPORTS,
    SYMBOL,
)
from gapless.devnode.evm.dialect import accounts_of
from gapless.devnode.evm.drafts import World
from gapless.devnode.evm.economy import SIGNERS, WRAPPED
from gapless.devnode.evm.postings import PostedAsset
from gapless.providers.provider_errors import Reaction, classify
from tests.unit.devnode.asking import Client, client_of
from tests.unit.devnode.conftest import ECONOMY

WORLD = World(ECONOMY.seed)
WALLET = WORLD.wallets[3]
NOWHERE = "0x" + "12" * 20
METHODS = ("eth_getBalance", "eth_getTransactionCount", "eth_getCode", "eth_call")


def word(address_or_number: str | int) -> str:
    found = address_or_number
    return f"{found:064x}" if isinstance(found, int) else f"{found[2:]:0>64}"


def call(to: str, selector: str, *words: str | int) -> dict[str, str]:
    return {"to": to, "data": f"0x{selector}{''.join(map(word, words))}"}


async def called(client: Client, to: str, selector: str, *words: str | int) -> bytes:
    answer: str = await client.ask("eth_call", call(to, selector, *words), "latest")
    return bytes.fromhex(answer[2:])


def text(encoded: bytes) -> str:
    """A text as contracts encode it."""
    offset, length = (int.from_bytes(encoded[at : at + 32], "big") for at in (0, 32))
    assert offset == 32
    assert len(encoded) % 32 == 0
    return encoded[64 : 64 + length].decode()


async def test_balances_nonces_and_code(economy: Chain) -> None:
    async with client_of(DevNode(economy)) as client:
        for height in (0, 17, 119, 120):
            state = accounts_of(economy).at(economy, height)
            for account in (*WORLD.wallets[::16], WORLD.wallets[-1], WRAPPED, NOWHERE):
                at = (account, hex(height))
                balance = await client.ask("eth_getBalance", *at)
                assert balance == hex(state.balance(account))
                nonce = await client.ask("eth_getTransactionCount", *at)
                assert nonce == hex(state.nonce(account))
                assert await client.ask("eth_getCode", *at) == (state.code(account) or "0x")
        assert await client.ask("eth_getCode", WRAPPED, "0x0") == CODE
        assert await client.ask("eth_getBalance", NOWHERE, "latest") == "0x0"


async def test_a_block_is_named_by_height_tag_or_hash(economy: Chain) -> None:
    async with client_of(DevNode(economy)) as client:
        expected = hex(accounts_of(economy).at(economy, 88).balance(WALLET))
        names: list[Any] = ["0x58", "safe", economy.hash(88)]
        names += [{"blockHash": economy.hash(88)}, {"blockNumber": "0x58"}]
        for name in names:
            assert await client.ask("eth_getBalance", WALLET, name) == expected
            assert await client.ask("eth_getBalance", f"0x{WALLET[2:].upper()}", name) == expected
        for tag, height in {"earliest": 0, "finalized": 56, "latest": 120, "pending": 120}.items():
            balance = hex(accounts_of(economy).at(economy, height).balance(WALLET))
            assert await client.ask("eth_getBalance", WALLET, tag) == balance
        latest = await client.ask("eth_call", call(WRAPPED, BALANCE_OF, WALLET), "latest")
        assert await client.ask("eth_call", call(WRAPPED, BALANCE_OF, WALLET)) == latest


async def test_tokens(economy: Chain) -> None:
    state = accounts_of(economy).at(economy, 120)
    async with client_of(DevNode(economy)) as client:
        plain = [*WORLD.tokens[REVERTING + 1 :], WRAPPED, WORLD.rebasing, WORLD.taxed]
        for token in (*plain, WORLD.unindexed, WORLD.forged):
            balance = await called(client, token, BALANCE_OF, WALLET)
            assert int.from_bytes(balance, "big") == state.balance(WALLET, PostedAsset(token))
        assert text(await called(client, WRAPPED, SYMBOL)) == "WETH"
        assert text(await called(client, WRAPPED, NAME)) == "Wrapped Ether"
        assert int.from_bytes(await called(client, WRAPPED, DECIMALS), "big") == 18
        short = await called(client, WORLD.tokens[SHORT], SYMBOL)
        assert short == b"MKR".ljust(32, b"\0")
        assert text(await called(client, WORLD.tokens[LONG], SYMBOL)) == HOSTILE
        assert len(HOSTILE.encode()) > 10_000
        assert await called(client, WORLD.tokens[LONG], DECIMALS) == b"\xff" * 32
        assert await called(client, WORLD.tokens[BROKEN], NAME) == b""
        assert await called(client, WORLD.tokens[BROKEN], SYMBOL)
        assert await called(client, NOWHERE, SYMBOL) == b"", "there is no contract"


async def test_items(economy: Chain) -> None:
    state = accounts_of(economy).at(economy, 120)
    held = {
        (wallet, asset)
        for wallet in WORLD.wallets
        for asset, it in state.explained(wallet).items()
        if asset.item is not None and it.balance
    }
    owned = {(who, it) for who, it in held if it.token in WORLD.collections}
    async with client_of(DevNode(economy)) as client:
        for wallet, asset in owned:
            assert asset.item is not None
            found = await called(client, asset.token, OWNER_OF, asset.item)
            assert found.hex() == word(wallet)
            count = await called(client, asset.token, BALANCE_OF, wallet)
            same = [it for who, it in owned if who == wallet and it.token == asset.token]
            assert int.from_bytes(count, "big") == len(same)
        for wallet, asset in held - owned:
            assert asset.item is not None
            amount = await called(client, asset.token, BALANCE_OF_ITEM, wallet, asset.item)
            assert int.from_bytes(amount, "big") == state.balance(wallet, asset)
        assert owned
        assert held - owned
        collection, bazaar = WORLD.collections[0], WORLD.bazaars[0]
        for token, interface, other in (
            (collection, ERC_721, ERC_1155),
            (bazaar, ERC_1155, ERC_721),
        ):
            for asked, answer in ((interface, 1), (other, 0)):
                argument = int(asked.ljust(64, "0"), 16)
                found = await called(client, token, SUPPORTS, argument)
                assert int.from_bytes(found, "big") == answer


@pytest.mark.parametrize(
    "request_",
    [
        call(WORLD.tokens[REVERTING], SYMBOL),
        call(WORLD.tokens[REVERTING], BALANCE_OF, WALLET),
        call(WORLD.tokens[SHORT], OWNER_OF, 1),
        call(WORLD.tokens[SHORT], BALANCE_OF),  # without its argument
        call(WORLD.collections[0], OWNER_OF, 1 << 255),  # there is no such item
        call(WORLD.collections[0], DECIMALS),
        call(WORLD.bazaars[0], BALANCE_OF, WALLET),
        call(WORLD.bazaars[0], BALANCE_OF_ITEM, WALLET),
        call(WORLD.wallets[-1], SYMBOL),  # a contract that is not a token
        {"to": WRAPPED},
    ],
)
async def test_contracts_revert(economy: Chain, request_: dict[str, str]) -> None:
    async with client_of(DevNode(economy)) as client:
        error = await client.error("eth_call", request_, "latest")
        assert error == {"code": -32000, "message": "execution reverted"}


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("eth_getBalance", [], -32602, "missing value for required argument 0"),
        ("eth_getBalance", [WALLET], -32602, "missing value for required argument 1"),
        ("eth_getBalance", [WALLET[:-1], "latest"], -32602, "not an address"),
        ("eth_getBalance", [None, "latest"], -32602, "not an address"),
        ("eth_getBalance", [WALLET, "17"], -32602, "hex string without 0x prefix"),
        ("eth_getBalance", [WALLET, {}], -32602, "hex string without 0x prefix"),
        ("eth_getBalance", [WALLET, "0x79"], -32000, "header not found"),
        ("eth_getCode", [WALLET, "0x" + "0" * 64], -32000, "header not found"),
        ("eth_call", ["0x", "latest"], -32602, "not a transaction"),
        ("eth_call", [{"data": "0x"}, "latest"], -32602, "not an address"),
        ("eth_call", [{"to": WRAPPED, "data": "0x123"}, "latest"], -32602, "not bytes"),
        ("eth_call", [{"to": WRAPPED, "data": 17}, "latest"], -32602, "not bytes"),
    ],
)
async def test_invalid_requests(
    economy: Chain, method: str, params: list[Any], code: int, words: str
) -> None:
    async with client_of(DevNode(economy)) as client:
        error = await client.error(method, *params)
        assert error["code"] == code
        assert words in error["message"]


@pytest.mark.parametrize("method", METHODS)
async def test_chains_without_an_economy_lack_these_methods(chain: Chain, method: str) -> None:
    async with client_of(DevNode(chain)) as client:
        assert (await client.error(method, WALLET, "latest"))["code"] == -32601


async def test_a_method_may_be_missing(economy: Chain) -> None:
    limits = Limits(missing=frozenset({"eth_call"}))
    async with client_of(DevNode(economy, limits=limits)) as client:
        assert (await client.error("eth_call", call(WRAPPED, SYMBOL), "latest"))["code"] == -32601
        assert await client.ask("eth_getBalance", WALLET, "latest")


@pytest.mark.parametrize("method", METHODS)
async def test_a_node_without_an_archive(economy: Chain, method: str) -> None:
    subject = call(WRAPPED, SYMBOL) if method == "eth_call" else WALLET
    async with client_of(DevNode(economy, limits=Limits(state_blocks=10))) as client:
        for height in (111, 120):
            assert await client.ask(method, subject, hex(height))
        for height in (0, 110):
            error = await client.error(method, subject, hex(height))
            root = json.loads(economy.block(height))["stateRoot"]
            assert error["code"] == -32000
            assert error["message"].startswith(f"missing trie node {root[2:]} (path ")
            assert classify(error["message"], error["code"]).reaction is Reaction.ELSEWHERE
        economy.grow()
        assert (await client.error(method, subject, "0x6f"))["code"] == -32000


async def test_a_node_that_lags_behind_does_not_know_later_states(economy: Chain) -> None:
    async with client_of(DevNode(economy, visibility=Visibility(lag=5))) as client:
        state = accounts_of(economy).at(economy, 115)
        found = await client.ask("eth_getBalance", WALLET, "latest")
        assert found == hex(state.balance(WALLET))
        error = await client.error("eth_getBalance", WALLET, "0x74")
        assert error["message"] == "header not found"


async def test_a_reorganisation_replaces_the_state(economy: Chain) -> None:
    moving = WORLD.wallets[:SIGNERS]
    async with client_of(DevNode(economy, visibility=Visibility(flap=3600))) as client:

        async def balances(height: int) -> list[str]:
            return [await client.ask("eth_getBalance", each, hex(height)) for each in moving]

        before, settled = await balances(115), await balances(99)
        economy.reorg(100)
        assert await balances(99) == settled
        after = await balances(115)  # every other request is about the replaced branch
        now = accounts_of(economy).at(economy, 115)
        for each, old, found in zip(moving, before, after, strict=True):
            assert found in (old, hex(now.balance(each)))
        assert after != before
        assert after != [hex(now.balance(each)) for each in moving]


async def test_faults(economy: Chain) -> None:
    account = WRAPPED
    plain = [hex(accounts_of(economy).at(economy, at).balance(account)) for at in range(121)]
    faults = "null@50,gone@51,limited@52,500@53,stale-head@70"
    changed = next(at for at in range(90, 121) if plain[at] != plain[at - 1])
    node = DevNode(economy, faults=f"{faults},wrong-block@{changed}")
    async with client_of(node) as client:

        async def balance(height: int) -> Any:
            return await client.ask("eth_getBalance", account, hex(height))

        assert await balance(50) is None
        error = await client.error("eth_getBalance", account, hex(51))
        assert error["message"].startswith("missing trie node")
        assert (await client.error("eth_getBalance", account, hex(52)))["code"] == 429
        body = {"id": 1, "method": "eth_getBalance", "params": [account, hex(53)]}
        assert (await client.post(body))[0].status == 500
        error = await client.error("eth_getBalance", account, hex(70))
        assert error["message"] == "header not found", "a stale node has no such block"
        assert await balance(changed) == plain[changed - 1]
        for height in (50, 51, 52, 53, 70, changed):
            assert await balance(height) == plain[height], "only the first answer has the fault"
    expected = {"null", "gone", "limited", "500", "stale-head", "wrong-block"}
    assert node.injected == dict.fromkeys(expected, 1)


TRACERS: tuple[tuple[Any, ...], ...] = (
    ("trace_block",),
    ("debug_traceBlockByNumber", {"tracer": "callTracer"}),
)


@pytest.mark.parametrize("method", TRACERS)
async def test_only_some_nodes_trace(economy: Chain, method: tuple[Any, ...]) -> None:
    name, *options = method
    async with client_of(DevNode(economy)) as client:
        refused = await client.error(name, "0x5", *options)
    assert classify(refused["message"], refused["code"]).reaction is Reaction.OTHER_METHOD


async def test_both_tracers_say_the_same(economy: Chain) -> None:
    moved = 0
    async with client_of(DevNode(economy, limits=Limits(traces=True))) as client:
        for height in range(1, 40):
            found = []
            for method, *options in TRACERS:
                raw = Raw(json.dumps(await client.ask(method, hex(height), *options)).encode())
                found.append(read_traces(method, raw))
            assert found[0] == found[1]
            block = await client.ask("eth_getBlockByNumber", hex(height), False)
            assert [f"0x{it.hash.hex()}" for it in found[0]] == block["transactions"]
            moved += sum(len(it.transfers) for it in found[0])
        assert moved
        assert "tracer" in (await client.error("debug_traceBlockByNumber", "0x5"))["message"]
        assert await client.ask("trace_block", "0x0") == []
