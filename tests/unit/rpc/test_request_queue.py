"""Slots and pace are granted together, the priority lane first, and nothing is lost by a cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.lanes import Lane, in_lane
from gapless.providers.pace import Pacer
from gapless.providers.request_queue import RESERVED_SECONDS, RequestQueue, RequestSize
from tests.simulation.loop import START, VirtualLoop

ORDINARY, PRIORITY = Lane.ORDINARY, Lane.PRIORITY


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs a test on virtual time."""

    @wraps(test)
    def run(*arguments: object, **named: object) -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(test(*arguments, **named))
        finally:
            loop.close()

    return run


def now() -> float:
    """Virtual seconds since the start."""
    return asyncio.get_running_loop().time() - START


async def settled() -> None:
    """Returns when everything has happened that may happen now."""
    for _ in range(5):
        await asyncio.sleep(0)


class Provider:
    """What a provider allows, and the requests that were sent to it."""

    def __init__(self, slots: int = 1, rate: float | None = None) -> None:
        self.allowed = slots
        self.largest = 100
        self.resting = False
        self._pacer = Pacer(rate)
        self.queue = RequestQueue(self, asyncio.get_running_loop().time)
        self.sent: list[tuple[str, float]] = []
        self.unsent: list[str] = []

    def slots(self) -> int:
        return self.allowed

    def wait(self, now: float) -> float:
        return self._pacer.wait(now)

    def accepts(self, size: RequestSize, now: float) -> bool:
        return not self.resting and size.calls <= self.largest

    def take(self, calls: int, now: float) -> None:
        self._pacer.take(calls, now)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.sent]

    def ask(
        self, name: str, lane: Lane = ORDINARY, calls: int = 1, seconds: float = 0.0
    ) -> asyncio.Task[None]:
        """Starts a request that takes this long to be answered."""

        async def request() -> None:
            async with self.queue.turn(RequestSize(calls, calls)) as sent_at:
                if sent_at is None:
                    self.unsent.append(name)
                    return
                assert self.queue.in_flight <= self.allowed
                self.sent.append((name, now()))
                await asyncio.sleep(seconds)

        with in_lane(lane):
            return asyncio.create_task(request())

    def is_empty(self) -> bool:
        return (self.queue.in_flight, self.queue.waiting) == (0, 0)


@virtual
async def test_first_come_first_served_and_never_too_many() -> None:
    provider = Provider(slots=3)
    await asyncio.gather(*(provider.ask(str(at), seconds=at % 4) for at in range(40)))
    assert provider.names == [str(at) for at in range(40)]
    assert provider.is_empty()


@virtual
async def test_the_slots_may_change() -> None:
    provider = Provider(slots=1)
    asks = [provider.ask(str(at), seconds=1) for at in range(6)]
    await settled()
    assert (provider.queue.in_flight, provider.queue.waiting) == (1, 5)
    provider.allowed = 3
    provider.queue.grant()
    assert (provider.queue.in_flight, provider.queue.waiting) == (3, 3)
    await settled()
    provider.allowed = 4  # noticed when a request leaves
    await asyncio.gather(*asks)
    assert [at for _, at in provider.sent] == [0, 0, 0, 1, 1, 1]
    assert provider.is_empty()


@virtual
async def test_priority_overtakes_even_the_first_that_waits_for_the_pace() -> None:
    provider = Provider(slots=8, rate=20)
    asks = [provider.ask(str(at), calls=10) for at in range(4)]
    await asyncio.sleep(0.2)
    asks.append(provider.ask("head", PRIORITY, calls=2))
    await asyncio.gather(*asks)
    assert provider.names == ["0", "head", "1", "2", "3"]
    assert [at for _, at in provider.sent] == pytest.approx([0, 0.5, 0.6, 1.1, 1.6])


@virtual
async def test_within_the_priority_lane_it_is_first_come_first_served_too() -> None:
    provider = Provider(rate=1)
    lanes = [ORDINARY, PRIORITY, ORDINARY, PRIORITY, PRIORITY]
    await asyncio.gather(*(provider.ask(str(at), lane) for at, lane in enumerate(lanes)))
    assert provider.names == ["0", "1", "3", "4", "2"]


@virtual
async def test_a_request_that_waits_for_the_pace_has_no_slot() -> None:
    provider = Provider(slots=2, rate=1)
    asks = [provider.ask(str(at), calls=5, seconds=0.1) for at in range(3)]
    await asyncio.sleep(1)
    assert (provider.queue.in_flight, provider.queue.waiting) == (0, 2)
    await asyncio.gather(*asks)
    assert [at for _, at in provider.sent] == pytest.approx([0, 5, 10])


@virtual
async def test_the_ordinary_lane_gets_all_that_the_priority_lane_leaves() -> None:
    """A head that asks once a second at ten calls per second leaves nine of them."""
    provider = Provider(slots=4, rate=10)
    asks = [provider.ask("history", seconds=0.2) for _ in range(300)]
    for _ in range(20):
        asks.append(provider.ask("head", PRIORITY, seconds=0.05))
        await asyncio.sleep(1)
    sent = [name for name, at in provider.sent if at < 20]
    assert sent.count("head") == 20
    assert sent.count("history") == pytest.approx(180, abs=2)
    await asyncio.gather(*asks)


