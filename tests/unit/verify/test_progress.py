"""The progress of a deep verification, and its final speed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from gapless.chains.opening import open_sink
from gapless.cli.app import main
from gapless.cli.verify import RowProgress
from gapless.core.ranges import Span
from tests.conformance.sink.stage import batch, rows_of
from tests.evm import EVERY_TABLE

ROWS = 1_000_000
Watched = Callable[..., str]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Watched:
    """What is printed if each of these moments sees another quarter of the rows read."""

    def run(*moments: float) -> str:
        now = iter([0.0, *moments, moments[-1]])
        monkeypatch.setattr("gapless.cli.verify.time", SimpleNamespace(monotonic=lambda: next(now)))
        progress = RowProgress(ROWS)
        for _ in moments:
            progress.advance(ROWS // 4)
        progress.end()
        return capsys.readouterr().err

    return run


def test_a_long_verification_reports_progress_and_speed(watched: Watched) -> None:
    assert watched(5.0, 10.0, 15.0, 20.0).splitlines() == [
        "verifying  50%  500k/1.0M rows  50.0k rows/s",
        "verifying  100%  1.0M/1.0M rows  50.0k rows/s",
        "1,000,000 rows read in 20s, 50.0k rows/s",
    ]


def test_a_short_verification_reports_nothing(watched: Watched) -> None:
    assert watched(0.1, 0.2, 0.3, 0.4) == ""


def test_the_command_counts_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fill() -> None:
        async with await open_sink(f"{tmp_path}/blocks.db") as sink:
            await sink.write(batch(0, 9), 5)

    asyncio.run(fill())
    monkeypatch.setattr("gapless.cli.verify._WORTH_TELLING", 0.0)
    monkeypatch.setattr(sys, "argv", ["gapless", "verify", f"{tmp_path}/blocks.db", "--deep"])
    with pytest.raises(SystemExit):
        main()
    total = sum(rows_of(each.name, Span(0, 9)).num_rows for each in EVERY_TABLE)
    assert capsys.readouterr().err.startswith(f"{total} rows read in ")
