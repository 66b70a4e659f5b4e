"""Publishers beside a worker: they wait for their server, take over, and publish again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gapless.chains.opening import open_sink
from gapless.config import Config, PublishSettings, SinkTarget
from gapless.core.errors import Incomplete
from gapless.core.ranges import Span
from gapless.publishers import service
from gapless.publishers.publication import publication
from gapless.publishers.service import publishing
from gapless.publishers.status import publication_status, replay, unregister
from gapless.sinks import Sink
from gapless.views.publishers import publisher_view
from tests.conformance.publisher.consumer import replayed
from tests.conformance.publisher.stage import STREAM, RedisStage
from tests.conformance.sink.stage import CHAIN_ID, HEAD, batch
from tests.redis_server import RedisServer
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {
        "_POLL": 0.02,
        "_STANDBY": 0.05,
        "_RETRY": 0.05,
        "_TIDY_EVERY": 0,
    }.items():
        monkeypatch.setattr(service, name, seconds)


@pytest.fixture
async def sink(tmp_path: Path) -> AsyncIterator[Sink]:
    async with await open_sink(f"{tmp_path}/store.db") as opened:
        await opened.write(batch(0, 20), 5)
        yield opened


def configured(tmp_path: Path, url: str) -> Config:
    settings = PublishSettings(
        url=url, network=str(CHAIN_ID), sink="store", stream=STREAM, trim=1_000_000
    )
    sinks = {"store": SinkTarget(f"{tmp_path}/store.db")}
    return Config(sinks=sinks, publish={"events": settings})


async def test_a_server_that_is_down_is_waited_for(tmp_path: Path, sink: Sink) -> None:
    server = RedisServer(durable=True)
    config = configured(tmp_path, server.url)
    try:
        async with publishing(config) as running:
            (loop,) = running.loops
            await eventually(lambda: loop.status.trouble is not None)
            assert (await publication_status(publication(config, "events"))).phase == "unreachable"
            server.start()
            await eventually(lambda: loop.status.complete_to == 20)
            assert (loop.status.leads, loop.status.trouble) == (True, None)
            server.kill()
            await sink.write(batch(21, HEAD), 6)
            await eventually(lambda: loop.status.trouble is not None)
            server.start()
            await eventually(lambda: loop.status.complete_to == HEAD)
        stage = RedisStage(server.url)
        assert [*sorted(replayed(await stage.entries()))] == [*range(HEAD + 1)]
        await stage.close()
    finally:
        server.close()


async def test_another_process_takes_over(
    tmp_path: Path, sink: Sink, redis_stage: RedisStage
) -> None:
    config = configured(tmp_path, redis_stage.url)
    async with publishing(config) as first:
        await eventually(lambda: first.loops[0].status.complete_to == 20)
        async with publishing(config) as second:
            await eventually(lambda: second.loops[0].status.trouble is None)
            await eventually(lambda: not second.loops[0].status.leads)
            first.stop()
            await first.ended()
            await sink.write(batch(21, 25), 6)
            await eventually(lambda: second.loops[0].status.leads)
            await eventually(lambda: second.loops[0].status.complete_to == 25)
    assert len(replayed(await redis_stage.entries())) == 26


async def test_blocks_are_published_again(
    tmp_path: Path, sink: Sink, redis_stage: RedisStage
) -> None:
    wanted = publication(config := configured(tmp_path, redis_stage.url), "events")
    async with publishing(config) as running:
        status = running.loops[0].status
        await eventually(lambda: status.complete_to == 20)
        assert await replay(wanted, Span(5, 9)) == 5

        async def again() -> bool:
            found = await publication_status(wanted)
            return found.phase == "live" and found.state is not None and not found.missing

        await eventually(again)
    assert len(replayed(await redis_stage.entries())) == 21
    shown = publisher_view(await publication_status(wanted))
    assert (shown.phase, shown.leader, shown.published) == ("stopped", None, 21)
    assert (shown.start, shown.last_synced_block, shown.missing) == (0, 20, 0)
    with pytest.raises(Incomplete, match="20 of these blocks"):
        await replay(wanted, Span(11, HEAD))
    assert await sink.change_readers(CHAIN_ID) != {}
    await unregister(wanted)
    assert await sink.change_readers(CHAIN_ID) == {}
