"""`make install` says at once why it cannot work, and in one line what it continues without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRETENDING = "import sys; sys.version_info = (3, 9, 2, 'final', 0); exec(sys.argv[1])"


@pytest.mark.parametrize("chosen", [[], ["PYTHON=python3.9"]], ids=["default", "chosen"])
def test_an_old_python_is_reported_before_anything_is_created(
    tmp_path: Path, chosen: list[str]
) -> None:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("python3", "python3.9"):
        old = tmp_path / name
        old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PRETENDING}" "$2"\n')
        old.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    refused = subprocess.run(
        ["make", "install", *chosen],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    name = "python3.9" if chosen else "python3"
    assert refused.returncode != 0
    assert refused.stderr.splitlines()[0] == (
        f"Gapless needs Python 3.11 or newer; {name} is 3.9.2. Set PYTHON=python3.11 or newer."
    )
    assert not (tmp_path / ".venv").exists()


def test_a_machine_without_cargo_is_told_so_in_one_line(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("requirements.lock", "pyproject.toml", ".venv/.installed"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "make", "find", "touch"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    installed = subprocess.run(
        ["make", "install"],
        cwd=tmp_path,
        env={"PATH": str(tools)},  # not that of a `make` that runs the tests
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / ".venv/.core").exists()
    reason = "the compiled core: cargo is not installed. Python decodes blocks, more slowly."
    assert (installed.stdout, installed.stderr) == (f"Continuing without {reason}\n", "")
