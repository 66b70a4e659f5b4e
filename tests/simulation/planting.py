"""The search for a seed that finds a bug which was planted on purpose."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.run import Outcome

Plant = Callable[[pytest.MonkeyPatch], None]


def assert_found(plant: Plant, law: str, run: Callable[[int], Outcome], most_seeds: int) -> None:
    """Assert that one of the seeds breaks the law with the bug, and passes without it."""
    found: str | None = None
    seed = -1
    while found is None and seed < most_seeds:
        seed += 1
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(monkeypatch)
            found = run(seed).problem
    assert found is not None, f"not found in {most_seeds} runs"
    assert law in found
    assert run(seed).problem is None
