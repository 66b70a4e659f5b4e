"""Every peer in its own environment, at the pinned version; or the reason why it is missing.

Done once: what was installed is recorded next to it, and it is installed again when the pins
change.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
HOME = HERE.parents[1] / ".tools" / "peers"


class NotInstalled(Exception):
    """A peer could not be installed; the message says why."""


def python_packages(name: str) -> None:
    """A virtual environment with exactly the packages of `NAME.txt`."""
    pins = HERE / f"{name}.txt"

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)])
        # The list is complete, and contains versions that the packages would not allow each other.
        quiet = ["-qq", "--disable-pip-version-check", "--no-deps"]
        _run([str(folder / "bin/python"), "-m", "pip", "install", *quiet, "-r", str(pins)])

    _once(name, [pins], install)


def node_packages(name: str) -> None:
    """The npm packages that `NAME/` locks."""
    pins = [HERE / name / "package.json", HERE / name / "package-lock.json"]

    def install(folder: Path) -> None:
        if shutil.which("npm") is None:
            raise NotInstalled("there is no npm")
        folder.mkdir(parents=True, exist_ok=True)
        for pin in pins:
            shutil.copy(pin, folder)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        _run(["npm", "ci", "--prefix", str(folder), *quiet])

    _once(name, pins, install)


def _once(name: str, pins: Sequence[Path], install: Callable[[Path], None]) -> None:
    folder, wanted = HOME / name, b"".join(pin.read_bytes() for pin in pins)
    stamp = folder / ".installed"
    if not stamp.exists() or stamp.read_bytes() != wanted:
        install(folder)
        stamp.write_bytes(wanted)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tool = "npm" if command[0] == "npm" else "pip"
        raise NotInstalled(f"{tool} ended with exit code {done.returncode}")
