"""What TRON nodes know about accounts and tokens.

A node remembers only the newest state. So a question about a block is answered only if that block
is the head of the node before and after it answers. There is no search for events by address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct, field

from gapless.chains.contract_answers import (
    clean_facts,
    read_address,
    read_facts,
    read_number,
    word_of,
)
from gapless.chains.movements import Account, AccountAt, Coded, Hits, Snapshots, TokenFacts, Traces
from gapless.chains.tron.address import LENGTH, VERSION
from gapless.chains.tron.queries import HEAD, header_of
from gapless.core.errors import BadAnswer
from gapless.core.ranges import Span
from gapless.providers import Answers, Call, Pool, Refused
from gapless.providers.calls import is_null

_ACCOUNT = "/wallet/getaccount"
_ASSET = "/wallet/getassetissuebyid"
_CALL = "/wallet/triggerconstantcontract"
_SUPPORTS = "supportsInterface(bytes4)"
_QUESTIONS = (
    *(("symbol()", b""), ("name()", b""), ("decimals()", b"")),
    (_SUPPORTS, bytes.fromhex("80ac58cd").ljust(32, b"\0")),
    (_SUPPORTS, bytes.fromhex("d9b67a26").ljust(32, b"\0")),
)


class _Staked(Struct):
    frozen_balance: int = 0
    amount: int = 0
    unfreeze_amount: int = 0

    @property
    def total(self) -> int:
        return self.frozen_balance + self.amount + self.unfreeze_amount


class _Resource(Struct):
    own: _Staked = field(default_factory=_Staked, name="frozen_balance_for_energy")
    delegated: int = field(default=0, name="delegated_frozen_balance_for_energy")
    delegated_v2: int = field(default=0, name="delegated_frozenV2_balance_for_energy")

    @property
    def total(self) -> int:
        return self.own.total + self.delegated + self.delegated_v2


class _Asset(Struct):
    key: str
    value: int = 0


class _AccountAnswer(Struct):
    """An account; fields with their default value are omitted."""

    balance: int = 0
    type: str = ""
    frozen: list[_Staked] = []
    frozen_v2: list[_Staked] = field(default_factory=list, name="frozenV2")
    unfrozen_v2: list[_Staked] = field(default_factory=list, name="unfrozenV2")
    tron_power: _Staked = field(default_factory=_Staked)
    delegated: int = field(default=0, name="delegated_frozen_balance_for_bandwidth")
    delegated_v2: int = field(default=0, name="delegated_frozenV2_balance_for_bandwidth")
    energy: _Resource = field(default_factory=_Resource, name="account_resource")
    assets: list[_Asset] = field(default_factory=list, name="assetV2")

    @property
    def total(self) -> int:
        """All TRX that belong to it, see `wallet_coins`."""
        stakes = (*self.frozen, *self.frozen_v2, *self.unfrozen_v2, self.tron_power)
        delegated = self.delegated + self.delegated_v2
        return self.balance + sum(it.total for it in stakes) + delegated + self.energy.total

    def units(self, asset: str) -> int:
        return sum(each.value for each in self.assets if each.key == asset)


class _AssetAnswer(Struct):
    name: str = ""
    symbol: str = field(default="", name="abbr")
    decimals: int = field(default=0, name="precision")


class _CallAnswer(Struct):
    results: list[str] = field(default_factory=list, name="constant_result")


_account = msgspec.json.Decoder(_AccountAnswer).decode
_asset = msgspec.json.Decoder(_AssetAnswer).decode
_called = msgspec.json.Decoder(_CallAnswer).decode


class TronWalletNode:
    """See `gapless.chains.movements.WalletNode`."""

    finds_events = False
    signed_since: int | None = None  # accounts have no nonce

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def hits(self, span: Span, addresses: Sequence[bytes]) -> Hits:
        raise NotImplementedError("TRON nodes cannot search for events by address")

    async def account(self, address: bytes, height: int) -> Account | None:
        """Return all TRX of an account, staked ones too; it has no nonce, so that is zero."""
        found = await self._account(address, height)
        return None if found is None else Account(found.total, 0, found.type == "Contract")

    async def snapshots(self, wanted: Sequence[AccountAt]) -> Snapshots | None:
        """Return None: nodes do not remember accounts of the past."""

    async def with_code(self, wanted: Sequence[AccountAt]) -> Coded | None:
        """Return None: nodes do not remember accounts of the past."""

    async def traces(self, heights: Sequence[int]) -> Traces | None:
        """Return None: nodes do not trace."""

    async def token_balances(
        self, tokens: Sequence[tuple[bytes, int | None]], address: bytes, height: int
    ) -> list[int | None]:
        return await asyncio.gather(*(self._token_balance(*it, address, height) for it in tokens))

    async def _token_balance(
        self, token: bytes, token_id: int | None, address: bytes, height: int
    ) -> int | None:
        if _is_asset(token):
            found = await self._account(address, height)
            return None if found is None else found.units(token.decode(errors="replace"))
        if token_id is None:
            question = _contract_call(token, "balanceOf(address)", word_of(address))
            return read_number(_returned(await self._newest(question, height)))
        question = _contract_call(token, "ownerOf(uint256)", word_of(token_id))
        owner = read_address(_returned(await self._newest(question, height)))
        return None if owner is None else int(owner == address)

    async def token_facts(self, tokens: Sequence[bytes]) -> dict[bytes, TokenFacts]:
        found: dict[bytes, TokenFacts] = {}
        for token in dict.fromkeys(tokens):
            facts = await (self._asset_facts(token) if _is_asset(token) else self._facts(token))
            if facts is not None:
                found[token] = facts
        return found

    async def _account(self, address: bytes, height: int) -> _AccountAnswer | None:
        question = Call(_ACCOUNT, ({"address": _hex(address)},))
        answer = await self._newest(question, height)
        if answer is None:
            return None
        if is_null(answer):  # nobody has used it yet
            return _AccountAnswer()
        try:
            return _account(answer)
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"the returned account cannot be read: {error}") from error

    async def _newest(self, question: Call, height: int) -> Raw | None:
        """Return the answer of a node whose head is this block; None if it is not."""
        before = await self._pool.ask([HEAD])
        if _height(before) != height:
            return None
        others = self._pool.names - {before.endpoint}
        try:
            answers = await self._pool.ask([question], avoid=others)
        except Refused:
            return None
        after = await self._pool.ask([HEAD], avoid=others)
        is_same = before.endpoint == answers.endpoint == after.endpoint
        return answers.results[0] if is_same and _height(after) == height else None

    async def _facts(self, token: bytes) -> TokenFacts | None:
        calls = [_contract_call(token, name, argument) for name, argument in _QUESTIONS]
        try:
            answers = await self._pool.ask(calls)
        except Refused:
            return None
        return read_facts([*map(_returned, answers.results)], "TRC")

    async def _asset_facts(self, token: bytes) -> TokenFacts | None:
        question = Call(_ASSET, ({"value": token.decode(errors="replace")},))
        try:
            answers = await self._pool.ask([question])
            found = _asset(answers.results[0])
            symbol, name = bytes.fromhex(found.symbol), bytes.fromhex(found.name)
        except (Refused, msgspec.MsgspecError, ValueError):
            return None
        return clean_facts(symbol, name, found.decimals, "TRC-10")


def _is_asset(token: bytes) -> bool:
    """Whether it is the number of a TRC-10 token, or its name, and not a contract."""
    return len(token) != LENGTH


def _contract_call(contract: bytes, function: str, argument: bytes) -> Call:
    return Call(
        _CALL,
        (
            {
                "owner_address": _hex(bytes(LENGTH)),
                "contract_address": _hex(contract),
                "function_selector": function,
                "parameter": argument.hex(),
            },
        ),
    )


def _returned(answer: Raw | None) -> bytes | None:
    """Return what a contract returned; None if nothing, or nothing that can be read."""
    try:
        results = [] if answer is None else _called(answer).results
        return bytes.fromhex(results[0]) if results else None
    except (msgspec.MsgspecError, ValueError):
        return None


def _height(answers: Answers) -> int | None:
    found = header_of(answers.results[0])
    return None if found is None else found.height


def _hex(address: bytes) -> str:
    return (VERSION + address).hex()
