"""Logs by range, for endpoints that do not offer receipts.

The range of one `eth_getLogs` is learned: a limit in blocks is remembered for a while, while a
limit in logs only reduces the range for now. A suggested range that is not smaller than the one
that failed is ignored; the range is halved instead.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec
from msgspec import Raw, Struct

from gapless.chains.evm.decode.structs import UNREADABLE
from gapless.core.errors import BadAnswer
from gapless.core.ranges import Span
from gapless.providers import Answers, Call, Pool, Refused
from gapless.providers.limits import Cap
from gapless.providers.provider_errors import Reaction, Refusal

_FIRST, _MOST = 100, 10_000  # blocks


class _Position(Struct, gc=False, rename="camel"):
    block_number: str


_logs = msgspec.json.Decoder(list[Raw]).decode
_position = msgspec.json.Decoder(_Position).decode


@dataclass(frozen=True)
class Logs:
    """Each block's logs as a JSON list, and the endpoints that returned them."""

    by_height: dict[int, Raw]
    endpoints: frozenset[str]


class LogRanges:
    """Fetches all logs of a range of blocks, in as few requests as the endpoints allow."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._step = Cap(_FIRST, _MOST)

    async def by_block(
        self, span: Span, avoid: Collection[str], patience: float | None = None
    ) -> Logs:
        """Return the logs of every block of a span; an empty list for a block without logs."""
        endpoints = set[str]()
        found: dict[int, list[bytes]] = {height: [] for height in range(span.first, span.last + 1)}
        first = span.first
        while first <= span.last:
            part = Span(first, min(span.last, first + self._step.value - 1))
            answers = await self._ask(part, avoid, patience)
            if answers is None:
                continue
            endpoints.add(answers.endpoint)
            for log in _listed(answers.results[0]):
                height = _height(log)
                if not part.first <= height <= part.last:
                    raise BadAnswer(f"a log of block {height} is among the logs of {part}")
                found[height].append(bytes(log))
            first = part.last + 1
        lists = {height: Raw(b"[" + b",".join(logs) + b"]") for height, logs in found.items()}
        return Logs(lists, frozenset(endpoints))

    async def _ask(
        self, part: Span, avoid: Collection[str], patience: float | None
    ) -> Answers | None:
        """Return the logs of a part; None if the part was too large."""
        calls = [Call("eth_getLogs", [_filter(part)], part.first)]
        try:
            answers = await self._pool.ask(calls, avoid=avoid, patience=patience)
        except Refused as refused:
            if refused.refusal.reaction is not Reaction.SMALLER_RANGE or part.size == 1:
                raise
            self._shrink(part, refused.refusal)
            return None
        self._step.confirm(part.size, self._pool.system.clock())
        return answers

    def _shrink(self, part: Span, refusal: Refusal) -> None:
        if refusal.most is not None and refusal.most < part.size:
            self._step.refused(part.size, self._pool.system.clock(), refusal.most)
            return
        fits = part.size // 2
        if refusal.suggested is not None:
            low, high = refusal.suggested
            if low == part.first and high < part.last:
                fits = high - low + 1
        self._step.shrink(2 * fits)


def _filter(part: Span) -> dict[str, str]:
    return {"fromBlock": hex(part.first), "toBlock": hex(part.last)}


def _listed(answer: Raw) -> list[Raw]:
    try:
        return _logs(answer)
    except UNREADABLE as error:
        raise BadAnswer("the answer to `eth_getLogs` is not a list") from error


def _height(log: Raw) -> int:
    try:
        return int(_position(log).block_number, 16)
    except (*UNREADABLE, ValueError) as error:
        raise BadAnswer("a log has no valid block number") from error
