"""The compiled core reads an answer in place only if nobody can change it meanwhile."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from gapless.devnode import Parameters
from tests.evm_answers import light, simulated_answers
from tests.evm_core import CORE, with_core

pytestmark = with_core


class Height:
    """A height whose conversion, after the answer before it was taken, changes that answer."""

    def __init__(self, height: int, change: Callable[[], None]) -> None:
        self._height, self._change = height, change

    def __index__(self) -> int:
        self._change()
        return self._height


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder: Path = tmp_path_factory.mktemp("cache")
    raws, _ = simulated_answers(Parameters(blocks=2, seed=2), range(2), folder)
    return [bytes(light(raw).block) for raw in raws]


def refused(answers: list[bytes], exported: object, change: Callable[[], None]) -> list[Any]:
    """What the core refuses if the first of two answers changes when the second is taken."""
    assert CORE.module is not None
    blocks = [
        (0, exported, None, None, None, False, 0, None),
        (Height(1, change), answers[1], None, None, None, False, 0, None),
    ]
    _, good, found, _ = CORE.module.read(blocks, True, ("ethereum", 0, 0), 0, 1337, ["blocks"])
    assert len(good) + len(found) == 2
    return [*found]


@pytest.mark.parametrize(
    "export",
    [bytearray, lambda it: memoryview(it).toreadonly(), lambda it: memoryview(it)[:]],
    ids=["bytearray", "read-only view", "view"],
)
def test_an_answer_that_can_change_is_copied(
    answers: list[bytes], export: Callable[[bytearray], object]
) -> None:
    owner = bytearray(answers[0])
    exported = owner if export is bytearray else export(owner)
    owner_view = memoryview(owner)

    def change() -> None:
        owner_view[:] = bytes(len(owner))

    assert not refused(answers, exported, change)
    assert owner == bytes(len(owner))


@pytest.mark.parametrize("export", [bytes, memoryview, Raw, lambda it: memoryview(Raw(it))])
def test_one_that_cannot_is_read_in_place(
    answers: list[bytes], export: Callable[[bytes], object]
) -> None:
    assert not refused(answers, export(answers[0]), lambda: None)


def test_the_smoke_test_of_wheels_works_here() -> None:
    script = Path(__file__).parents[3] / "scripts/core_smoke.py"
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert said.stdout.endswith("read a block\n")
