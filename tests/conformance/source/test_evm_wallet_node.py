"""What EVM nodes are asked about wallets, and what is believed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gapless.chains.evm import logs_client
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.family import EVM
from gapless.chains.evm.wallet_node import EvmWalletNode
from gapless.chains.movements import (
    Account,
    AccountAt,
    Coded,
    Hits,
    Snapshot,
    Snapshots,
    TokenFacts,
)
from gapless.core.errors import Unavailable
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Limits
from gapless.devnode.wire import Reply
from tests.conformance.source.sources import pool_on
from tests.evm import evm_network
from tests.unit.rpc.nodes import Outspoken

SPAN = Span(0, 199)
ANN, TOKEN, OTHER = (bytes([each]) * 20 for each in (0xA1, 0xC1, 0xC2))
HEIGHT = 150

Answer = Callable[[str, list[Any]], Any]
"""The result of a call, from its method and parameters; an exception's text is an error."""


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def text(value: bytes) -> bytes:
    """Encode a string as Solidity does."""
    return word(32) + word(len(value)) + value.ljust(-(-len(value) // 32) * 32, b"\0")


def scripted(answer: Answer) -> Callable[[Any], Reply | None]:
    """Answer calls about state, and any other as usual."""

    def answering(asked: Any) -> Reply | None:
        calls = asked if isinstance(asked, list) else [asked]
        if not all(each["method"] in METHODS for each in calls):
            return None
        replies = []
        for each in calls:
            try:
                said = {"result": answer(each["method"], each["params"])}
            except LookupError as error:
                said = {"error": {"code": -32000, "message": str(error.args[0])}}
            replies.append({"jsonrpc": "2.0", "id": each["id"], **said})
        return Reply(json.dumps(replies if isinstance(asked, list) else replies[0]).encode())

    return answering


METHODS = {"eth_getBalance", "eth_getTransactionCount", "eth_getCode", "eth_call"}


def node_on(pool: Any, chain: Chain) -> EvmWalletNode:
    return EvmWalletNode(pool, evm_network(chain.chain_id))


def holders(chain: Chain) -> list[bytes]:
    """Return everybody whom a log of the chain names."""
    topics = {
        topic
        for height in range(SPAN.last + 1)
        for receipt in json.loads(chain.receipts(height))
        for log in receipt["logs"]
        for topic in log["topics"][1:3]
    }
    return sorted(bytes.fromhex(each[26:]) for each in topics if each[:26] == "0x" + "0" * 24)


def truth(chain: Chain, addresses: Sequence[bytes]) -> set[int]:
    """Return the blocks in which logs move tokens of the addresses."""
    heights = range(SPAN.last + 1)
    blocks = [parse_block(chain.block(each)) for each in heights]
    receipts = [parse_receipts(chain.receipts(each)) for each in heights]
    rows = decode_blocks(blocks, receipts, chain.chain_id)
    found = EVM.wallets.movements(rows, evm_network(chain.chain_id), addresses)
    return {it.block_number for it in found if it.position >= 0 and it.kind != "withdrawal"}


async def hits(*nodes: DevNode, addresses: Sequence[bytes]) -> Hits:
    async with pool_on(*nodes, family=EVM) as pool:
        return await node_on(pool, nodes[0].chain).hits(SPAN, addresses)


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(max_range=7), Limits(max_results=3)], ids=["", "range", "results"]
)
async def test_events_of_some_addresses_are_found(chain: Chain, limits: Limits) -> None:
    some = holders(chain)[::7]
    found = await hits(DevNode(chain, limits=limits), addresses=some)
    assert {*found.heights} == truth(chain, some)
    assert 0 < len(found.heights) < SPAN.size
    assert not found.is_agreed, "there is only one endpoint"


async def test_two_endpoints_agree(chain: Chain, other: Chain) -> None:
    some = holders(chain)[:3]
    found = await hits(DevNode(chain), DevNode(other), addresses=some)
    assert ({*found.heights}, found.is_agreed) == (truth(chain, some), True)


async def test_endpoints_with_other_limits_agree_too(chain: Chain, other: Chain) -> None:
    some = holders(chain)[:3]
    narrow = DevNode(other, limits=Limits(max_range=9))
    found = await hits(DevNode(chain), narrow, addresses=some)
    assert ({*found.heights}, found.is_agreed) == (truth(chain, some), True)


