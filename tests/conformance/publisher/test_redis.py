"""What only Redis has: keys that others read, trimming, clusters, and servers with moods."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
import redis.asyncio as client

from gapless.core.errors import StreamRefused, StreamUnreachable, StreamUnusable, UsageError
from gapless.core.ranges import RangeSet
from gapless.publishers.publisher import PublishedBlock, Publisher
from gapless.publishers.redis.publisher import RedisPublisher
from gapless.publishers.redis.url import StreamUrl
from tests.conformance.publisher.consumer import expected, replayed
from tests.conformance.publisher.stage import STREAM, RedisStage, block, blocks, seen
from tests.redis_server import RedisServer
from tests.waiting import eventually


async def leading(stage: RedisStage, owner: str = "one") -> Publisher:
    found = await stage.connect(owner)
    assert await found.lead(60)
    await found.begin("sink", 0, 10)
    return found


async def keys(stage: RedisStage) -> set[str]:
    return {each.decode() for each in await stage.redis.keys()}


async def test_the_keys_that_others_read(redis_stage: RedisStage) -> None:
    stream, redis = await leading(redis_stage), redis_stage.redis
    await stream.publish(blocks(12, 14), keep_from=0)
    assert await redis.get("test:last_synced_block") is None
    assert await redis.get("test:head") == b"14"
    await stream.publish(blocks(10, 11), keep_from=0)
    assert await redis.get("test:last_synced_block") == b"14"
    await stream.retract([PublishedBlock(14, None), PublishedBlock(13, None)], None)
    assert await redis.get("test:last_synced_block") == b"12"
    assert await redis.get("test:head") == b"12"
    beside = {"events", "publisher", "published", "links", "last_synced_block", "head"}
    assert await keys(redis_stage) == {f"test:{name}" for name in beside}


async def test_there_is_no_key_per_height(redis_stage: RedisStage) -> None:
    stream = await leading(redis_stage)
    for first in range(10, 410, 100):
        await stream.publish(blocks(first, first + 99), keep_from=first)
    assert len(await keys(redis_stage)) == 6
    assert await redis_stage.redis.zcard("test:published") == 1
    assert await redis_stage.redis.zcard("test:links") == 100


async def test_a_deleted_stream_is_published_again(redis_stage: RedisStage) -> None:
    stream = await leading(redis_stage)
    await stream.publish(blocks(10, 12), keep_from=0)
    await redis_stage.redis.delete(STREAM)
    with pytest.raises(StreamRefused, match="was deleted"):
        await stream.lead(60)
    with pytest.raises(StreamRefused, match="was deleted"):
        await stream.publish([block(13)], keep_from=0)
    again = await leading(redis_stage)
    assert (await again.record()).heights == RangeSet()
    await again.publish(blocks(10, 13), keep_from=0)
    assert replayed(await redis_stage.entries()) == expected(blocks(10, 13))


async def test_a_key_of_another_kind_is_refused_before_anything_is_written(
    redis_stage: RedisStage,
) -> None:
    stream = await leading(redis_stage)
    await redis_stage.redis.set("test:links", "mine")
    with pytest.raises(StreamRefused, match="`test:links` is a string"):
        await stream.publish(blocks(10, 12), keep_from=0)
    assert await redis_stage.redis.exists(STREAM) == 0


async def test_two_streams_cannot_share_their_keys(redis_stage: RedisStage) -> None:
    await leading(redis_stage)
    url = StreamUrl.parse(redis_stage.url)
    other = await RedisPublisher.open(url, "test:others", "two")
    try:
        with pytest.raises(StreamRefused, match="belongs to the stream `test:events`"):
            await other.lead(60)
    finally:
        await other.close()


async def test_scripts_are_loaded_again(redis_stage: RedisStage) -> None:
    stream = await leading(redis_stage)
    await stream.publish([block(10)], keep_from=0)
    await redis_stage.redis.script_flush()
    await stream.publish([block(11)], keep_from=0)
    assert (await stream.record()).heights == RangeSet.of((10, 11))


async def test_a_full_server_is_tried_again(redis_stage: RedisStage) -> None:
    stream, redis = await leading(redis_stage), redis_stage.redis
    await redis.config_set("maxmemory", "1")
    try:
        with pytest.raises(StreamUnreachable, match="cannot serve for now"):
            await stream.publish(blocks(10, 12), keep_from=0)
        assert await redis.exists(STREAM) == 0, "nothing is written in part"
    finally:
        await redis.config_set("maxmemory", "0")
    await stream.publish(blocks(10, 12), keep_from=0)


async def test_a_wrong_password(redis_stage: RedisStage) -> None:
    with RedisServer(settings=("--requirepass", "right")) as server:
        url = server.url.replace("//", "//:wr0ngpassword@")
        with pytest.raises(StreamUnusable) as refused:
            await RedisPublisher.open(StreamUrl.parse(url), STREAM, "one")
    assert refused.value.hint is not None
    assert "wr0ngpassword" not in str(refused.value)


async def test_trimming_keeps_what_nobody_has_acknowledged(redis_stage: RedisStage) -> None:
    stream, redis = await leading(redis_stage), redis_stage.redis
    await stream.publish([block(height, entries=0) for height in range(10, 30)], keep_from=0)
    assert await stream.trim(5) == 0, "there is no group, so nothing is acknowledged"
    for group in ("fast", "slow"):
        await redis.xgroup_create(STREAM, group, id="0")
    assert await stream.trim(5) == 0, "nothing was read"
    ((_, fast),) = await redis.xreadgroup("fast", "a", {STREAM: ">"}, count=20)
    ((_, slow),) = await redis.xreadgroup("slow", "a", {STREAM: ">"}, count=8)
    await redis.xack(STREAM, "fast", *[each for each, _ in fast])
    assert await stream.trim(5) == 0, "what is read is not acknowledged"
    await redis.xack(STREAM, "slow", *[each for each, _ in slow if each != slow[3][0]])
    assert await stream.trim(5) == 3, "the fourth is still pending"
    await redis.xack(STREAM, "slow", slow[3][0])
    assert await stream.trim(5) == 5, "the others were not read by all"
    ((_, slow),) = await redis.xreadgroup("slow", "a", {STREAM: ">"}, count=100)
    await redis.xack(STREAM, "slow", *[each for each, _ in slow])
    assert await stream.trim(5) == 7
    left = [seen(fields).height for _, fields in await redis.xrange(STREAM)]
    assert left == [*range(25, 30)]
    await stream.publish([block(30)], keep_from=0)
    assert (await stream.record()).heights == RangeSet.of((10, 30))


async def test_a_stream_on_a_cluster_is_in_one_slot() -> None:
    """The node of the URL is not the one that owns the slot."""
    with ExitStack() as running:
        servers = [running.enter_context(RedisServer(cluster=True)) for _ in range(3)]
        stages = [RedisStage(server.url) for server in servers]
        await _join(stages, [server.port for server in servers])
        cluster: Any = client.RedisCluster.from_url(servers[0].url)
        try:
            stream = await leading(stages[0])
            await stream.publish(blocks(10, 11), blocks(12, 12), keep_from=0)
            with pytest.raises(StreamRefused):
                await stream.publish(blocks(13, 13), blocks(12, 12), blocks(20, 21), keep_from=0)
            entries = [seen(fields) for _, fields in await cluster.xrange("{test}:events")]
            assert replayed(entries) == expected(blocks(10, 13))
            assert await cluster.get("{test}:last_synced_block") == b"13"
            owner = await keys(stages[1])
            assert "{test}:events" in owner
            assert all(name.startswith("{test}:") for name in owner)
        finally:
            await cluster.aclose()
            for stage in stages:
                await stage.close()


async def _join(stages: Sequence[RedisStage], ports: Sequence[int]) -> None:
    """Makes single nodes a cluster, each with a part of the slots."""
    share = -(-16384 // len(stages))
    for nth, stage in enumerate(stages):
        slots = range(nth * share, min(16384, (nth + 1) * share))
        await stage.redis.execute_command("CLUSTER", "SET-CONFIG-EPOCH", nth + 1)
        await stage.redis.execute_command("CLUSTER", "ADDSLOTS", *slots)
    for port in ports[1:]:
        await stages[0].redis.execute_command("CLUSTER", "MEET", "127.0.0.1", port)
    for stage in stages:
        await eventually(partial(_is_up, stage, len(stages)))


async def _is_up(stage: RedisStage, nodes: int) -> bool:
    told = await stage.redis.execute_command("CLUSTER", "INFO")
    return b"cluster_state:ok" in told and b"cluster_size:%d" % nodes in told


@pytest.mark.parametrize(
    "text",
    ["http://host", "redis://", "redis://host/a", "redis://host:port/0", "redis://h/0?db=1", "x"],
)
def test_a_wrong_url(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        StreamUrl.parse(text)
    assert refused.value.hint
