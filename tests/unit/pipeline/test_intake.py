"""Inconsistent blocks are all requested again, together, from another endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import Raw

from gapless.chains import Level, find_network
from gapless.chains.evm.family import EVM
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.family import BlockHeader, Wanted
from gapless.core.errors import PermanentError, Unavailable
from gapless.core.ranges import Span
from gapless.devnode import Chain, Parameters, simulated
from gapless.pipeline.block_reader import OPINIONS, BlockReader
from tests.evm import checks_of

SPAN = Span(1, 20)
LIES = (3, 4, 9, 15)


class Doubtful:
    """A source that returns a neighbour's receipts for some blocks, a given number of times."""

    unit = 100

    def __init__(self, chain: Chain, lies: Collection[int], times: int = 1) -> None:
        self.asked: list[tuple[Span, frozenset[str]]] = []
        self.at_once = self.most_at_once = 0
        self._chain = chain
        self._lies = dict.fromkeys(lies, times)

    async def head(self) -> int:
        return self._chain.head

    async def finalized(self) -> int | None:
        return None

    async def block_hash(self, height: int) -> bytes:
        return bytes.fromhex(self._chain.hash(height)[2:])

    async def latest(self, endpoint: str, patience: float) -> None:
        return None

    async def headers(
        self, endpoint: str, heights: Sequence[int], patience: float
    ) -> dict[int, BlockHeader]:
        return {}

    async def hashes(self, span: Span) -> dict[int, bytes]:
        return {
            height: await self.block_hash(height) for height in range(span.first, span.last + 1)
        }

    async def fetch(self, span: Span, *, avoid: Collection[str] = ()) -> list[EvmRawBlock]:
        self.asked.append((span, frozenset(avoid)))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            return [self._block(height) for height in range(span.first, span.last + 1)]
        finally:
            self.at_once -= 1

    def _block(self, height: int) -> EvmRawBlock:
        lies = self._lies.get(height, 0) > 0
        if lies:
            self._lies[height] -= 1
        receipts = Raw(self._chain.receipts(height + lies))
        return EvmRawBlock(height, Raw(self._chain.block(height)), receipts, None, "a")


class Unwilling(Doubtful):
    """A source that does not answer a second time about a block, while the others wait."""

    async def fetch(self, span: Span, *, avoid: Collection[str] = ()) -> list[EvmRawBlock]:
        if avoid and span.first == 9:
            raise Unavailable("gone")
        if avoid:
            self.at_once += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.at_once -= 1
        return await super().fetch(span, avoid=avoid)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return simulated(Parameters(blocks=30, txs=4, seed=3), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def intake_of(
    source: Doubtful, chain: Chain, threads: ThreadPoolExecutor, **known: Any
) -> BlockReader:
    datasets = frozenset({"blocks", "transactions", "logs"})
    wanted = Wanted(
        find_network("custom"), chain.chain_id, checks_of(Level.AUTO), datasets, **known
    )
    return BlockReader(EVM, source, wanted, threads)


async def test_all_inconsistent_blocks_are_requested_again_together(
    chain: Chain, threads: ThreadPoolExecutor
) -> None:
    source = Doubtful(chain, LIES)
    intake = intake_of(source, chain, threads)
    unit = await intake.fetch(SPAN)
    again = [Span(3, 4), Span(9, 9), Span(15, 15)]
    assert source.asked == [(SPAN, frozenset()), *((span, frozenset({"a"})) for span in again)]
    assert source.most_at_once == len(again)
    assert unit.hashes == [await source.block_hash(height) for height in range(1, 21)]
    assert intake.refused == {"a": len(LIES)}


async def test_if_one_request_fails_no_other_is_left_running(
    chain: Chain, threads: ThreadPoolExecutor
) -> None:
    source = Unwilling(chain, LIES)
    with pytest.raises(Unavailable, match="gone"):
        await intake_of(source, chain, threads).fetch(SPAN)
    assert source.at_once == 0


async def test_second_opinions_are_limited(
    chain: Chain, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.pipeline.block_reader.delay", waits := Waits())
    source = Doubtful(chain, [7], times=OPINIONS)
    with pytest.raises(PermanentError, match="block 7 is in quarantine") as refused:
        await intake_of(source, chain, threads).fetch(SPAN)
    assert refused.value.partition == 7
    assert len(source.asked) == OPINIONS
    assert waits.asked_for == [1, 2, 3, 4], "the second opinion does not wait"


async def test_a_block_other_than_the_known_one_is_refused(
    chain: Chain, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it is consistent: the node may have changed its chain since it was asked."""
    monkeypatch.setattr("gapless.pipeline.block_reader.delay", Waits())
    source = Doubtful(chain, ())
    known = {5: await source.block_hash(5), 7: await source.block_hash(8)}
    with pytest.raises(PermanentError, match=r"block 7 .* fails the check `anchor`") as refused:
        await intake_of(source, chain, threads, anchors=known).fetch(SPAN)
    assert refused.value.partition == 7


class Waits:
    """Waits no time, and records the delays."""

    def __init__(self) -> None:
        self.asked_for: list[int] = []

    def __call__(self, failures: int, chance: float) -> float:
        self.asked_for.append(failures)
        return 0.0
