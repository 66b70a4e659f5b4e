"""Change answers at random until the time is over; both decoders must agree about each of them.

    python -m tests.fuzz [--seconds 60] [--seed FIRST]

Prints the smallest answer that they disagree about with the seed that finds it again, and exits
with 1. Without the compiled core there is nothing to compare, which it says in one line.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from gapless.chains import Level
from gapless.chains.evm.raw_block import EvmRawBlock
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
)
from tests.evm_core import CORE, assert_agree
from tests.unit.evm.answers import CHAIN, HEIGHT, rich_block
from tests.unit.evm.meanings import respelled, revalued
from tests.unit.evm.mutations import flipped, mutated

_ROUND = 100  # answers for one seed
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
    number, tried = options.seed, 0
    while time.monotonic() < ends:
        raws, wanted = subjects[number % len(subjects)]
        try:
            _compare(raws, wanted, number)
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed finds it again
            print(f"seed {number}: {type(error).__name__}: {error}")
            print("\n".join(getattr(error, "__notes__", ())))
            print(f"repeat it with: python -m tests.fuzz --seconds 1 --seed {number}")
            return 1
        number, tried = number + 1, tried + _ROUND
    print(f"both decoders agree about {tried:,} answers (seeds {options.seed} to {number - 1})")
    return 0


def _subjects(folder: Path) -> list[Answers]:
    """Answers to change: of simulated blocks, of one with every key, and of real ones."""
    subjects = [
        simulated_answers(Parameters(blocks=8, txs=3, fewest=0, seed=7), range(2, 5), folder),
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
        assert_agree(changed, wanted, data.draw(st.sets(st.sampled_from([raws[0].height]))))

    agree()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
