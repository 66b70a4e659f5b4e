"""A module that cannot be imported does no harm to the worker, whatever it raises."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.runtime.catalog import Catalog

RAISES = {
    "a text that no database takes": (r'raise ValueError("a\0b\ud800")', r"a\x00b\ud800"),
    "no text": ("class E(Exception):\n  def __str__(self): 1 / 0\nraise E", "raised ZeroDivision"),
    "an exit": ("raise SystemExit(3)", "SystemExit: 3"),
    "a secret": ("raise OSError('https://user:pw@h/KEY')", "https://h/…"),
    "a generator for a job": (
        "import gapless\n@gapless.job(partitions=gapless.block_heights())\ndef j(c, x): yield",
        "`j` is a generator",
    ),
}


@pytest.mark.parametrize("kind", RAISES)
def test_the_reason_can_be_stored(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, reason = RAISES[kind]
    module = "raises_" + kind.replace(" ", "_")
    (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    catalog = Catalog(importing=True)
    catalog.resolve([(f"{module}:job", 1)])
    assert reason in catalog.unresolved[f"{module}:job"]
