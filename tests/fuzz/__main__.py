"""Change answers and rows at random until the time is over; both decoders must agree about each.

    python -m tests.fuzz [--seconds 60] [--seed FIRST]

Prints what they disagree about (of answers, the smallest), the seed that finds it again, and exits
with 1. Without the compiled core there is nothing to compare, which it says in one line.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from gapless.chains import Level
from gapless.chains.evm.family import EVM
from gapless.chains.evm.networks import EvmNetwork
from gapless.chains.evm.raw_block import EvmRawBlock
from gapless.chains.evm.reading import read
from gapless.chains.family import Wanted
from gapless.devnode import Parameters
from tests.data.recorded import real_blocks
from tests.evm_answers import (
    SMALL,
    Answers,
    raw_block,
    simulated_answers,
    small_real_answer,
    wanted_of,
    without_receipts,
)
from tests.evm_core import CORE, assert_agree
from tests.evm_rows import altered, assert_examined_equally
from tests.unit.evm.answers import CHAIN, HEIGHT, rich_block
from tests.unit.evm.meanings import respelled, revalued
from tests.unit.evm.mutations import flipped, mutated, texts_of

_LEVELS = (Level.OFF, Level.LINKS, Level.ROOTS, Level.SENDERS)
_ROUND = 100  # answers for one seed
_ROW_ROUNDS = 5  # one seed of so many is for rows
_SETTINGS = settings(
    max_examples=_ROUND,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def main() -> int:
    options = _options()
    if CORE.module is None:
        print(f"Nothing to compare: {CORE.decoder.unused_core}.")
        return 0
    ends = time.monotonic() + options.seconds
    with TemporaryDirectory() as folder:
        subjects = _subjects(Path(folder))
    number, tried, altered_rows = options.seed, 0, 0
    while time.monotonic() < ends:
        raws, wanted = subjects[number % len(subjects)]
        level = _LEVELS[number // len(subjects) % len(_LEVELS)]
        checks = EVM.level(level, wanted.datasets)
        try:
            if number % _ROW_ROUNDS == 0:
                altered_rows += _compare_rows(raws, replace(wanted, checks=checks), number)
            else:
                _compare(raws, replace(wanted, checks=checks), number)
                tried += _ROUND
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed finds it again
            print(f"seed {number}: {type(error).__name__}: {error}")
            print("\n".join(getattr(error, "__notes__", ())))
            print(f"repeat it with: python -m tests.fuzz --seconds 1 --seed {number}")
            return 1
        number += 1
    what = f"{tried:,} answers and {altered_rows:,} altered values of rows"
    print(f"both decoders agree about {what} (seeds {options.seed} to {number - 1})")
    return 0


def _subjects(folder: Path) -> list[Answers]:
    """Answers to change: of simulated blocks, of one with every key, and of real ones."""
    parameters = Parameters(blocks=8, txs=3, fewest=0, seed=7)
    raws, wanted = simulated_answers(parameters, range(2, 5), folder)
    subjects = [
        (raws, wanted),
        ([*map(without_receipts, raws)], wanted),
        ([raw_block(HEIGHT, *rich_block())], wanted_of("custom", CHAIN, Level.OFF)),
    ]
    for at in range(len(SMALL)) if real_blocks() else ():
        raw, wanted = small_real_answer(at)
        subjects.append(([raw], wanted))
    return subjects


def _compare(raws: Sequence[EvmRawBlock], wanted: Wanted, number: int) -> None:
    @seed(number)
    @given(data=st.data())
    @_SETTINGS
    def agree(data: st.DataObject) -> None:
        changes = (
            mutated(raws),
            flipped(raws),
            respelled(raws),
            revalued(raws).map(lambda it: it[1]),
        )
        changed = data.draw(st.one_of(*changes))
        samples = data.draw(st.sets(st.sampled_from([raws[0].height])))
        try:
            assert_agree(changed, wanted, samples)
        except AssertionError as error:
            error.add_note("\n".join(_texts(raws, changed)))
            raise

    agree()


def _compare_rows(raws: Sequence[EvmRawBlock], wanted: Wanted, number: int) -> int:
    """Change one value of every column in turn; return how many were changed."""
    network, tried = wanted.network, 0
    assert isinstance(network, EvmNetwork)
    tables = read(raws, wanted, (), whole=False).tables
    for what, changed in altered(tables, number) if tables else ():
        try:
            assert_examined_equally(changed, network, wanted.chain_id, wanted.checks)
        except AssertionError as error:
            error.add_note(what)
            raise
        tried += 1
    return tried


def _texts(raws: Sequence[EvmRawBlock], changed: Sequence[EvmRawBlock]) -> Iterator[str]:
    """Yield the answers that were changed, as bytes in the notation of Python."""
    for before, after in zip(raws, changed, strict=True):
        if before is not after:
            yield f"block {after.height}:"
            yield from map(repr, texts_of(after))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
