"""Reading real mainnet blocks with both decoders, on one core and on two.

Reading is what happens to an answer before it is written: parse it, check all roots, decode it to
tables. The blocks are those of `bench.decode`, in units of four, as a fetch reads them. Times of
one core are processor time. Two threads are compared with one in elapsed time, so other programs
must leave two cores free for that row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TypeAlias

from msgspec import Raw

from bench.decode import BLOCKS, CHAIN, answers
from bench.report import Row, at_least, median, median_ratio
from gapless.chains import Level, find_network
from gapless.chains.evm.family import EVM
from gapless.chains.evm.native import find
from gapless.chains.evm.native_reading import NativeCore, read_native
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.reading import read
from gapless.chains.evm.tables import TABLES
from gapless.chains.family import Reading, Wanted
from gapless.system import usable_cores

__all__ = ["BLOCKS", "measure"]

ROUNDS = 11
UNIT = 4  # blocks
PASSES = 8  # over all blocks, when threads are compared

Read: TypeAlias = Callable[[Sequence[EvmRawBlock]], Reading | None]


def measure() -> Iterator[Row]:
    units = _units()
    count = sum(map(len, units))
    size = sum(raw.size for unit in units for raw in unit) / count
    wanted = _wanted()
    core = find({}, import_module)
    yield Row("read: size of a block and its receipts", f"{size / 1000:.0f} kB")
    python = _python(wanted)
    if core.module is None:
        yield Row("read: Python, one core", _rate([_seconds(python, units)], count))
        yield Row(f"read: {core.decoder.unused_core}", "")
        return
    compiled = _compiled(core.module, wanted)
    slow, fast = [], []
    for _ in range(ROUNDS):
        slow.append(_seconds(python, units))
        fast.append(_seconds(compiled, units))
    per_second = count / median(fast)
    yield Row("read: Python, one core", _rate(slow, count))
    yield Row("read: compiled core, one core", _rate(fast, count), per_second, at_least(600))
    yield Row("read: compiled core over Python", "", median_ratio(slow, fast), at_least(5))
    if usable_cores() >= 2:
        yield _two_threads(compiled, units)


def _two_threads(compiled: Read, units: list[list[EvmRawBlock]]) -> Row:
    work = units * PASSES
    times: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(ROUNDS):
        for threads in (1, 2) if turn % 2 else (2, 1):
            times[threads].append(_elapsed(compiled, work, threads))
    count = sum(map(len, work))
    ratio = median_ratio(times[1], times[2])
    return Row("read: two threads over one", _rate(times[2], count), ratio, at_least(1.7))


def _units() -> list[list[EvmRawBlock]]:
    raws = [
        EvmRawBlock(
            int(json.loads(block)["number"], 16), Raw(block), Raw(receipts), None, "recorded"
        )
        for block, receipts in answers()
    ]
    return [raws[at : at + UNIT] for at in range(0, len(raws), UNIT)]


def _wanted() -> Wanted:
    datasets = frozenset(table.name for table in TABLES)
    return Wanted(find_network("ethereum"), CHAIN, EVM.level(Level.AUTO, datasets), datasets)


def _python(wanted: Wanted) -> Read:
    return lambda raws: read(raws, wanted, (), whole=False)


def _compiled(core: NativeCore, wanted: Wanted) -> Read:
    return lambda raws: read_native(core, raws, wanted, (), whole=False)


def _seconds(work: Read, units: list[list[EvmRawBlock]]) -> float:
    started = time.process_time()
    for unit in units:
        found = work(unit)
        assert found is not None
        assert not found.refused
    return time.process_time() - started


def _elapsed(work: Read, units: list[list[EvmRawBlock]], threads: int) -> float:
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(work, units))
        return time.perf_counter() - started


def _rate(seconds: Sequence[float], count: int) -> str:
    each = median(seconds) / count
    return f"{1 / each:.0f} blocks/s, {each * 1000:.2f} ms"
