"""Whether endpoints are on the right chain, and on the same one: asked before anything is stored.

A chain id is only a number: test networks, forks and private chains share it. So each endpoint is
asked for the highest block whose hash is known (see `core.anchors`): blocks name their parents, so
it speaks for all lower ones of the same chain. A hash that a person gives may be of another chain,
or mistyped, so each of those is asked for as well. Several endpoints are also asked for the latest
final block, and one that has not got so far for its first. A contradiction is asked about again
before it is believed: one wrong answer is not a wrong chain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gapless.chains.family import Source
from gapless.core.errors import UsageError
from gapless.core.remedies import CheckAnchor
from gapless.providers.gather import gather_all

_TIMES = 3  # that a contradiction must be repeated
_PATIENCE = 3.0  # seconds; an endpoint that does not answer is found out later


@dataclass(frozen=True)
class Named:
    """A hash that an endpoint gives for a height."""

    endpoint: str
    height: int
    hash: bytes


async def refuse_wrong_chain(
    source: Source,
    endpoints: Collection[str],
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
    several = len(endpoints) > 1
    for times in range(1, _TIMES + 1):
        named = await _named(source, endpoints, heights | {final} if several else heights)
        if several and len({it.endpoint for it in named if it.height == final}) < len(endpoints):
            named += await _named(source, endpoints, [0])
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


async def _named(source: Source, endpoints: Collection[str], heights: Iterable[int]) -> list[Named]:
    """What each endpoint says; one that has no answer, or no such block, says nothing."""
    wanted = sorted(heights)

    async def of(endpoint: str) -> list[Named]:
        found = []
        for height in wanted:
            hash_ = await source.hash_from(endpoint, height, _PATIENCE)
            if hash_ is not None:
                found.append(Named(endpoint, height, hash_))
        return found

    answers = await gather_all([of(name) for name in sorted(endpoints)])
    return [it for each in answers for it in each]


def _disagreement(named: list[Named]) -> tuple[Named, Named] | None:
    first: dict[int, Named] = {}
    for each in named:
        known = first.setdefault(each.height, each)
        if known.hash != each.hash:
            return known, each
    return None
