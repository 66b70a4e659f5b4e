"""What EVM nodes know about accounts and tokens.

Events are searched for by address, in both directions, with three filters per range that are sent
as one batch:

    Transfer, Deposit, Withdrawal | A
    Transfer, TransferSingle, TransferBatch | any | A
    TransferSingle, TransferBatch | any | any | A

A filter proves that an event exists, since its block is fetched and checked, but never that there
is no other one. So a second endpoint is asked the same, if there is one. The same holds for the
balances and nonces of accounts in the past, which only an archive remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec import Raw

from gapless.chains.contract_answers import read_address, read_facts, read_number, word_of
from gapless.chains.evm.decode.structs import UNREADABLE
from gapless.chains.evm.logs_client import OPINION_PATIENCE, LogRanges, Topics
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.evm.wallet_tokens import BATCH, DEPOSIT, PADDING, SINGLE, WITHDRAWAL
from gapless.chains.evm.wallet_traces import DEBUG_TRACE_BLOCK, TRACE_BLOCK, TRACER, read_traces
from gapless.chains.movements import (
    Account,
    AccountAt,
    Coded,
    Hits,
    Snapshot,
    Snapshots,
    TokenFacts,
    TracedTransaction,
    Traces,
)
from gapless.core.errors import BadAnswer, MissingHistory, SourceError
from gapless.core.ranges import Span
from gapless.providers import Answers, Call, Pool, Refused

_MOST_ADDRESSES = 500  # in one call
_MOST_BLOCKS = 100_000  # in one call
_MOST_TOKENS = 50  # in one request
_LATEST = "latest"

_SYMBOL, _NAME, _DECIMALS = (bytes.fromhex(it) for it in ("95d89b41", "06fdde03", "313ce567"))
_BALANCE, _BALANCE_OF_ID = bytes.fromhex("70a08231"), bytes.fromhex("00fdd58e")
_OWNER_OF_ID = bytes.fromhex("6352211e")
_SUPPORTS = bytes.fromhex("01ffc9a7")
_IS_ERC721, _IS_ERC1155 = (
    _SUPPORTS + bytes.fromhex(interface).ljust(32, b"\0") for interface in ("80ac58cd", "d9b67a26")
)
_QUESTIONS = (_SYMBOL, _NAME, _DECIMALS, _IS_ERC721, _IS_ERC1155)

T = TypeVar("T")
Traced = dict[int, Sequence[TracedTransaction]]

_text = msgspec.json.Decoder(str).decode


class EvmWalletNode:
    """See `gapless.chains.movements.WalletNode`."""

    finds_events = True

    def __init__(self, pool: Pool, network: EvmNetwork) -> None:
        self._pool = pool
        self._logs = LogRanges(pool, _MOST_BLOCKS)
        self._wrapping = () if network.wrapped is None else (DEPOSIT, WITHDRAWAL)
        self.signed_since = network.signed_since

    async def hits(self, span: Span, addresses: Sequence[bytes]) -> Hits:
        heights, is_agreed = set[int](), True
        for group in _groups(sorted({*addresses}), _MOST_ADDRESSES):
            found = await self._logs.heights(span, self._selections(group))
            heights |= found.heights
            is_agreed &= found.is_agreed
        return Hits(heights, is_agreed)

    async def account(self, address: bytes, height: int) -> Account | None:
        at = ("0x" + address.hex(), hex(height))
        methods = ("eth_getBalance", "eth_getTransactionCount", "eth_getCode")
        answers = await self._remembered([Call(method, at, height) for method in methods])
        if answers is None or None in answers:
            return None
        balance, nonce, code = (each or b"" for each in answers)
        return Account(int.from_bytes(balance, "big"), int.from_bytes(nonce, "big"), bool(code))

    async def snapshots(self, wanted: Sequence[AccountAt]) -> Snapshots | None:
        methods = ("eth_getBalance", "eth_getTransactionCount")
        there = [it for it in wanted if it.height >= 0]
        calls = [_about(method, it) for it in there for method in methods]
        try:
            answers = await self._pool.ask(calls) if calls else None
        except (MissingHistory, Refused):
            return None
        numbers = [] if answers is None else _numbers(answers.results)
        if numbers is None:
            return None
        is_agreed = answers is None or await self._agrees(calls, answers, _numbers)
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        known = dict(zip(there, (Snapshot(*each) for each in pairs), strict=True))
        return Snapshots([known.get(it, Snapshot(0, 0)) for it in wanted], is_agreed)

    async def with_code(self, wanted: Sequence[AccountAt]) -> Coded | None:
        there = [it for it in wanted if it.height >= 0]
        if not there:
            return Coded(frozenset(), is_agreed=True)
        calls = [_about("eth_getCode", it) for it in there]
        try:
            answers = await self._pool.ask(calls)
        except (MissingHistory, Refused):
            return None
        is_agreed = await self._agrees(calls, answers, _have_code)
        its = zip(there, _have_code(answers.results), strict=True)
        return Coded(frozenset(it for it, has_code in its if has_code), is_agreed)

    async def traces(self, heights: Sequence[int]) -> Traces | None:
        wanted = [height for height in heights if height]  # the first block has no transactions
        first: Traced = {height: [] for height in heights}
        if not wanted:
            return Traces(first, is_agreed=True)
        found = await self._traced(wanted)
        if found is None:
            return None
        blocks, endpoint = found
        others = self._pool.ready - {endpoint}
        second = None
        if others:
            try:
                second = await self._traced(wanted, self._pool.names - others, OPINION_PATIENCE)
            except SourceError:
                second = None
        is_agreed = second is not None and second[1] in others and second[0] == blocks
        return Traces({**first, **blocks}, is_agreed)

    async def _traced(
        self, heights: Sequence[int], avoid: Collection[str] = (), patience: float | None = None
    ) -> tuple[Traced, str] | None:
        """Return the transactions of blocks, and which endpoint traced them; None if none can."""
        for method, *options in ((TRACE_BLOCK,), (DEBUG_TRACE_BLOCK, TRACER)):
            calls = [Call(method, (hex(height), *options), height) for height in heights]
            try:
                answers = await self._pool.ask(calls, avoid=avoid, patience=patience)
            except (MissingHistory, Refused):
                continue
            read = (read_traces(method, each) for each in answers.results)
            return dict(zip(heights, read, strict=True)), answers.endpoint
        return None

    async def _agrees(
        self, calls: Sequence[Call], first: Answers, read: Callable[[Sequence[Raw]], object]
    ) -> bool:
        """Return whether another endpoint answers the same; False if there is none that does."""
        others = self._pool.ready - {first.endpoint}
        if not others:
            return False
        avoid = self._pool.names - others
        try:
            second = await self._pool.ask(calls, avoid=avoid, patience=OPINION_PATIENCE)
            return second.endpoint in others and read(second.results) == read(first.results)
        except SourceError:
            return False

    async def token_balances(
        self, tokens: Sequence[tuple[bytes, int | None]], address: bytes, height: int
    ) -> list[int | None]:
        found: list[int | None] = []
        for group in _groups(tokens, _MOST_TOKENS):
            questions = [_holding(token_id, address) for _, token_id in group]
            calls = [
                _call(token, question, height)
                for (token, _), its in zip(group, questions, strict=True)
                for question in its
            ]
            left = iter(await self._remembered(calls) or [None] * len(calls))
            found += (_held([*islice(left, len(its))], address) for its in questions)
        return found

    async def token_facts(self, tokens: Sequence[bytes]) -> dict[bytes, TokenFacts]:
        found: dict[bytes, TokenFacts] = {}
        for group in _groups([*dict.fromkeys(tokens)], _MOST_TOKENS):
            calls = [_call(token, question) for token in group for question in _QUESTIONS]
            answers = await self._remembered(calls) or [None] * len(calls)
            for token, its in zip(group, _groups(answers, len(_QUESTIONS)), strict=True):
                if (facts := read_facts(its, "ERC")) is not None:
                    found[token] = facts
        return found

    def _selections(self, addresses: Sequence[bytes]) -> list[Topics]:
        parties = [_hex(PADDING + each) for each in addresses]
        tokens, multi_tokens = _hexes(TRANSFER), _hexes(SINGLE, BATCH)
        return [
            [tokens + _hexes(*self._wrapping), parties],
            [tokens + multi_tokens, None, parties],
            [multi_tokens, None, None, parties],
        ]

    async def _remembered(self, calls: Sequence[Call]) -> list[bytes | None] | None:
        """Return what each call returned; None if no endpoint has the state of that block."""
        try:
            answers = await self._pool.ask(calls)
        except (MissingHistory, Refused):
            return None
        return [_octets(each) for each in answers.results]


def _call(contract: bytes, data: bytes, height: int | None = None) -> Call:
    at = _LATEST if height is None else hex(height)
    return Call("eth_call", ({"to": _hex(contract), "data": _hex(data)}, at), height)


def _holding(token_id: int | None, address: bytes) -> tuple[bytes, ...]:
    """Return what to ask a contract about a holding; who owns an id is asked in two ways."""
    owner = word_of(address)
    if token_id is None:
        return (_BALANCE + owner,)
    which = word_of(token_id)
    return _BALANCE_OF_ID + owner + which, _OWNER_OF_ID + which


def _held(answers: Sequence[bytes | None], address: bytes) -> int | None:
    """Return how much of a token an address holds; None if the contract does not say."""
    balance = read_number(answers[0])
    holder = read_address(answers[1]) if len(answers) > 1 else None
    return int(holder == address) if balance is None and holder is not None else balance


def _about(method: str, it: AccountAt) -> Call:
    return Call(method, (_hex(it.address), hex(it.height)), it.height)


def _numbers(answers: Sequence[Raw]) -> list[int] | None:
    """Return numbers; None if one is null, which some nodes say of blocks that they forgot."""
    found = [*map(_octets, answers)]
    return None if None in found else [int.from_bytes(each or b"", "big") for each in found]


def _have_code(answers: Sequence[Raw]) -> list[bool]:
    """Return which accounts have code, or may have some: a node that forgot it says null."""
    return [each != b"" for each in map(_octets, answers)]


def _octets(answer: Raw) -> bytes | None:
    """Return the bytes of a hex answer; None if it is null."""
    try:
        digits = _text(answer).removeprefix("0x")
    except UNREADABLE:
        return None
    try:
        return bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))
    except ValueError as error:
        raise BadAnswer(f"an endpoint returned `{digits[:20]}` instead of hex") from error


def _groups(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _hexes(*items: bytes) -> list[str]:
    return [*map(_hex, items)]
