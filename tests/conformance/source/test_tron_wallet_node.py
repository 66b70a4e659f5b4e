"""What TRON nodes are asked about wallets, and what is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gapless.chains.movements import Account, TokenFacts
from gapless.chains.tron.family import TRON
from gapless.chains.tron.wallet_node import TronWalletNode
from gapless.core.errors import BadAnswer
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Parameters, simulated
from gapless.devnode.wire import HttpRequest, Reply
from tests.conformance.source.sources import pool_on

LAST = 19
ANN, TOKEN = bytes([0xA1]) * 20, bytes([0xC1]) * 20
ACCOUNT, CALL, ASSET = (
    "/wallet/getaccount",
    "/wallet/triggerconstantcontract",
    "/wallet/getassetissuebyid",
)

Answer = Callable[[dict[str, Any]], Any]


class Knowing(DevNode):
    """A node that also answers questions about accounts, and may grow meanwhile."""

    def __init__(self, chain: Chain, answers: dict[str, Answer], *, grows: bool = False) -> None:
        super().__init__(chain)
        self.answers, self.grows, self.asked = answers, grows, list[str]()

    def respond(self, request: HttpRequest) -> Reply:
        self.asked.append(request.path)
        if request.path not in self.answers:
            return super().respond(request)
        if self.grows:
            self.advance(1)
        return Reply(json.dumps(self.answers[request.path](json.loads(request.body))).encode())


@pytest.fixture
def tron(tmp_path: Path) -> Chain:
    return simulated(Parameters(blocks=LAST, txs=2, seed=3), tmp_path, family="tron")


def word(number: int) -> str:
    return f"{number:064x}"


def text(value: bytes) -> str:
    return word(32) + word(len(value)) + value.ljust(-(-len(value) // 32) * 32, b"\0").hex()


async def asked(
    chain: Chain, answers: dict[str, Answer], question: Callable[[TronWalletNode], Any], **more: Any
) -> Any:
    async with pool_on(Knowing(chain, answers, **more), family=TRON) as pool:
        return await question(TronWalletNode(pool))


async def test_all_trx_that_belong_to_an_account(tron: Chain) -> None:
    """Staked, delegated and unstaking ones too, but not rewards that were not withdrawn."""
    answer = {
        "address": "41" + ANN.hex(),
        "balance": 1,
        "allowance": 10**9,
        "frozen": [{"frozen_balance": 2, "expire_time": 5}],
        "frozenV2": [{}, {"type": "ENERGY", "amount": 4}, {"type": "TRON_POWER"}],
        "unfrozenV2": [{"unfreeze_amount": 8, "unfreeze_expire_time": 7}],
        "tron_power": {"frozen_balance": 16},
        "delegated_frozen_balance_for_bandwidth": 32,
        "delegated_frozenV2_balance_for_bandwidth": 64,
        "acquired_delegated_frozenV2_balance_for_bandwidth": 10**9,
        "account_resource": {
            "frozen_balance_for_energy": {"frozen_balance": 128},
            "delegated_frozen_balance_for_energy": 256,
            "delegated_frozenV2_balance_for_energy": 512,
            "acquired_delegated_frozenV2_balance_for_energy": 10**9,
        },
    }

    def account(body: dict[str, Any]) -> Any:
        assert body == {"address": "41" + ANN.hex()}
        return answer

    found = await asked(tron, {ACCOUNT: account}, lambda node: node.account(ANN, LAST))
    assert found == Account(1023, 0, has_code=False)


async def test_an_account_that_nobody_has_used(tron: Chain) -> None:
    found = await asked(tron, {ACCOUNT: lambda _: {}}, lambda node: node.account(ANN, LAST))
    assert found == Account(0, 0, has_code=False)


async def test_a_contract_has_code(tron: Chain) -> None:
    contract = {"type": "Contract", "balance": 3}
    found = await asked(tron, {ACCOUNT: lambda _: contract}, lambda node: node.account(ANN, LAST))
    assert found == Account(3, 0, has_code=True)


async def test_an_account_that_cannot_be_read(tron: Chain) -> None:
    with pytest.raises(BadAnswer, match="the returned account cannot be read"):
        await asked(
            tron, {ACCOUNT: lambda _: {"balance": "x"}}, lambda node: node.account(ANN, LAST)
        )


@pytest.mark.parametrize("height", [LAST - 1, LAST + 1])
async def test_only_the_newest_state_is_remembered(tron: Chain, height: int) -> None:
    answers: dict[str, Answer] = {ACCOUNT: lambda _: {"balance": 5}}
    assert await asked(tron, answers, lambda node: node.account(ANN, height)) is None


async def test_a_node_that_grows_meanwhile_says_nothing(tron: Chain) -> None:
    answers: dict[str, Answer] = {ACCOUNT: lambda _: {"balance": 5}}
    found = await asked(tron, answers, lambda node: node.account(ANN, LAST), grows=True)
    assert found is None


async def test_balances_of_tokens(tron: Chain) -> None:
    results = {
        ("balanceOf(address)", word(int.from_bytes(ANN, "big"))): [word(10**30)],
        ("ownerOf(uint256)", word(7)): [word(int.from_bytes(ANN, "big"))],
        ("ownerOf(uint256)", word(8)): [word(1)],
        ("ownerOf(uint256)", word(9)): ["08c379a0" + text(b"no")],
    }

    def call(body: dict[str, Any]) -> Any:
        assert body["contract_address"] == "41" + TOKEN.hex()
        found = results.get((body["function_selector"], body["parameter"]))
        if found is None:
            return {"result": {"code": "CONTRACT_VALIDATE_ERROR", "message": "6e6f"}}
        return {"result": {"result": True}, "constant_result": found}

    assets = {"assetV2": [{"key": "1000001", "value": 5}, {"key": "1000002", "value": 6}]}
    answers: dict[str, Answer] = {CALL: call, ACCOUNT: lambda _: assets}
    questions = {
        (TOKEN, None): 10**30,
        (TOKEN, 7): 1,
        (TOKEN, 8): 0,
        (TOKEN, 9): None,
        (TOKEN, 10): None,
        (b"1000002", None): 6,
        (b"1000003", None): 0,
    }
    async with pool_on(Knowing(tron, answers), family=TRON) as pool:
        node = TronWalletNode(pool)
        assert await node.token_balances([*questions], ANN, LAST) == [*questions.values()]
        assert await node.token_balances([*questions], ANN, LAST - 1) == [None] * len(questions)


async def test_what_tokens_say_about_themselves(tron: Chain) -> None:
    other = bytes([0xC2]) * 20
    known = {"symbol()": text(b"USDT"), "name()": text(b"Tether USD"), "decimals()": word(6)}

    def call(body: dict[str, Any]) -> Any:
        result = known.get(body["function_selector"])
        if result is None or body["contract_address"] != "41" + TOKEN.hex():
            return {"result": {"code": "CONTRACT_EXE_ERROR", "message": "6e6f"}}
        return {"result": {"result": True}, "constant_result": [result]}

    def asset(body: dict[str, Any]) -> Any:
        if body["value"] != "1002000":
            return {}
        name, abbr = (each.encode().hex() for each in ("BitTorrent\u202e", "BTT"))
        return {"id": "1002000", "name": name, "abbr": abbr, "precision": 6}

    found = await asked(
        tron,
        {CALL: call, ASSET: asset},
        lambda node: node.token_facts([TOKEN, other, b"1002000", b"1", b"\xff", TOKEN]),
    )
    assert found == {
        TOKEN: TokenFacts("TRC-20", "USDT", "Tether USD", 6),
        b"1002000": TokenFacts("TRC-10", "BTT", "BitTorrent", 6),
    }


class Lacking(DevNode):
    """A node without the methods about accounts and tokens."""

    def respond(self, request: HttpRequest) -> Reply:
        known = request.path not in (ACCOUNT, CALL, ASSET)
        return super().respond(request if known else request._replace(path="/wallet/unknown"))


async def test_a_node_without_these_methods(tron: Chain) -> None:
    async with pool_on(Lacking(tron), family=TRON) as pool:
        node = TronWalletNode(pool)
        assert await node.account(ANN, LAST) is None
        assert await node.token_facts([TOKEN, b"1"]) == {}


async def test_events_cannot_be_searched_for(tron: Chain) -> None:
    assert not TronWalletNode.finds_events
    with pytest.raises(NotImplementedError):
        await asked(tron, {}, lambda node: node.hits(Span(0, 1), [ANN]))