@virtual
async def test_a_slot_is_reserved_while_the_priority_lane_is_in_use() -> None:
    provider = Provider(slots=3)
    history = [provider.ask("history", seconds=1000) for _ in range(5)]
    await settled()
    assert provider.queue.in_flight == 3  # all of them, for nobody else has asked
    for task in history[:3]:
        task.cancel()
    head = provider.ask("head", PRIORITY, seconds=1)
    await settled()
    assert sorted(provider.names[3:]) == ["head", "history", "history"]
    history += [provider.ask("history", seconds=1000) for _ in range(2)]
    await head
    await settled()
    assert (provider.queue.in_flight, provider.queue.waiting) == (2, 2)
    again = provider.ask("head", PRIORITY, seconds=1)
    await settled()
    assert provider.names[-1] == "head"  # at once
    await again
    await asyncio.sleep(RESERVED_SECONDS)
    provider.queue.grant()
    assert (provider.queue.in_flight, provider.queue.waiting) == (3, 1)
    for task in history:
        task.cancel()
    await asyncio.gather(*history, return_exceptions=True)


@virtual
async def test_a_single_slot_is_not_reserved() -> None:
    provider = Provider(slots=1)
    await provider.ask("head", PRIORITY)
    await provider.ask("history")
    assert provider.names == ["head", "history"]


@pytest.mark.parametrize("change", ["resting", "smaller batches"])
def test_what_changed_while_a_request_waited_is_noticed_when_it_could_be_sent(change: str) -> None:
    @virtual
    async def test() -> None:
        provider = Provider(rate=10)
        asks = [provider.ask(str(at), calls=10, seconds=0.1) for at in range(3)]
        await settled()
        if change == "resting":
            provider.resting = True
        else:
            provider.largest = 5
        await asyncio.gather(*asks)
        assert now() == pytest.approx(1)  # not sent, so nobody waited for the calls of another
        assert (provider.names, provider.unsent) == (["0"], ["1", "2"])
        assert provider.is_empty()

    test()


@virtual
async def test_a_request_cancelled_at_the_moment_of_its_turn_leaves_its_slot() -> None:
    provider = Provider(slots=1)
    first, second, third = (provider.ask(name, seconds=1) for name in "abc")
    await settled()
    first.cancel()
    await asyncio.sleep(0)
    assert (provider.queue.in_flight, provider.queue.waiting) == (1, 1)  # `b` has it, unknowingly
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert provider.names == ["a", "c"]
    assert provider.is_empty()


@pytest.mark.parametrize("seed", range(20))
def test_requests_cancelled_at_any_moment_lose_no_slot(seed: int) -> None:
    @virtual
    async def test() -> None:
        chance, provider = Random(seed), Provider(slots=2, rate=1000)
        asks = [provider.ask(str(at), chance.choice(list(Lane))) for at in range(20)]
        for _ in range(12):
            await asyncio.sleep(chance.choice([0, 0, 0.001]))
            chance.choice(asks).cancel()
        await asyncio.gather(*asks, return_exceptions=True)
        assert provider.is_empty()
        asks = [provider.ask("later", PRIORITY, seconds=1) for _ in range(2)]
        await asyncio.sleep(0.5)
        assert provider.queue.in_flight == 2
        await asyncio.gather(*asks)

    test()


class Model:
    """The same rules, written down as simply as possible. One call per second, and no clock."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.now = self.free_at = 0
        self.reserved = False
        self.waiting: list[tuple[str, Lane, int]] = []
        self.in_flight: dict[str, Lane] = {}
        self.sent: list[tuple[str, float]] = []

    def ask(self, name: str, lane: Lane, calls: int) -> None:
        self.waiting.append((name, lane, calls))
        self.reserved |= lane is PRIORITY
        self._send()

    def end(self, name: str) -> None:
        self.in_flight.pop(name, None)
        self.waiting = [each for each in self.waiting if each[0] != name]
        self._send()

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self._send()

    def _send(self) -> None:
        while self.waiting and self.now >= self.free_at:
            chosen = min(self.waiting, key=lambda each: each[1] is ORDINARY)
            name, lane, calls = chosen
            ordinary = sum(each is ORDINARY for each in self.in_flight.values())
            spared = self.reserved and self.slots > 1 and lane is ORDINARY
            if len(self.in_flight) >= self.slots or (spared and ordinary >= self.slots - 1):
                return
            self.waiting.remove(chosen)
            self.in_flight[name] = lane
            self.sent.append((name, self.now))
            self.free_at = self.now + calls


steps = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(Lane), st.integers(1, 3)),
    st.tuples(st.just("end"), st.integers(0, 9), st.just(0)),  # answered, or cancelled
    st.tuples(st.just("wait"), st.integers(1, 2), st.just(0)),
)


@given(st.integers(1, 3), st.lists(steps, max_size=25))
def test_it_sends_what_the_model_sends_and_when(
    slots: int, steps: list[tuple[str, Lane | int, int]]
) -> None:
    @virtual
    async def test() -> None:
        provider, model = Provider(slots, rate=1), Model(slots)
        open_: dict[str, asyncio.Task[None]] = {}
        for at, (step, value, calls) in enumerate(steps):
            if step == "ask":
                assert isinstance(value, Lane)
                open_[str(at)] = provider.ask(str(at), value, calls, seconds=10_000)
                model.ask(str(at), value, calls)
            elif step == "wait":
                assert isinstance(value, int)
                await asyncio.sleep(value)
                model.wait(value)
            elif open_:
                assert isinstance(value, int)
                name = list(open_)[value % len(open_)]
                open_.pop(name).cancel()
                model.end(name)
            await settled()
            assert provider.sent == model.sent
            assert provider.queue.in_flight == len(model.in_flight)
            assert provider.queue.waiting == len(model.waiting)
        for task in open_.values():
            task.cancel()
        await asyncio.gather(*open_.values(), return_exceptions=True)
        assert provider.is_empty()

    test()
