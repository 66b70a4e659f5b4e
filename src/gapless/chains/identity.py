"""Check that all endpoints are on the right chain, and on the same one, before storing anything.

A chain id is only a number: test networks, forks and private chains share it. So each endpoint is
asked for the highest block whose hash is known (see `core.anchors`); since blocks contain their
parent's hash, it confirms all lower ones of the same chain. A hash that a user gives may be of
another chain, or mistyped, so each of those is compared as well. Several endpoints are also asked
for the latest final block, and if one of them lacks it, for block 0. A contradiction must repeat
before it is reported, because one wrong answer does not mean a wrong chain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gapless.chains.family import BlockHeader, Source
from gapless.core.errors import UsageError
from gapless.core.remedies import CheckAnchor
from gapless.providers.gather import gather_all

_TIMES = 3  # how often a contradiction must occur
_PATIENCE = 3.0  # seconds; an endpoint that does not answer is detected later


@dataclass(frozen=True)
class ReportedHash:
    """The hash that an endpoint reports for a height."""

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
    """Raise `UsageError` if an endpoint's block differs from a known one or from the others.

    Compare the highest known block and those at the trusted heights. Return the height of the
    highest, if any endpoint has it.
    """
    highest = max((height for height in known if height <= final), default=None)
    heights = {height for height in (highest, *trusted) if height is not None and height <= final}
    several = len(endpoints) > 1
    for times in range(1, _TIMES + 1):
        reported = await _ask_hashes(source, endpoints, heights | {final} if several else heights)
        if several and len({it.endpoint for it in reported if it.height == final}) < len(endpoints):
            reported += await _ask_hashes(source, endpoints, [0])
        wrong = next((it for it in reported if known.get(it.height, it.hash) != it.hash), None)
        pair = _disagreement(reported)
        if wrong is None and pair is None:
            return highest if any(it.height == highest for it in reported) else None
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
            hint="remove the endpoint that is on the wrong chain",
        )
    raise AssertionError("the last attempt returns or raises")


async def _ask_hashes(
    source: Source, endpoints: Collection[str], heights: Iterable[int]
) -> list[ReportedHash]:
    """Ask each endpoint for its hashes; those without an answer or the block are left out."""
    wanted = sorted(heights)

    async def of(endpoint: str) -> list[ReportedHash]:
        found: dict[int, BlockHeader] = {}
        for height in wanted:  # one by one: it may have pruned some of them
            found |= await source.headers(endpoint, [height], _PATIENCE)
        return [ReportedHash(endpoint, height, each.hash) for height, each in found.items()]

    answers = await gather_all([of(name) for name in sorted(endpoints)])
    return [it for each in answers for it in each]


def _disagreement(reported: list[ReportedHash]) -> tuple[ReportedHash, ReportedHash] | None:
    first: dict[int, ReportedHash] = {}
    for each in reported:
        known = first.setdefault(each.height, each)
        if known.hash != each.hash:
            return known, each
    return None
