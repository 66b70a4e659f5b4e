"""How toy nodes are queried: `toy_chain`, `toy_height` and `toy_block`."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import msgspec

from gapless.chains.family import BlockHeader
from gapless.core.errors import BadAnswer, MissingHistory, SourceError
from gapless.core.ranges import Span
from gapless.providers import JSON_RPC, Call, Pool
from tests.toychain.blocks import Block


def _number(_: object, answer: msgspec.Raw) -> int | None:
    return int(found) if (found := bytes(answer)).isdigit() else None


class ToyQueries:
    chain, head, wire, subscription = Call("toy_chain"), Call("toy_height"), JSON_RPC, None
    chain_id = height = _number

    def about(self, call: Call, height: int) -> Call | None:
        return Call(call.method, (height,), height)


QUERIES = ToyQueries()


class RawBlock(NamedTuple):
    height: int
    endpoint: str
    answer: msgspec.Raw

    def parsed(self) -> Block:
        try:
            return msgspec.json.decode(self.answer, type=Block)
        except msgspec.MsgspecError as error:
            raise BadAnswer(f"this is not a toy block: {error}") from error


Headers = dict[int, BlockHeader]


@dataclass(frozen=True)
class ToySource:
    _pool: Pool

    @property
    def unit(self) -> int:
        return self._pool.room([Call("toy_block", (0,), 0)])

    async def fetch(
        self, span: Span, *, avoid: Collection[str] = (), patience: float | None = None
    ) -> Sequence[RawBlock]:
        heights = range(span.first, span.last + 1)
        calls = [Call("toy_block", (height,), height) for height in heights]
        answers = await self._pool.ask(calls, avoid=avoid, patience=patience)
        for height, answer in zip(heights, answers.results, strict=True):
            if bytes(answer) == b"null":
                raise MissingHistory(f"there is no block {height}", height=height)
        return [*map(RawBlock, heights, repeat(answers.endpoint), answers.results)]

    async def head(self) -> int:
        return QUERIES.height((await self._pool.ask([QUERIES.head])).results[0]) or 0

    async def finalized(self) -> int | None:
        return None

    async def block_hash(self, height: int) -> bytes:
        return (await self.fetch(Span(height, height)))[0].parsed().seal

    async def latest(self, endpoint: str, patience: float) -> tuple[BlockHeader, None] | None:
        found = await self.headers(endpoint, [await self.head()], patience)
        return next(((each, None) for each in found.values()), None)

    async def headers(self, endpoint: str, heights: Sequence[int], patience: float) -> Headers:
        others, found = self._pool.names - {endpoint}, Headers()
        with suppress(SourceError):
            for at in heights:
                (raw,) = await self.fetch(Span(at, at), avoid=others, patience=patience)
                it = BlockHeader(at, (block := raw.parsed()).seal, block.previous)
                found |= {at: it} if raw.endpoint == endpoint else {}
        return found

    async def hashes(self, span: Span) -> dict[int, bytes]:
        found = await self.fetch(Span(span.first, min(span.last, await self.head())))
        return {it.height: it.parsed().seal for it in found}