def silent(asked: Any) -> Reply | None:
    """Find no logs, as a node that lags behind."""
    calls = asked if isinstance(asked, list) else [asked]
    if calls[0]["method"] != "eth_getLogs":
        return None
    replies = [{"jsonrpc": "2.0", "id": each["id"], "result": []} for each in calls]
    return Reply(json.dumps(replies if isinstance(asked, list) else replies[0]).encode())


async def test_what_one_endpoint_misses_another_finds(chain: Chain, other: Chain) -> None:
    some = holders(chain)[:3]
    found = await hits(Outspoken(chain, silent), DevNode(other), addresses=some)
    assert ({*found.heights}, found.is_agreed) == (truth(chain, some), False)


async def test_a_second_endpoint_that_fails_is_no_opinion(
    chain: Chain, other: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_client, "OPINION_PATIENCE", 0.5)

    def broken(asked: Any) -> Reply | None:
        calls = asked if isinstance(asked, list) else [asked]
        return Reply(b"oops", 500) if calls[0]["method"] == "eth_getLogs" else None

    some = holders(chain)[:3]
    found = await hits(DevNode(chain), Outspoken(other, broken), addresses=some)
    assert ({*found.heights}, found.is_agreed) == (truth(chain, some), False)


async def test_no_call_is_sent_twice_and_none_has_too_many_addresses(
    chain: Chain, other: Chain
) -> None:
    nodes = [Outspoken(each, lambda _: None) for each in (chain, other)]
    many = [number.to_bytes(20, "big") for number in range(1, 1201)]
    await hits(*nodes, addresses=[*many, *many])
    for node in nodes:
        asked = [each for batch in node.asked if isinstance(batch, list) for each in batch]
        filters = [each["params"][0] for each in asked if each["method"] == "eth_getLogs"]
        counts = Counter(json.dumps(each, sort_keys=True) for each in filters)
        assert counts.total() == len(counts) > 0
        assert max(len(each["topics"][-1]) for each in filters) == 500


async def test_wrapping_is_looked_for_only_where_it_is_listed(chain: Chain) -> None:
    counts = {}
    for name in ("ethereum", "arbitrum"):
        node = Outspoken(chain, lambda _: None)
        async with pool_on(node, family=EVM) as pool:
            await EvmWalletNode(pool, evm_network(name)).hits(Span(0, 9), [ANN])
        (batch,) = (each for each in node.asked if isinstance(each, list))
        counts[name] = [len(each["params"][0]["topics"][0]) for each in batch]
    assert counts == {"ethereum": [3, 3, 2], "arbitrum": [1, 3, 2]}


async def test_an_account_at_a_height(chain: Chain) -> None:
    facts = {"eth_getBalance": hex(10**30), "eth_getTransactionCount": "0x7", "eth_getCode": "0x"}

    def answer(method: str, params: list[Any]) -> Any:
        assert params == ["0x" + ANN.hex(), hex(HEIGHT)]
        return facts[method]

    node = Outspoken(chain, scripted(answer))
    async with pool_on(node, family=EVM) as pool:
        wallet = node_on(pool, chain)
        assert await wallet.account(ANN, HEIGHT) == Account(10**30, 7, has_code=False)
        facts["eth_getCode"] = "0xef0100" + ANN.hex()
        assert await wallet.account(ANN, HEIGHT) == Account(10**30, 7, has_code=True)
    (first, second) = (each for each in node.asked if isinstance(each, list))
    assert len(first) == len(second) == 3, "one batch for each account"


