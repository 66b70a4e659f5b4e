"""Processes that die at any moment, and processes that write at the same time."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

from gapless.chains.opening import open_sink
from gapless.sinks import Access
from gapless.sinks.parquet.manifest import Manifest
from tests.conformance.sink.stage import CHAIN_ID, batch, examine, ranges
from tests.conformance.sink.writer import writer

DEATHS = 12
FEWER = 6  # where a process takes long to open the sink


async def test_a_killed_writer_leaves_only_complete_changes(target: str) -> None:
    chance, highest = random.Random(7), 0
    for death in range(FEWER if target.endswith(".duckdb") else DEATHS):
        with writer(target, death) as killed:
            assert killed.said() == "open"
            for _ in range(chance.randrange(1, 4)):
                highest = int(killed.said())
            killed.die(within=chance.random() * 0.03)  # usually in the middle of a change
        if target.endswith("/"):
            _look_at_the_folder(Path(target), settled=False)
        async with await open_sink(target, Access.READ) as sink:
            await examine(sink)
            assert await sink.highest_fence() >= highest, "confirmed changes are stored"
            stored = await sink.stored(CHAIN_ID)
        async with await open_sink(target, Access.WRITE) as sink:
            await examine(sink)
            assert await sink.stored(CHAIN_ID) == stored
            assert await sink.strays() == []
        if target.endswith("/"):
            _look_at_the_folder(Path(target), settled=True)


async def test_a_surviving_writer_continues(shared_target: str) -> None:
    async with await open_sink(shared_target) as survivor:
        for death in range(3):
            with writer(shared_target, 100 + death) as killed:
                killed.said()
                killed.said()
            await examine(survivor)
        await survivor.write(batch(0, 40), 2**62)
        await examine(survivor)
        assert await ranges(survivor) == [(0, 40, 2**62)]


async def test_concurrent_writers_do_not_harm_each_other(shared_target: str) -> None:
    answers = []
    with (
        writer(shared_target, 1) as one,
        writer(shared_target, 2) as two,
        writer(shared_target, 3) as three,
    ):
        for _ in range(8):
            answers += [process.said() for process in (one, two, three)]
    refused = [answer for answer in answers if answer.startswith("refused")]
    assert all("were changed under fence" in answer for answer in refused)
    assert len(answers) - len(refused) > len(answers) / 3
    async with await open_sink(shared_target, Access.READ) as sink:
        await examine(sink)


def _look_at_the_folder(folder: Path, *, settled: bool) -> None:
    """A person who lists the files sees those of the manifest, and no partial ones."""
    manifest = msgspec.json.decode((folder / "_gapless/manifest.json").read_bytes(), type=Manifest)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}
    if settled:
        assert found == manifest.names()
        assert list(folder.rglob("*.staged")) == []
    for name in found:
        assert (folder / name).stat().st_size > 0
