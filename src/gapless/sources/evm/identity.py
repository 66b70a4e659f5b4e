"""Whether endpoints are on the right chain, and on the same one: asked before anything is stored.

A chain id is only a number: test networks, forks and private chains share it. So each endpoint is
asked for the highest block whose hash is known (see `core.anchors`): blocks name their parents, so
it speaks for all lower ones of the same chain. A hash that a person gives may be of another chain,
or mistyped, so each of those is asked for as well. Several endpoints are also asked for the latest
final block, and one that has not got so far for its first. A contradiction is asked about again
before it is believed: one wrong answer is not a wrong chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from gapless.core.errors import SourceError, UsageError
from gapless.core.remedies import CheckAnchor
from gapless.sources.evm.structs import UNREADABLE, is_given
from gapless.sources.rpc import Call, Pool
from gapless.sources.together import together

_TIMES = 3  # that a contradiction must be repeated
_PATIENCE = 3.0  # seconds; an endpoint that does not answer is found out later


class _Header(Struct, gc=False):
    hash: str
    number: str


_header = msgspec.json.Decoder(_Header).decode


@dataclass(frozen=True)
class Named:
    """A hash that an endpoint gives for a height."""

    endpoint: str
    height: int
    hash: bytes


async def refuse_wrong_chain(
    pool: Pool,
    known: Mapping[int, bytes],
    final: int,
    network: str,
    trusted: Iterable[int] = (),
) -> int | None:
    """Raises `UsageError` if an endpoint has another block than is known, or than the others.

    Of the known blocks, the highest is compared, and those at the trusted heights. Returns the
    height of the highest, if any endpoint has it.
    """
    highest = max((height for height in known if height <= final), default=None)
    heights = {height for height in (highest, *trusted) if height is not None and height <= final}
    several = len(pool.names) > 1
    for times in range(1, _TIMES + 1):
        named = await _named(pool, heights | {final} if several else heights)
        if several and len({it.endpoint for it in named if it.height == final}) < len(pool.names):
            named += await _named(pool, [0])
        wrong = next((it for it in named if known.get(it.height, it.hash) != it.hash), None)
        pair = _disagreement(named)
        if wrong is None and pair is None:
            return highest if any(it.height == highest for it in named) else None
        if times < _TIMES:
            continue
        if wrong is not None:
            raise UsageError(
                f"endpoint `{wrong.endpoint}` is not on the chain `{network}`: its block"
                f" {wrong.height:,} is 0x{wrong.hash.hex()}, not 0x{known[wrong.height].hex()}",
                remedy=CheckAnchor(),
            )
        assert pair is not None
        one, other = pair
        raise UsageError(
            f"endpoints `{one.endpoint}` and `{other.endpoint}` are on different chains: block"
            f" {one.height:,} is 0x{one.hash.hex()} at one and 0x{other.hash.hex()} at the other",
            hint="leave out the endpoint that is on the wrong chain",
        )
    raise AssertionError("the last look returns or raises")


async def _named(pool: Pool, heights: Iterable[int]) -> list[Named]:
    """What each endpoint says; one that has no answer, or no such block, says nothing."""
    wanted = sorted(heights)
    answers = await together([_of_endpoint(pool, name, wanted) for name in sorted(pool.names)])
    return [it for each in answers for it in each]


async def _of_endpoint(pool: Pool, name: str, heights: list[int]) -> list[Named]:
    found: list[Named] = []
    for height in heights:
        call = Call("eth_getBlockByNumber", (hex(height), False), height)
        try:
            answers = await pool.ask([call], avoid=pool.names - {name}, patience=_PATIENCE)
            (raw,) = answers.results
            if answers.endpoint != name or not is_given(raw):
                continue
            header = _header(raw)
            if int(header.number, 16) == height:
                found.append(Named(name, height, bytes.fromhex(header.hash.removeprefix("0x"))))
        except (SourceError, ValueError, *UNREADABLE):
            continue
    return found


def _disagreement(named: list[Named]) -> tuple[Named, Named] | None:
    first: dict[int, Named] = {}
    for each in named:
        known = first.setdefault(each.height, each)
        if known.hash != each.hash:
            return known, each
    return None