async def test_many_accounts_at_many_heights_are_one_batch(chain: Chain, other: Chain) -> None:
    wanted = [AccountAt(each, at) for each in (ANN, TOKEN) for at in (-1, 5, 9)]

    def answer(method: str, params: list[Any]) -> Any:
        return hex(int(params[1], 16) * (2 if method == "eth_getBalance" else 1))

    node = Outspoken(chain, scripted(answer))
    async with pool_on(node, family=EVM) as pool:
        found = await node_on(pool, chain).snapshots(wanted)
    before, five, nine = Snapshot(0, 0), Snapshot(10, 5), Snapshot(18, 9)
    assert found == Snapshots([before, five, nine] * 2, is_agreed=False)
    assert [len(each) for each in node.asked if isinstance(each, list)] == [8]
    liar = Outspoken(other, scripted(lambda *_: "0x1"))
    for second, agreed in ((Outspoken(other, scripted(answer)), True), (liar, False)):
        async with pool_on(node, second, family=EVM) as pool:
            found = await node_on(pool, chain).snapshots(wanted)
        assert found is not None
        assert found.is_agreed is agreed


async def test_a_second_endpoint_is_asked_which_accounts_have_code(
    chain: Chain, other: Chain
) -> None:
    wanted = [AccountAt(each, at) for each in (ANN, TOKEN) for at in (-1, 5)]

    def node(its: Chain, *contracts: bytes) -> Outspoken:
        texts = {f"0x{each.hex()}" for each in contracts}
        return Outspoken(its, scripted(lambda _, params: "0x60" if params[0] in texts else "0x"))

    expected = frozenset({AccountAt(TOKEN, 5)})
    first = node(chain, TOKEN)
    async with pool_on(first, family=EVM) as pool:
        assert await node_on(pool, chain).with_code(wanted) == Coded(expected, is_agreed=False)
        before = [AccountAt(ANN, -1)]
        assert await node_on(pool, chain).with_code(before) == Coded(frozenset(), is_agreed=True)
    for second, agreed in ((node(other, TOKEN), True), (node(other, TOKEN, ANN), False)):
        async with pool_on(first, second, family=EVM) as pool:
            found = await node_on(pool, chain).with_code(wanted)
        assert found is not None
        assert found.is_agreed is agreed


@pytest.mark.parametrize(
    "words",
    [
        "missing trie node 5ab1 (path ) state 0x1 is not available",
        "historical state 5ab1 is not available",
        "No state available for block 0x5ab1",
        "state at block #96 is pruned",
        "required historical state unavailable (reexec=128)",
        "header not found",
    ],
)
async def test_no_endpoint_remembers_old_state(chain: Chain, words: str) -> None:
    def answer(method: str, params: list[Any]) -> Any:
        if int(params[-1], 16) <= HEIGHT:
            raise LookupError(words)
        return "0x" + word(1).hex()

    node = Outspoken(chain, scripted(answer))
    async with pool_on(node, family=EVM) as pool:
        wallet = node_on(pool, chain)
        assert await wallet.account(ANN, HEIGHT) is None
        assert await wallet.token_balances([(TOKEN, None)], ANN, HEIGHT) == [None]
        assert await wallet.snapshots([AccountAt(ANN, HEIGHT + 1), AccountAt(ANN, HEIGHT)]) is None
        assert await wallet.account(ANN, HEIGHT + 1) == Account(1, 1, has_code=True)
        sent = len(node.asked)
        assert await wallet.account(ANN, HEIGHT - 1) is None
        if words != "header not found":
            assert len(node.asked) == sent, "it is known where its history begins"


async def test_an_endpoint_that_fails_is_an_error(chain: Chain) -> None:
    """It may well remember."""

    def answer(method: str, params: list[Any]) -> Any:
        raise LookupError("internal error")

    async with pool_on(Outspoken(chain, scripted(answer)), family=EVM) as pool:
        with pytest.raises(Unavailable):
            await node_on(pool, chain).account(ANN, HEIGHT)


