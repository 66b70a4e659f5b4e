"""What every stream must do: record what was published, and refuse all else."""

from __future__ import annotations

import pytest

from gapless.core.errors import StreamRefused
from gapless.core.ranges import RangeSet, Span
from gapless.publishers.publisher import OutgoingBlock, PublishedBlock, Publisher
from tests.conformance.publisher.consumer import expected, replayed
from tests.conformance.publisher.stage import Stage, block, blocks

LEASE = 60.0


async def leading(stage: Stage, owner: str = "one", start: int = 10) -> Publisher:
    found = await stage.connect(owner)
    assert await found.lead(LEASE, force=True)
    await found.begin("sink", 0, start)
    return found


async def test_a_block_is_published_with_its_record(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.publish(blocks(10, 12), keep_from=11)
    record = await stream.record()
    assert (record.heights, record.head, record.complete_to) == (RangeSet.of((10, 12)), 12, 12)
    assert record.links == {each.height: each.link for each in blocks(11, 12)}
    assert replayed(await stage.entries()) == expected(blocks(10, 12))


async def test_blocks_arrive_in_any_order(stage: Stage) -> None:
    stream = await leading(stage)
    for first, last in ((30, 34), (20, 24), (25, 29), (10, 14), (16, 19)):
        await stream.publish(blocks(first, last), keep_from=0)
    record = await stream.record()
    assert record.heights == RangeSet.of((10, 14), (16, 34))
    assert (record.complete_to, record.head) == (14, 34)
    await stream.publish([block(15)], keep_from=0)
    record = await stream.record()
    assert (record.heights, record.complete_to) == (RangeSet.of((10, 34)), 34)
    assert replayed(await stage.entries()) == expected(blocks(10, 34))


async def test_nothing_is_complete_until_the_first_block_is_there(stage: Stage) -> None:
    stream = await leading(stage, start=10)
    await stream.publish(blocks(11, 12), keep_from=0)
    assert (await stream.record()).complete_to is None
    await stream.begin("sink", 0, 11)
    assert (await stream.record()).complete_to == 12


@pytest.mark.parametrize(("first", "last"), [(10, 10), (8, 10), (14, 16), (9, 15), (12, 13)])
async def test_no_block_is_published_twice(stage: Stage, first: int, last: int) -> None:
    stream = await leading(stage)
    await stream.publish(blocks(10, 14), keep_from=0)
    await _refused(stage, stream, stream.publish(blocks(first, last), keep_from=0))


async def test_a_block_must_be_linked_to_its_neighbours(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.publish([block(10)], keep_from=0)
    await stream.publish([block(14)], keep_from=0)
    await _refused(stage, stream, stream.publish([block(11, "b")], keep_from=0))
    await _refused(stage, stream, stream.publish([block(13, "b")], keep_from=0))
    await _refused(stage, stream, stream.publish([block(11), block(12, "b")], keep_from=0))
    await stream.publish(blocks(11, 13), keep_from=0)


async def test_groups_are_separate_steps(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.publish(blocks(10, 12), blocks(13, 13), blocks(20, 21), keep_from=0)
    await stream.publish(blocks(14, 19), keep_from=0)
    assert (await stream.record()).heights == RangeSet.of((10, 21))
    assert replayed(await stage.entries()) == expected(blocks(10, 21))


@pytest.mark.parametrize("bad", [[block(12, "b")], blocks(11, 12)], ids=["unlinked", "again"])
async def test_after_a_refused_group_no_other_is_written(
    stage: Stage, bad: list[OutgoingBlock]
) -> None:
    stream = await leading(stage)
    with pytest.raises(StreamRefused):
        await stream.publish(blocks(10, 11), bad, blocks(20, 21), keep_from=0)
    assert (await stream.record()).heights == RangeSet.of((10, 11))
    assert replayed(await stage.entries()) == expected(blocks(10, 11))


async def test_a_former_leader_writes_none_of_its_groups(stage: Stage) -> None:
    zombie = await leading(stage, "one")
    stream = await leading(stage, "two")
    groups = blocks(10, 11), blocks(12, 13), blocks(20, 21)
    await _refused(stage, stream, zombie.publish(*groups, keep_from=0))


async def test_links_of_old_blocks_are_forgotten(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.publish(blocks(10, 19), keep_from=0)
    await stream.publish(blocks(20, 20), keep_from=15)
    assert [*(await stream.record()).links] == [*range(15, 21)]


async def test_a_retraction_takes_a_block_back(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.publish(blocks(10, 14), keep_from=0)
    gone = [PublishedBlock(height, block(height).link.hash) for height in (14, 13)]
    await stream.retract(gone, 7)
    record = await stream.record()
    assert (record.heights, record.position, record.complete_to) == (RangeSet.of((10, 12)), 7, 12)
    assert [*record.links] == [10, 11, 12]
    await stream.publish([block(13, "b", "a"), block(14, "b")], keep_from=0)
    new = [*blocks(10, 12), block(13, "b", "a"), block(14, "b")]
    assert replayed(await stage.entries()) == expected(new)


async def test_a_block_in_the_middle_is_taken_back(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.publish(blocks(10, 14), keep_from=99)
    await stream.retract([PublishedBlock(12, None)], None)
    record = await stream.record()
    assert (record.heights, record.complete_to) == (RangeSet.of((10, 11), (13, 14)), 11)
    await stream.publish([block(12, "b")], keep_from=99)
    assert [*replayed(await stage.entries())] == [10, 11, 13, 14, 12]


async def test_a_wrong_retraction_is_refused(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.publish(blocks(10, 12), keep_from=0)
    good = PublishedBlock(12, block(12).link.hash)
    await _refused(stage, stream, stream.retract([good, PublishedBlock(13, None)], 7))
    other = PublishedBlock(11, block(11, "b").link.hash)
    await _refused(stage, stream, stream.retract([good, other], 7))


async def test_one_leads_at_a_time(stage: Stage) -> None:
    one, two = await stage.connect("one"), await stage.connect("two")
    assert await one.lead(LEASE)
    assert not await two.lead(LEASE)
    assert await one.lead(LEASE)
    await one.resign()
    assert await two.lead(LEASE)
    with pytest.raises(StreamRefused):
        await one.lead(LEASE)
    await two.resign()
    with pytest.raises(StreamRefused):  # what it knows about the stream is old
        await one.lead(LEASE)
    assert await two.lead(LEASE)
    leader = (await one.inspect()).leader
    assert leader is not None
    assert (leader.owner, leader.fence) == ("two", 2)
    assert 0 < leader.seconds <= LEASE


async def test_what_cannot_be_published_is_listed(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.set_aside({Span(1, 2): "first", Span(5, 5): "second"})
    await stream.set_aside({Span(5, 5): "third"})
    await stream.publish(blocks(10, 12), keep_from=0)
    state = await stream.inspect()
    assert (state.aside, state.entries) == ({"5": "third"}, 6)
    assert state.record == await stream.record()


async def test_a_former_leader_writes_nothing(stage: Stage) -> None:
    zombie = await leading(stage, "one")
    await zombie.publish(blocks(10, 12), keep_from=0)
    stream = await leading(stage, "two")
    gone = [PublishedBlock(12, block(12).link.hash)]
    await stream.retract(gone, 5)
    # It wakes up between the retraction and the new block.
    await _refused(stage, stream, zombie.publish([block(12)], keep_from=0))
    await _refused(stage, stream, zombie.retract([PublishedBlock(11, None)], 5))
    await _refused(stage, stream, zombie.begin("other", 9, 0))
    await stream.publish([block(12, "b", "a")], keep_from=0)


async def test_a_step_from_an_earlier_connection_is_refused(stage: Stage) -> None:
    earlier = await leading(stage, "one")
    later = await leading(stage, "one")
    await _refused(stage, later, earlier.publish([block(10)], keep_from=0))
    await later.publish([block(10)], keep_from=0)


async def test_a_flushed_server_knows_nothing(stage: Stage) -> None:
    before = await leading(stage)
    await before.publish(blocks(10, 12), keep_from=0)
    await stage.flush()
    with pytest.raises(StreamRefused):
        await before.publish([block(13)], keep_from=0)
    stream = await stage.connect("two")
    assert await stream.lead(LEASE)
    record = await stream.record()
    assert (record.heights, record.sink, record.start) == (RangeSet(), None, None)
    await stream.begin("sink", 0, 10)
    await stream.publish(blocks(10, 12), keep_from=0)
    assert replayed(await stage.entries()) == expected(blocks(10, 12))


async def test_a_copy_that_lacks_the_last_steps_is_noticed(stage: Stage) -> None:
    stream = await leading(stage)
    await stream.publish(blocks(10, 12), keep_from=0)
    await stage.save()
    await stream.publish(blocks(13, 14), keep_from=0)
    await stage.restore()
    with pytest.raises(StreamRefused):
        await stream.publish([block(15)], keep_from=0)
    with pytest.raises(StreamRefused):
        await stream.lead(LEASE)
    again = await leading(stage)
    assert (await again.record()).heights == RangeSet.of((10, 12))
    await again.publish(blocks(13, 15), keep_from=0)
    assert replayed(await stage.entries()) == expected(blocks(10, 15))


async def _refused(stage: Stage, stream: Publisher, step: object) -> None:
    """The step is refused, and has changed nothing."""
    record, entries = await stream.record(), [*await stage.entries()]
    with pytest.raises(StreamRefused):
        await step  # type: ignore[misc]
    assert await stream.record() == record
    assert await stage.entries() == entries
