"""Units are read on as many threads as the decoder can use."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from gapless.chains.decoder import PYTHON, Decoder
from gapless.chains.family import Family
from gapless.pipeline.block_reader import reading_threads
from gapless.system import SYSTEM, usable_cores
from tests.toychain.family import ToyFamily

PARALLEL = Decoder("compiled", is_parallel=True)


def family_with(decoder: Decoder) -> Family:
    class Changed(ToyFamily):
        pass

    Changed.decoder = decoder
    return Changed()


@pytest.mark.parametrize(("decoder", "threads"), [(PYTHON, 1), (PARALLEL, 3)])
def test_a_thread_for_each_core_if_the_decoder_releases_the_lock(
    decoder: Decoder, threads: int
) -> None:
    started: list[int] = []

    def executor(number: int, name: str) -> Executor:
        started.append(number)
        return ThreadPoolExecutor(number, name)

    system = replace(SYSTEM, executor=executor, cores=lambda: 3)
    with reading_threads(family_with(decoder), system):
        pass
    assert started == [threads]


def test_they_read_at_the_same_time() -> None:
    system = replace(SYSTEM, cores=lambda: 2)
    both = Barrier(2)
    with reading_threads(family_with(PARALLEL), system) as threads:
        met = [threads.submit(both.wait, 10) for _ in range(2)]
        assert sorted(each.result(10) for each in met) == [0, 1]


def test_this_machine_has_a_core() -> None:
    assert usable_cores() >= 1
