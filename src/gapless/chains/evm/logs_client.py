"""Logs by range: all of them, for endpoints that do not offer receipts, or those of some topics.

The range of one `eth_getLogs` is learned: a limit in blocks is remembered for a while, while a
limit in logs only reduces the range for now. A suggested range that is not smaller than the one
that failed is ignored; the range is halved instead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw, Struct

from gapless.chains.evm.decode.structs import UNREADABLE
from gapless.core.errors import BadAnswer, SourceError
from gapless.core.ranges import Span
from gapless.providers import Answers, Call, Pool, Refused
from gapless.providers.limits import Cap
from gapless.providers.provider_errors import Reaction, Refusal

OPINION_PATIENCE = 10.0  # seconds for a second endpoint; after that there is no second opinion
_FIRST, _MOST = 100, 10_000  # blocks

Topics = Sequence[Sequence[str] | None]
"""What the topics at each position may be; None for any."""
_ANY: Topics = ()


class _Position(Struct, gc=False, rename="camel"):
    block_number: str


_logs = msgspec.json.Decoder(list[Raw]).decode
_position = msgspec.json.Decoder(_Position).decode


@dataclass(frozen=True)
class Logs:
    """Each block's logs as a JSON list, and the endpoints that returned them."""

    by_height: dict[int, Raw]
    endpoints: frozenset[str]


@dataclass(frozen=True)
class LogHeights:
    """The blocks with logs of some topics, and whether two endpoints found the same ones."""

    heights: frozenset[int]
    is_agreed: bool


@dataclass(frozen=True)
class _Part:
    """The logs of a part of a span, with their heights, from one endpoint."""

    span: Span
    logs: list[tuple[int, Raw]]
    endpoint: str

    @property
    def heights(self) -> frozenset[int]:
        return frozenset(height for height, _ in self.logs)


class LogRanges:
    """Fetches logs of a range of blocks, in as few requests as the endpoints allow."""

    def __init__(self, pool: Pool, most: int = _MOST) -> None:
        """`most` is how many blocks to ask for at once."""
        self._pool = pool
        self._step = Cap(_FIRST, most)

    async def by_block(
        self, span: Span, avoid: Collection[str], patience: float | None = None
    ) -> Logs:
        """Return the logs of every block of a span; an empty list for a block without logs."""
        endpoints = set[str]()
        found: dict[int, list[bytes]] = {height: [] for height in range(span.first, span.last + 1)}
        async for part in self._parts(span, [_ANY], avoid, patience):
            endpoints.add(part.endpoint)
            for height, log in part.logs:
                found[height].append(bytes(log))
        lists = {height: Raw(b"[" + b",".join(logs) + b"]") for height, logs in found.items()}
        return Logs(lists, frozenset(endpoints))

    async def heights(self, span: Span, selections: Sequence[Topics]) -> LogHeights:
        """Return the blocks with logs of any of the selections, which are asked for at once.

        Each part of the span is also asked of a second endpoint, until one part has no answer.
        """
        heights, is_agreed, is_answered = set[int](), True, True
        async for part in self._parts(span, selections):
            opinion = await self._opinion(part, selections) if is_answered else None
            is_answered = opinion is not None
            is_agreed &= opinion == part.heights
            heights |= part.heights | (opinion or frozenset())
        return LogHeights(frozenset(heights), is_agreed)

    async def _opinion(self, part: _Part, selections: Sequence[Topics]) -> frozenset[int] | None:
        """Return the blocks that another endpoint finds in a part; None if there is none."""
        others = self._pool.ready - {part.endpoint}
        if not others:
            return None
        heights, avoid = set[int](), self._pool.names - others
        parts = self._parts(part.span, selections, avoid, OPINION_PATIENCE)
        try:
            async with aclosing(parts) as found:
                async for each in found:
                    if each.endpoint not in others:
                        return None
                    heights |= each.heights
        except SourceError:
            return None
        return frozenset(heights)

    async def _parts(
        self,
        span: Span,
        selections: Sequence[Topics],
        avoid: Collection[str] = (),
        patience: float | None = None,
    ) -> AsyncGenerator[_Part, None]:
        """Yield the logs of a span, part by part."""
        first = span.first
        while first <= span.last:
            part = Span(first, min(span.last, first + self._step.value - 1))
            calls = [Call("eth_getLogs", [_filter(part, it)], part.first) for it in selections]
            answers = await self._ask(part, calls, avoid, patience)
            if answers is not None:
                logs = [found for result in answers.results for found in _within(part, result)]
                yield _Part(part, logs, answers.endpoint)
                first = part.last + 1

    async def _ask(
        self, part: Span, calls: Sequence[Call], avoid: Collection[str], patience: float | None
    ) -> Answers | None:
        """Return the logs of a part; None if the part was too large."""
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


def _filter(part: Span, topics: Topics) -> dict[str, Any]:
    found: dict[str, Any] = {"fromBlock": hex(part.first), "toBlock": hex(part.last)}
    return {**found, "topics": topics} if topics else found


def _within(part: Span, answer: Raw) -> list[tuple[int, Raw]]:
    """Return the logs of an answer with their heights, all of which must be in the part."""
    found = [(_height(log), log) for log in _listed(answer)]
    for height, _ in found:
        if not part.first <= height <= part.last:
            raise BadAnswer(f"a log of block {height} is among the logs of {part}")
    return found


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