async def test_balances_of_tokens(chain: Chain) -> None:
    holdings = {
        "0x70a08231" + "00" * 12 + ANN.hex(): word(2**256 - 1),
        "0x00fdd58e" + "00" * 12 + ANN.hex() + word(7).hex(): word(3),
        "0x6352211e" + word(8).hex(): word(int.from_bytes(ANN, "big")),
        "0x6352211e" + word(9).hex(): word(int.from_bytes(OTHER, "big")),
        "0x6352211e" + word(10).hex(): b"\xff" * 32,
    }

    def answer(method: str, params: list[Any]) -> Any:
        assert params[1] == hex(HEIGHT)
        if params[0]["data"] not in holdings:
            raise LookupError("execution reverted: rate limit, quota exceeded, pruned")
        return "0x" + holdings[params[0]["data"]].hex()

    async with pool_on(Outspoken(chain, scripted(answer)), family=EVM) as pool:
        wallet = node_on(pool, chain)
        expected = {None: 2**256 - 1, 7: 3, 8: 1, 9: 0, 10: None, 11: None}
        tokens = [(TOKEN, token_id) for token_id in expected]
        assert await wallet.token_balances(tokens, ANN, HEIGHT) == [*expected.values()]
        holdings["0x70a08231" + "00" * 12 + ANN.hex()] = b""
        assert await wallet.token_balances(tokens[:1], ANN, HEIGHT) == [None], "it is no contract"


async def test_balances_of_many_tokens_are_few_requests(chain: Chain) -> None:
    node = Outspoken(chain, scripted(lambda _, params: "0x" + word(int(params[0]["to"], 16)).hex()))
    contracts = [number.to_bytes(20, "big") for number in range(1, 121)]
    tokens = [*((each, None) for each in contracts), (TOKEN, 7)]
    async with pool_on(node, family=EVM) as pool:
        found = await node_on(pool, chain).token_balances(tokens, ANN, HEIGHT)
    assert found == [*range(1, 121), int.from_bytes(TOKEN, "big")]
    sizes = [len(each) for each in node.asked if isinstance(each, list)]
    assert sum(sizes) == 122
    assert len(sizes) < 10, "the pool learns how many calls a request may have"


SYMBOL, NAME, DECIMALS, SUPPORTS = "0x95d89b41", "0x06fdde03", "0x313ce567", "0x01ffc9a7"
ERC721, ERC1155 = (SUPPORTS + each + "00" * 28 for each in ("80ac58cd", "d9b67a26"))


@pytest.mark.parametrize(
    ("answers", "facts"),
    [
        (
            {SYMBOL: text(b"USDC"), NAME: text(b"USD Coin"), DECIMALS: word(6)},
            TokenFacts("ERC-20", "USDC", "USD Coin", 6),
        ),
        (
            {SYMBOL: b"MKR".ljust(32, b"\0"), NAME: b"Maker".ljust(32, b"\0"), DECIMALS: word(18)},
            TokenFacts("ERC-20", "MKR", "Maker", 18),
        ),
        ({SYMBOL: text(b"APE"), ERC721: word(1)}, TokenFacts("ERC-721", "APE")),
        ({ERC1155: word(1), ERC721: word(0)}, TokenFacts("ERC-1155")),
        ({SYMBOL: text(b"X")}, TokenFacts("unknown", "X")),
        ({SYMBOL: text(b"X" * 5000), DECIMALS: word(256)}, TokenFacts("unknown", "X" * 32)),
        (
            {SYMBOL: text("\u202eETH\x1b[2J\u200b\n$".encode()), NAME: text(b"\xff\xfe")},
            TokenFacts("unknown", "ETH[2J $", "\ufffd\ufffd"),
        ),
        ({SYMBOL: word(2**255) * 3, NAME: b"\x01" * 33}, TokenFacts("unknown")),
        ({}, None),
        ({SYMBOL: b"", NAME: b"", DECIMALS: b""}, None),
    ],
)
async def test_what_a_token_says_about_itself(
    chain: Chain, answers: dict[str, bytes], facts: TokenFacts | None
) -> None:
    good = {SYMBOL: text(b"OK"), NAME: text(b"Okay"), DECIMALS: word(1)}

    def answer(method: str, params: list[Any]) -> Any:
        call, at = params
        assert at == "latest"
        said = answers if call["to"] == "0x" + TOKEN.hex() else good
        if call["data"] not in said:
            raise LookupError("execution reverted: monthly capacity limit exceeded")
        return "0x" + said[call["data"]].hex()

    node = Outspoken(chain, scripted(answer))
    async with pool_on(node, family=EVM) as pool:
        found = await node_on(pool, chain).token_facts([TOKEN, OTHER, TOKEN])
    expected = {OTHER: TokenFacts("ERC-20", "OK", "Okay", 1)}
    assert found == (expected if facts is None else {**expected, TOKEN: facts})
